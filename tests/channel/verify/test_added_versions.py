"""A version that is locked beside the newest is for those who name it: others get the newest."""

from __future__ import annotations

from itertools import product

import pytest

from ctk.core.checkout import Workspace
from ctk.lock.model import ReleaseLock, release_locks
from ctk.plan.plan import (
    Request,
    plan,
    planned_repodata,
    published_set,
    python_tags,
    write_repodata,
)
from ctk.solve.channels import universe
from ctk.solve.solve import Catalogue, Scenario

RELEASES = ("12.9", "13.0", "13.4")
PACKAGES = {"nvcomp": "libnvcomp-dev", "cupy": "cupy"}
MACHINES = (("12.9", "7.5"), ("13.0", "9.0"), ("13.4", "12.0"), ("13.4", None), (None, None))


@pytest.fixture(scope="module")
def locks(project: Workspace) -> dict[str, ReleaseLock]:
    return {name: lock for name, lock in release_locks(project).items() if lock.is_library_set}


@pytest.fixture(scope="module")
def channel(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    folder = tmp_path_factory.mktemp("added")
    request = Request((*RELEASES, "libraries-12", "libraries-13"), (), ("linux-64",), ("3.13",))
    made = plan(published_set(project), request, python_tags(project.build_config))
    ours = write_repodata(planned_repodata(made), folder / "channel")
    base = write_repodata(universe(), folder / "universe")
    return Catalogue([ours, base], "linux-64")


def added(locks: dict[str, ReleaseLock]) -> dict[str, set[str]]:
    """Component without a CUDA major -> the versions that were added by name."""
    found: dict[str, set[str]] = {}
    for lock in locks.values():
        for name, versions in lock.added.items():
            found.setdefault(name.removesuffix(f"-cu{lock.major}"), set()).update(versions)
    return found


def test_every_added_project_is_asked_for_here(locks: dict[str, ReleaseLock]) -> None:
    assert added(locks).keys() <= PACKAGES.keys()


@pytest.mark.parametrize(("component", "package"), PACKAGES.items())
def test_who_names_no_version_gets_the_newest(
    component: str, package: str, channel: Catalogue, locks: dict[str, ReleaseLock]
) -> None:
    newest = locks["libraries-13"].components[f"{component}-cu13"].version
    for (driver, gpu), first in product(MACHINES, ((), ("cuda-gpu",))):
        scenario = Scenario((*first, package), "linux-64", driver, gpu)
        pick = channel.pick(scenario)
        if pick is None:
            assert first, scenario
            assert driver is None
            continue
        assert pick.version(package) == newest, scenario


@pytest.mark.parametrize(("component", "package"), PACKAGES.items())
def test_who_names_an_added_version_gets_it_for_both_majors(
    component: str, package: str, channel: Catalogue, locks: dict[str, ReleaseLock]
) -> None:
    for version, (driver, gpu) in product(added(locks)[component], MACHINES[:3]):
        scenario = Scenario(("cuda-gpu", f"{package}=={version}"), "linux-64", driver, gpu)
        pick = channel.pick(scenario)
        assert pick is not None, scenario
        assert pick.version(package) == version
        assert pick.fit == "native"
