"""The stand-in for conda-forge: every Python can be installed on every platform, and nothing in it leads nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from rattler import MatchSpec, PackageRecord
from rattler.package.build_string import BuildString

from ctk.core.checkout import Workspace
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.plan.plan import python_tags
from ctk.verify.channels import Repodata, pythons, universe

Record = dict[str, Any]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [record for content in universe().values() for record in content["packages.conda"].values()]


def test_it_has_every_python_of_the_channel_and_an_older_one(project: Workspace) -> None:
    assert {*python_tags(project.build_config), "cp310"} <= set(pythons())


def test_nothing_depends_on_what_is_not_there(records: list[Record]) -> None:
    there = [(record["subdir"], package(record)) for record in records]
    for record in records:
        for need in map(MatchSpec, record["depends"]):
            if need.name and not need.name.normalized.startswith("__"):
                reachable = [p for subdir, p in there if record["subdir"] in (subdir, NOARCH) or subdir == NOARCH]
                assert any(need.matches(p) for p in reachable), f"{record['name']} needs {need}"


def test_it_has_what_packages_of_the_channel_need(planned: Repodata) -> None:
    """Those of recipes that are built only when they are asked for, too, on each platform."""
    channels, lost = (planned, universe()), set()
    for subdir in PLATFORMS:
        places = [channel[part]["packages.conda"] for channel in channels for part in (subdir, NOARCH)]
        there = {record["name"] for packages in places for record in packages.values()}
        for record in planned[subdir]["packages.conda"].values():
            needs = {need.split()[0] for need in record["depends"] if not need.startswith("__")}
            lost |= {f"{subdir}: {record['name']} needs {name}" for name in needs - there}
    assert lost == set()


def package(record: Record) -> PackageRecord:
    build = BuildString(record["build"])
    return PackageRecord(record["name"], record["version"], build, record["build_number"], record["subdir"])
