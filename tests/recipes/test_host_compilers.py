"""The host compilers that cuda-nvcc admits are those that crt/host_config.h of the same release admits."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import IndexUnavailable
from ctk.core.platforms import PLATFORMS
from ctk.fetch.fetch import laid_out, locate
from ctk.index.index import Index
from ctk.lock.lock import Artefact, release_locks
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags

# Compiler toolset of Visual Studio 2022, the vs2022_<subdir> that cuda-nvcc requires: _MSC_VER 1930 to 1949.
VS2022 = range(1930, 1950)


@pytest.fixture(scope="module")
def headers(project: Workspace) -> Mapping[tuple[str, str], str]:
    """The text of host_config.h, by CTK minor and subdir: from the cache, or that one file from the index."""
    locks = [lock for lock in release_locks(project).values() if lock.is_ctk]
    named = {(lock.minor, s): a for lock in locks for s, a in lock.components["crt"].artefacts.items() if a}
    with Index() as index, ThreadPoolExecutor() as threads:
        return dict(zip(named, threads.map(lambda a: header(a, project, index), named.values()), strict=True))


def header(artefact: Artefact, project: Workspace, index: Index) -> str:
    def read(wheel: zipfile.ZipFile) -> str:
        (name,) = (name for name in wheel.namelist() if name.endswith("/crt/host_config.h"))
        return wheel.read(name).decode().replace("\r\n", "\n")

    if laid_out(artefact, project).exists():
        with zipfile.ZipFile(laid_out(artefact, project)) as wheel:
            return read(wheel)
    try:
        with index.opened(locate(index, artefact)) as stream, zipfile.ZipFile(stream) as wheel:
            return read(wheel)
    except IndexUnavailable as problem:
        pytest.skip(f"{artefact.file} is not in the cache, and the index cannot be reached: {problem}")


@pytest.fixture(scope="module")
def bounds(project: Workspace) -> Mapping[tuple[str, str], set[str]]:
    """What the packages of cuda-nvcc say of host compilers, by CTK minor and subdir of the compiler."""
    request = Request(recipes=["cuda-nvcc"], platforms=list(PLATFORMS))
    found = defaultdict(set)
    everything = plan(published_set(project), request, python_tags(project.build_config))
    for subdir, index in planned_repodata(everything).items():
        for record in index["packages.conda"].values():
            (minor,) = re.findall(r"^cuda-version >=([\d.]+),<", "\n".join(record["depends"]), re.M)[:1] or [""]
            for spec in record.get("constrains", ()):
                name, _, bound = spec.partition(" ")
                if name == "vc":
                    found[minor, subdir].add(bound)
                elif name.startswith("gcc_impl_"):
                    found[minor, name.removeprefix("gcc_impl_")].add(bound)
    return found


def test_the_newest_gcc_is_the_one_that_the_header_takes(
    headers: Mapping[tuple[str, str], str], bounds: Mapping[tuple[str, str], set[str]]
) -> None:
    checked = 0
    for (minor, subdir), text in headers.items():
        (newest,) = map(int, re.findall(r"^#if __GNUC__ > (\d+)$", text, re.M))
        if subdir.startswith("linux-"):
            assert bounds[minor, subdir] == {f">=6,<{newest + 1}.0a0"}, (minor, subdir)
            checked += 1
    assert checked > 20


def test_visual_studio_is_one_that_the_header_takes(
    headers: Mapping[tuple[str, str], str], bounds: Mapping[tuple[str, str], set[str]]
) -> None:
    """_MSC_VER 1920 is the compiler of toolset 14.20, which conda's packages call vc 14.2."""
    checked = 0
    for (minor, subdir), text in headers.items():
        ((oldest, above),) = re.findall(r"^#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)$", text, re.M)
        if subdir.startswith("win-") and minor.startswith("13."):
            assert bounds[minor, subdir] == {f">=14.{int(oldest) // 10 - 190}"}, (minor, subdir)
            assert int(oldest) <= VS2022.start and VS2022.stop <= int(above), (minor, subdir)
            checked += 1
    assert checked > 5
