"""The run requirements of the Python recipes are those of the wheels that they package, no looser
and no tighter.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from email.parser import BytesParser

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ctk.core.checkout import Workspace, workspace
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.model import Artefact, ReleaseLock, release_locks
from ctk.plan.recipes import find_recipes
from ctk.plan.render import render

# Distribution -> the conda packages that hold what it holds. None: not made, for the reason given.
CONDA_NAMES: Mapping[str, tuple[str, ...] | None] = {
    "numba": ("numba",),
    "numpy": ("numpy",),
    "packaging": ("packaging",),
    "typing-extensions": ("typing_extensions",),
    "ml-dtypes": ("ml_dtypes",),
    "opt-einsum": ("opt_einsum",),
    "scipy": ("scipy",),
    "jaxlib": ("jaxlib",),
    "numba-cuda-mlir": ("numba-cuda-mlir",),
    "cuda-bindings": ("cuda-bindings",),
    "cuda-core": ("cuda-core",),
    "cuda-pathfinder": ("cuda-pathfinder",),
    # Opened for libNVVM, which the nvcc wheel of 12 holds.
    "nvidia-cuda-nvcc-cu12": ("cuda-nvvm-impl",),
    "nvidia-cuda-nvrtc-cu12": ("cuda-nvrtc",),
    "nvidia-nvjitlink-cu12": ("libnvjitlink",),
    "nvidia-nvjitlink": ("libnvjitlink",),
    "nvidia-nvfatbin-cu12": ("libnvfatbin",),
    "nvidia-cufile-cu12": ("libcufile",),
    "nvidia-cudla": None,  # Tegra only; a constraint of the recipe
}
# What an extra of the manifest means as conda packages.
TOOLKIT_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "cccl": ("cuda-cccl",),
    "cudart": ("cuda-cudart-dev",),  # asked for its headers
    "cufile": ("libcufile",),
    "nvcc": ("cuda-nvvm-impl",),
    "nvfatbin": ("libnvfatbin",),
    "nvjitlink": ("libnvjitlink",),
    "nvrtc": ("cuda-nvrtc",),
    "nvvm": ("cuda-nvvm-impl",),
}
# What a conda package depends on and a wheel cannot say.
RUNTIME = frozenset(
    {
        "python",
        "python_abi",
        "__glibc",
        "libgcc",
        "libstdcxx",
        "ucrt",
        "vc14_runtime",
        "cuda-version",
    }
)
# What a wheel needs and does not say: libdevice, which conda-forge keeps apart from libNVVM and the
# wheels do not; numpy, which cuda.bindings.cufile and .nvml import; nv/target of CCCL, which
# cuda_fp16.h includes.
ALSO = {
    "numba-cuda": ("cuda-nvvm-tools",),
    "numba-cuda-mlir": ("cuda-nvvm-tools", "cuda-cccl"),
    "cuda-bindings": ("numpy",),
}
EXTRAS = {
    "cuda-bindings": ("", "all"),
    "cuda-core": ("", "cu{major}"),
    "cuda-cccl": ("", "minimal-cu{major}", "cu{major}"),  # the last names the one before
    "numba-cuda": ("", "cu{major}"),
    "numba-cuda-mlir": ("", "cu{major}"),
}
# Where the recipe has another name than the distribution.
RECIPES = {"cuda-cccl": "cccl-python", "cuda-tile": "cutile-python"}
PYTHON = "3.13"
FLOOR = Version("3.11")  # the oldest Python of the matrix


def same(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Whether two take the same versions: those that they name, and the ones right before and
    after.
    """
    return all((version in one) == (version in other) for version in around(one, other))


def is_within(one: SpecifierSet, other: SpecifierSet) -> bool:
    return all(version in other for version in around(one, other) if version in one)


def around(*specifiers: SpecifierSet) -> Iterator[str]:
    for specifier in (s for found in specifiers for s in found):
        *first, last = Version(specifier.version.removesuffix(".*")).release
        for end in (
            f"{last}",
            f"{last}.0.1",
            f"{last}.9999",
            f"{last + 1}",
            f"{last - 1}.9999" if last else "0",
        ):
            yield ".".join([*map(str, first), end])


def conda(text: str) -> SpecifierSet:
    """A conda version constraint, which ends in ``.0a0`` where it leaves out a series."""
    return SpecifierSet(text.removeprefix("*").replace(".0a0", ""))


def translated(metadata: Message, project: str, major: str, subdir: str) -> dict[str, SpecifierSet]:
    """The conda requirements that a wheel's metadata asks for on a platform."""
    whole_major = SpecifierSet(f"=={major}.*")
    found: dict[str, SpecifierSet] = {}

    def need(names: Iterable[str], span: SpecifierSet) -> None:
        for name in names:
            # cuFile counts its own versions; cuda-version holds it to the major.
            found[name] = found.get(name, SpecifierSet()) & (
                SpecifierSet("==1.*") if name == "libcufile" else span
            )

    for requirement in _applying(metadata, project, major, subdir):
        span = requirement.specifier
        if requirement.name == project:  # another of its extras
            continue
        if requirement.name == "cuda-toolkit":
            need((n for extra in requirement.extras for n in TOOLKIT_EXTRAS[extra]), span)
        else:
            # A name in -cu12 says the major.
            span = span & whole_major if requirement.name.endswith("-cu12") else span
            need(CONDA_NAMES[canonicalize_name(requirement.name)] or (), span)
    for name in ALSO.get(project, ()):
        need([name], whole_major if name.startswith("cuda-") else SpecifierSet())
    return found


def _applying(metadata: Message, project: str, major: str, subdir: str) -> Iterator[Requirement]:
    extras = [extra.format(major=major) for extra in EXTRAS.get(project, ("",))]
    for text in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        environment = PLATFORMS[subdir].marker_environment | {
            "python_version": PYTHON,
            "python_full_version": f"{PYTHON}.0",
        }
        if requirement.marker is None or any(
            requirement.marker.evaluate(environment | {"extra": e}) for e in extras
        ):
            yield requirement


def stated(depends: Iterable[str]) -> dict[str, SpecifierSet]:
    """The conda requirements of a rendered recipe, but for its own files."""
    parts = (spec.split() for spec in depends)
    found = {name: rest[0] if rest else "" for name, *rest in parts}
    return {
        n: conda(text)
        for n, text in found.items()
        if n != "python_abi" and not n.endswith("-files")
    }


# There is a wheel, but nothing that it needs: the recipe leaves it out.
LEFT_OUT = {("cuda-core", "12", "win-arm64")}
# What it asks for is spread over several packages: compared in test_jax.py, test_pytorch.py and the
# last test here.
ELSEWHERE = ("jax-cuda-plugin", "cupy", "nvmath-python", "cuda-tile", "torch", "triton")
# To markers a platform is Linux or Windows.
MARKS = {"linux-aarch64": pytest.mark.sweep, "win-arm64": pytest.mark.sweep}
CASES = [
    pytest.param(
        lock, name, subdir, id=f"{name}-cuda{lock.major}-{subdir}", marks=MARKS.get(subdir, ())
    )
    for lock in release_locks(workspace()).values()
    if not lock.is_ctk
    for name, component in lock.components.items()
    for subdir in PLATFORMS
    if any(a and a.target in (NOARCH, f"{subdir}-cp313") for a in component.artefacts.values())
    if (name, lock.major, subdir) not in LEFT_OUT and not name.startswith(ELSEWHERE)
]


def _wheel(lock: ReleaseLock, name: str, subdir: str) -> Artefact:
    artefacts = lock.components[name].artefacts
    return artefacts.get(NOARCH) or artefacts[f"{subdir}-cp313"]  # type: ignore[return-value]


def _metadata(project: Workspace, artefact: Artefact) -> Message:
    (path,) = fetch([artefact], project, Index)
    with zipfile.ZipFile(path) as wheel:
        name = next(
            n for n in wheel.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA")
        )
        return BytesParser().parsebytes(wheel.read(name))


def _depends(project: Workspace, lock: ReleaseLock, name: str, subdir: str) -> tuple[str, ...]:
    files, component = (
        (project.build_config, project.variants / f"{lock.name}.yaml"),
        lock.components[name],
    )
    recipe = RECIPES.get(component.name, component.name)
    outputs = render(find_recipes(project.recipes)[recipe], files, subdir)
    made = (o for o in outputs if (o.name, o.version) == (recipe, component.version))
    return next((o.depends for o in made if o.variant.get("python_tag", "cp313") == "cp313"), ())


@pytest.mark.parametrize(("lock", "name", "subdir"), CASES)
def test_a_recipe_asks_for_what_its_wheel_asks_for_and_stays_within_its_cuda_major(
    project: Workspace, lock: ReleaseLock, name: str, subdir: str
) -> None:
    depends, component = _depends(project, lock, name, subdir), lock.components[name]
    assert depends, "the recipe makes nothing for this platform"
    metadata = _metadata(project, _wheel(lock, name, subdir))
    found = stated(depends)
    asks = translated(metadata, component.name, lock.major, subdir)
    assert found.keys() - RUNTIME == asks.keys()
    assert [name for name, specifier in asks.items() if not same(found[name], specifier)] == []
    asked = max(oldest(SpecifierSet(metadata["Requires-Python"] or "")), FLOOR)
    assert oldest(found["python"]) == (
        asked if component.artefacts.get(NOARCH) else Version(PYTHON)
    )
    for package, versions, *build in (spec.split() for spec in depends if " " in spec):
        if package == "cuda-version":
            majors = ["12", "13"] if component.name == "cuda-pathfinder" else [lock.major]
            assert same(conda(versions), SpecifierSet(f">={majors[0]},<{int(majors[-1]) + 1}"))
        if package in ("cuda-core", "numba-cuda-mlir"):
            assert build == [f"cuda{lock.major}_*"]


def oldest(specifiers: SpecifierSet) -> Version:
    return max((Version(s.version) for s in specifiers if s.operator == ">="), default=FLOOR)


# Component -> the package with its files, the extra that names the toolkit's libraries, and what is
# left out of that.
SPLIT = {
    "cupy": ("cupy-core", "ctk", ()),
    "nvmath-python": ("nvmath-python-core", "cu{major}", ("cudss",)),
}
LIBRARIES = {
    "cublas": "libcublas",
    "cuda-nvrtc": "cuda-nvrtc",
    "cuda-runtime": "cuda-cudart",
    "cufft": "libcufft",
    "curand": "libcurand",
    "cusolver": "libcusolver",
    "cusparse": "libcusparse",
}


@pytest.mark.parametrize("major", ["12", "13"])
@pytest.mark.parametrize("name", SPLIT)
def test_a_split_recipe_asks_in_one_of_its_packages(
    project: Workspace, name: str, major: str
) -> None:
    (core, extra, left_out), subdir = SPLIT[name], "linux-64"
    lock = release_locks(project)[f"libraries-{major}"]
    component = next(c for c in lock.components.values() if c.name in (name, f"{name}-cu{major}"))
    files = (project.build_config, project.variants / f"{lock.name}.yaml")
    outputs = [
        output
        for output in render(find_recipes(project.recipes)[name], files, subdir)
        if output.variant.get("python_tag") == "cp313"
        and output.variant.get("cuda_fit") == "native"
    ]
    depends = {o.name: dict(spec.partition(" ")[::2] for spec in o.depends) for o in outputs}
    metadata = _metadata(
        project, _wheel(lock, next(k for k, c in lock.components.items() if c == component), subdir)
    )
    environment = PLATFORMS[subdir].marker_environment | {"python_version": PYTHON}
    asked = [Requirement(text) for text in metadata.get_all("Requires-Dist") or []]
    plain = [r for r in asked if r.marker is None or r.marker.evaluate(environment | {"extra": ""})]
    assert len(plain) >= 2
    for requirement in plain:
        assert is_within(
            conda(depends[core][requirement.name].partition(" ")[0]), requirement.specifier
        ), requirement
    optional = extra.format(major=major)
    named = [
        r
        for r in asked
        if r not in plain and r.marker and r.marker.evaluate(environment | {"extra": optional})
    ]
    names = {
        r.name.removeprefix("nvidia-").removesuffix(f"-cu{major}")
        for r in named
        if r.name not in depends[core]
    }
    names |= {extra for r in named if r.name == "cuda-toolkit" for extra in r.extras}
    spelled = {"cudart": "cuda-runtime", "nvrtc": "cuda-nvrtc"}
    toolkit = {spelled.get(n, n) for n in names} - {"cuda-toolkit", name, *left_out}
    assert len(toolkit) >= 7
    brought = {re.sub("-dev.*$", "", package) for package in depends[name]}
    assert {LIBRARIES.get(n, n) for n in toolkit} <= brought
