"""The host compilers and the glibc that cuda-nvcc admits are those that the headers of the same
release take.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import IndexUnavailable
from ctk.fetch.fetch import laid_out, locate
from ctk.index.index import Index
from ctk.lock.model import Artefact, release_locks
from ctk.plan.plan import Plan, planned_repodata

# Compiler toolset of Visual Studio 2022, the vs2022_<subdir> that cuda-nvcc requires: _MSC_VER 1930
# to 1949.
VS2022 = range(1930, 1950)
# The functions that math.h got with each glibc, as its NEWS lists them; all are noexcept in C++. A
# header of CUDA that declares one of them otherwise is an error in every .cu file: seen with the
# headers of Debian's glibc 2.41 and 2.43.
NEW_IN_GLIBC = {
    "2.41": {"acospi", "asinpi", "atan2pi", "atanpi", "cospi", "sinpi", "tanpi"},
    "2.42": {"compoundn", "pown", "powr", "rootn", "rsqrt"},
}
Bounds = dict[tuple[str, str, str], set[str]]
"""By CTK minor, subdir of the compiler, and package without its subdir."""
DECLARED = re.compile(
    r"^extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ .*?\b(\w+)\([^;]*\)([^();]*);", re.M
)


@pytest.fixture(scope="module")
def headers(project: Workspace) -> Mapping[tuple[str, str], str]:
    """The texts of the headers, by CTK minor and subdir: from the cache, or these files from the
    index.
    """
    locks = [lock for lock in release_locks(project).values() if lock.is_ctk]
    named = {
        (lock.minor, s): a
        for lock in locks
        for s, a in lock.components["crt"].artefacts.items()
        if a
    }
    with Index() as index, ThreadPoolExecutor() as threads:
        return dict(
            zip(
                named, threads.map(lambda a: header(a, project, index), named.values()), strict=True
            )
        )


def header(artefact: Artefact, project: Workspace, index: Index) -> str:
    def read(wheel: zipfile.ZipFile) -> str:
        names = [
            n
            for n in wheel.namelist()
            if n.endswith(("/crt/host_config.h", "/crt/math_functions.h"))
        ]
        assert len(names) == 2
        return "\n".join(wheel.read(name).decode() for name in names).replace("\r\n", "\n")

    if laid_out(artefact, project).exists():
        with zipfile.ZipFile(laid_out(artefact, project)) as wheel:
            return read(wheel)
    try:
        with index.opened(locate(index, artefact)) as stream, zipfile.ZipFile(stream) as wheel:
            return read(wheel)
    except IndexUnavailable as problem:
        pytest.skip(
            f"{artefact.file} is not in the cache, and the index cannot be reached: {problem}"
        )


@pytest.fixture(scope="module")
def bounds(whole: Plan) -> Bounds:
    """What the packages of cuda-nvcc say of the compilers and the glibc that are compiled with."""
    found: Bounds = defaultdict(set)
    nvcc = tuple(build for build in whole.builds if build.recipe.name == "cuda-nvcc")
    for subdir, index in planned_repodata(replace(whole, builds=nvcc)).items():
        for record in index["packages.conda"].values():
            (minor,) = re.findall(
                r"^cuda-version >=([\d.]+),<", "\n".join(record["depends"]), re.M
            )[:1] or [""]
            for spec in record.get("constrains", ()):
                name, _, bound = spec.partition(" ")
                tool = re.fullmatch(r"(vc|(gcc_impl|clangxx|sysroot)_(\S+))", name)
                if tool:
                    found[minor, tool[3] or subdir, tool[2] or "vc"].add(bound)
    return found


def gcc(text: str) -> set[str]:
    (newest,) = map(int, re.findall(r"^#if __GNUC__ > (\d+)$", text, re.M))
    return {f">=6,<{newest + 1}.0a0"}


def clang(text: str) -> set[str]:
    """The last such line is for clang in general; one above it is for another system."""
    above = re.findall(
        r"^#if \(__clang_major__ >= (\d+)\) \|\| \(__clang_major__ < 3\)", text, re.M
    )[-1]
    return {f"<{above}.0a0"}


def glibc(text: str) -> set[str]:
    """Older than the first that the header contradicts."""
    declared = DECLARED.findall(text)
    assert {"cospi", "rsqrt", "sin"} <= {name for name, _ in declared}
    throwing = {name for name, specifier in declared if not specifier.strip()}
    refused = [version for version, new in NEW_IN_GLIBC.items() if new & throwing]
    return {f"<{version}" for version in refused[:1]}


def visual_studio(text: str) -> set[str]:
    """_MSC_VER 1920 is the compiler of toolset 14.20, which conda's packages call vc 14.2."""
    ((oldest, above),) = re.findall(r"^#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)$", text, re.M)
    assert int(oldest) <= VS2022.start and VS2022.stop <= int(above)
    return {f">=14.{int(oldest) // 10 - 190}"}


@pytest.mark.parametrize(
    ("package", "system", "releases", "stated"),
    [
        ("gcc_impl", "linux-", "1", gcc),
        ("clangxx", "linux-", "13.", clang),
        ("sysroot", "linux-", "1", glibc),
        ("vc", "win-", "13.", visual_studio),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cuda_nvcc_admits_what_the_headers_of_its_release_take(
    headers: Mapping[tuple[str, str], str],
    bounds: Bounds,
    package: str,
    system: str,
    releases: str,
    stated: Callable[[str], set[str]],
) -> None:
    places = [
        place for place in headers if place[1].startswith(system) and place[0].startswith(releases)
    ]
    assert len(places) > 5
    assert {p: bounds[*p, package] for p in places} == {p: stated(headers[p]) for p in places}
