"""libsolv, called as conda's clients call it: requests with the same picks as rattler's, and known
differences.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.core.errors import SolverMissing, Unsolvable
from ctk.solve.solve import Scenario, solve
from ctk.verify import libsolv
from ctk.verify.libsolv import Libsolv
from ctk.verify.run import SolverAnswer
from kit.small_channel import base, channel, record, write

REQUESTS = (
    "cuda-nvrtc",
    "cuda-core",
    "cuda-bindings python=3.12",
    "cuda-core python_abi=3.14=*_cp314t",
    "cuda-version=12 cuda-core",
    "cuda-version=13.4 cuda-core",
    "cuda-version=13.0 cuda-nvcc",
    "cuda-version=12.9 cuda-bindings=13",
    "cuda-arch cuda-nvrtc",
)
MACHINES = [
    (None, None),
    *product(
        ("11.8", "12.0", "12.5", "12.9", "13.0", "13.2", "13.5"), (None, "7.0", "9.0", "13.0")
    ),
]
SCENARIOS = [
    Scenario(tuple(request.split()), subdir, driver, arch)
    for request, (driver, arch), subdir in product(REQUESTS, MACHINES, ("linux-64", "win-64"))
]


@pytest.fixture(scope="module")
def place(project: Workspace) -> Workspace:
    if not libsolv.library(project).exists():  # test_verify checks the same rule with rattler
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    return project


@pytest.fixture(scope="module")
def channels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [
        write(tmp_path_factory.mktemp("channel"), channel()),
        write(tmp_path_factory.mktemp("base"), base()),
    ]


@pytest.fixture(scope="module")
def expected(channels: list[Path]) -> dict[Scenario, dict[str, tuple[str, str]]]:
    """rattler's pick for each scenario; empty without a solution."""
    gateway = Gateway()

    def picked(scenario: Scenario) -> dict[str, tuple[str, str]]:
        try:
            pick = solve(scenario, channels, gateway)
        except Unsolvable:
            return {}
        return {r.name.normalized: (str(r.version), str(r.build)) for r in pick.records}

    return {scenario: picked(scenario) for scenario in SCENARIOS}


def packages(answer: SolverAnswer) -> dict[str, tuple[str, str]]:
    return {name: (found.version, found.build) for name, found in answer.records.items()}


def ask(
    place: Workspace, folder: Path, specs: str, *records: dict[str, Any], **how: bool
) -> SolverAnswer:
    """libsolv's answer from a channel with only these records."""
    made = write(folder, iter(records))
    (answer,) = Libsolv(place, **how).solve_all(
        [Scenario(tuple(specs.split()), "linux-64")], [made]
    )
    return answer


def test_it_picks_every_package_that_rattler_picks(
    place: Workspace, channels: list[Path], expected: dict[Scenario, Any]
) -> None:
    answers = list(Libsolv(place).solve_all(SCENARIOS, channels))
    assert [a.scenario for a in answers] == SCENARIOS
    assert not {a.scenario: packages(a) for a in answers if packages(a) != expected[a.scenario]}
    assert all(a.problem for a in answers if not a.solved)
    refused = sum(not a.solved for a in answers)
    assert 0 < refused < len(SCENARIOS) / 2  # the comparison is about picks


def test_until_libmamba_2_8_1_it_removes_virtual_packages_where_rattler_refuses_and_nowhere_else(
    place: Workspace, channels: list[Path], expected: dict[Scenario, Any]
) -> None:
    answers = list(Libsolv(place, lock=False).solve_all(SCENARIOS, channels))
    for answer in answers:
        if expected[answer.scenario]:
            assert packages(answer) == expected[answer.scenario]
            assert not answer.removed
        elif answer.solved:
            assert answer.removed
            assert set(answer.removed) <= {"__cuda", "__cuda_arch"}
    old_driver = next(
        a for a in answers if a.scenario == Scenario(("cuda-core",), "linux-64", "11.8", None)
    )
    assert old_driver.removed == ("__cuda",)
    assert old_driver.records["cuda-version"].version == "13.4"


OLD, NEW = record("lib", "1", "h_0", "linux-64"), record("lib", "2", "h_0", "linux-64")
TRACKED = {**NEW, "track_features": "f"}


@pytest.mark.parametrize(
    ("newer", "wanted"),
    [
        (NEW, (">=2", "<2")),
        (TRACKED, ("<2", ">=2")),  # a dependency on a tracked record outweighs newer versions
    ],
)
def test_records_alike_are_told_apart_by_their_dependencies(
    place: Workspace, tmp_path: Path, newer: dict[str, Any], wanted: tuple[str, str]
) -> None:
    tools = [
        record("tool", "1", name, "linux-64", depends=[f"lib {on}"])
        for name, on in zip(("a_0", "z_0"), wanted, strict=True)
    ]
    answer = ask(place, tmp_path, "tool", OLD, newer, *tools)
    assert answer.records["tool"].build == "a_0"


@pytest.mark.parametrize(("subdir", "brought"), [("linux-64", {"pip"}), ("noarch", set())])
def test_python_brings_the_pip_of_its_own_folder_as_in_the_clients(
    place: Workspace, tmp_path: Path, subdir: str, brought: set[str]
) -> None:
    python, pip = record("python", "3.12.1", "h_0", "linux-64"), record("pip", "26", "h_0", subdir)
    assert set(ask(place, tmp_path, "python", python, pip).records) == {"python"} | brought


def test_channel_priority_is_strict(place: Workspace, tmp_path: Path) -> None:
    first = write(tmp_path / "first", iter([record("tool", "1", "h_0", "linux-64")]))
    second = write(tmp_path / "second", iter([record("tool", "2", "h_0", "linux-64")]))
    asked = [Scenario(("tool",), "linux-64"), Scenario(("tool>=2",), "linux-64")]
    picked, refused = Libsolv(place).solve_all(asked, [first, second])
    assert picked.records["tool"].version == "1"
    assert picked.records["tool"].channel == str(first)
    assert not refused.solved


def test_without_the_library_the_error_names_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(SolverMissing) as error:
        Libsolv(Workspace(tmp_path))
    assert "scripts/setup-libsolv" in error.value.step


def test_a_machine_without_a_compiler_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    assert libsolv.main(["--if-possible"]) == 0
    *_, line = capsys.readouterr().err.splitlines()
    assert line == "without libsolv: libsolv has to be compiled, and there is no C compiler"
    assert libsolv.main([]) == SolverMissing.exit_code
    assert "apt-get install gcc" in capsys.readouterr().err
