"""What the packages of the mathematics libraries ask of an environment, in every release and on every platform."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.binaries import version_key
from ctk.plan.plan import Request, plan, planned_repodata, published_set, python_tags

Record = Mapping[str, Any]
LIBRARIES = ("cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nvjpeg")


@pytest.fixture(scope="module")
def records(project: Workspace) -> dict[tuple[str, str], list[Record]]:
    """The packages of a release for a subdir."""
    what, tags = published_set(project), python_tags(project.build_config)
    found: dict[tuple[str, str], list[Record]] = {}
    for lock in release_locks(project).values():
        if lock.is_ctk:
            request = Request((lock.minor,), [f"lib{name}" for name in LIBRARIES], list(PLATFORMS))
            for subdir, repodata in planned_repodata(plan(what, request, tags)).items():
                found[lock.minor, subdir] = list(repodata["packages.conda"].values())
    return found


def published(project: Workspace) -> Iterator[tuple[ReleaseLock, str, str]]:
    """Release, subdir and component of each artefact that NVIDIA has published."""
    for lock in release_locks(project).values():
        if lock.is_ctk:
            for name in LIBRARIES:
                yield from ((lock, a.target, name) for a in lock.components[name].artefacts.values() if a)


def depends(records: Mapping[tuple[str, str], list[Record]], minor: str, subdir: str, name: str) -> set[str]:
    """What a package depends on, without the build strings of exact pins; the same for both of its builds."""
    found = [
        frozenset(re.sub(r" \S*h[0-9a-f]{7}_\d+$", "", spec) for spec in record["depends"])
        for record in records[minor, subdir]
        if record["name"] == name
    ]
    plain = {frozenset(re.sub(r" (native|compat)_\*$", "", spec) for spec in specs) for specs in found}
    assert len(plain) == 1, (minor, subdir, name)
    return set(plain.pop())


def test_every_published_library_is_planned(project: Workspace, records: dict[tuple[str, str], list[Record]]) -> None:
    for lock, subdir, name in published(project):
        names = [record["name"] for record in records[lock.minor, subdir]]
        assert names.count(f"lib{name}") == names.count(f"lib{name}-dev") == 2, (lock.minor, subdir, name)


def test_the_glibc_that_a_library_asks_for_is_the_measured_one(
    project: Workspace, records: dict[tuple[str, str], list[Record]]
) -> None:
    """2.17, the floor of all packages, or more: neither less than the library needs nor more."""
    for lock, subdir, name in published(project):
        if subdir.startswith("linux-"):
            holder = "libnvjpeg" if name == "nvjpeg" else f"lib{name}-files"
            assert lock.facts is not None
            floor = max("2.17", lock.facts.glibc[subdir][name], key=version_key)
            specs = depends(records, lock.minor, subdir, holder)
            assert f"__glibc >={floor},<3.0.a0" in specs, (lock.minor, subdir, name, specs)


# What the libraries need of others, as their headers (DT_NEEDED, import tables) and the names they open say.
NEEDS = {
    "cufft": lambda minor, linux: {"libnvjitlink"} if minor >= (12, 3) else set(),
    "curand": lambda minor, linux: {"cuda-cudart"} if linux and minor >= (13, 5) else set(),
    "cusolver": lambda minor, linux: {"libcublas", "libnvjitlink", *(["libcusparse"] if minor > (12, 0) else [])},
    "cusparse": lambda minor, linux: {
        "libnvjitlink",
        *(["libnvjitlink-dev"] if linux and minor in ((13, 1), (13, 2)) else []),
    },
    "cublas": lambda minor, linux: {"cuda-nvrtc"},
}


def test_a_library_brings_the_libraries_that_it_needs(
    project: Workspace, records: dict[tuple[str, str], list[Record]]
) -> None:
    for lock, subdir, name in published(project):
        specs = depends(records, lock.minor, subdir, f"lib{name}")
        found = {spec.split()[0] for spec in specs}
        linux = subdir.startswith("linux-")
        wanted = NEEDS[name](version_key(lock.minor), linux) if name in NEEDS else set()
        own = {"cuda-version", f"lib{name}-files", "__glibc", "libgcc", "libstdcxx", "ucrt", "vc14_runtime"}
        assert found - own == wanted, (lock.minor, subdir, name)
        # It links what its own toolkit wrote: an older one would refuse it.
        for spec in specs:
            if spec.split()[0] == "libnvjitlink":
                assert spec == f"libnvjitlink >={lock.components['nvjitlink'].version}"


def test_a_library_is_of_the_toolkit_that_it_was_published_with(
    project: Workspace, records: dict[tuple[str, str], list[Record]]
) -> None:
    for lock, subdir, name in published(project):
        major, minor = version_key(lock.minor)
        for package in (f"lib{name}", f"lib{name}-dev"):
            assert f"cuda-version >={lock.minor},<{major}.{minor + 1}.0a0" in depends(
                records, lock.minor, subdir, package
            )
