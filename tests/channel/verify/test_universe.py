"""The stand-in for conda-forge: every Python installs on every platform, and no dependency is
missing.
"""

from __future__ import annotations

from typing import Any

import pytest
from rattler import MatchSpec, PackageRecord
from rattler.package.build_string import BuildString

from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.plan.plan import write_repodata
from ctk.solve.channels import Repodata, pythons, universe
from ctk.solve.machine import python_specs
from ctk.solve.solve import Scenario
from ctk.verify.clients import RattlerSolver
from ctk.verify.run import SolverAnswer

Record = dict[str, Any]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [
        record for content in universe().values() for record in content["packages.conda"].values()
    ]


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], SolverAnswer]:
    """Platform and Python -> a solver's pick of this Python with numpy."""
    folder = write_repodata(universe(), tmp_path_factory.mktemp("universe"))
    kinds = [f"3.{tag.removeprefix('cp3')}" for tag in pythons()]
    asked = {
        Scenario((*python_specs(kind), "numpy"), subdir): (subdir, kind)
        for subdir in PLATFORMS
        for kind in kinds
    }
    return {asked[answer.scenario]: answer for answer in RattlerSolver().solve_all(asked, [folder])}


def test_every_python_installs_on_every_platform(
    solved: dict[tuple[str, str], SolverAnswer],
) -> None:
    assert {place: answer.problem for place, answer in solved.items() if not answer.solved} == {}
    for (_, kind), answer in solved.items():
        tag = f"cp{kind.replace('.', '')}"
        assert answer.records["python"].version.startswith(kind.removesuffix("t") + ".")
        assert answer.records["python_abi"].build == f"8_{tag}"
        assert answer.records["numpy"].build.startswith(f"py{tag.removeprefix('cp')}h")


def test_nothing_depends_on_what_is_not_there(records: list[Record]) -> None:
    there = [(record["subdir"], package(record)) for record in records]
    for record in records:
        for need in map(MatchSpec, record["depends"]):
            if need.name and not need.name.normalized.startswith("__"):
                reachable = [
                    p
                    for subdir, p in there
                    if record["subdir"] in (subdir, NOARCH) or subdir == NOARCH
                ]
                assert any(need.matches(p) for p in reachable), f"{record['name']} needs {need}"


def test_it_has_what_packages_of_the_channel_need(planned: Repodata) -> None:
    """Packages of optional recipes too, on each platform."""
    channels, lost = (planned, universe()), set()
    for subdir in PLATFORMS:
        places = [
            channel[part]["packages.conda"] for channel in channels for part in (subdir, NOARCH)
        ]
        there = {record["name"] for packages in places for record in packages.values()}
        for record in planned[subdir]["packages.conda"].values():
            needs = {need.split()[0] for need in record["depends"] if not need.startswith("__")}
            lost |= {f"{subdir}: {record['name']} needs {name}" for name in needs - there}
    assert lost == set()


def package(record: Record) -> PackageRecord:
    build = BuildString(record["build"])
    return PackageRecord(
        record["name"], record["version"], build, record["build_number"], record["subdir"]
    )
