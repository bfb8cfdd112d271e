"""`ctk verify`: every scenario is right, verdicts are counted, and wrong picks are found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctk.cli.main import app
from ctk.core.console import Reporter
from ctk.core.errors import CtkError, SolverFailed, VerifyFailed
from ctk.core.platforms import NOARCH
from ctk.plan.plan import write_repodata
from ctk.solve import channels
from ctk.solve.channels import Channels, TwinBuild
from ctk.solve.solve import Catalogue, Scenario
from ctk.verify import clients
from ctk.verify.clients import RattlerSolver
from ctk.verify.oracle import REQUESTS, Cause, Expected, Loss, OracleFacts, Question
from ctk.verify.run import Counts, Record, SolverAnswer, Tally, wrong
from ctk.verify.scenarios import Matrix, scenario

# In every test run, in each of two modes.
SAMPLE = 300


@pytest.fixture(scope="module")
def small(planned: channels.Repodata, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel for a platform, so that runs of the command need no plan."""
    parts = {subdir: planned[subdir] for subdir in ("win-arm64", NOARCH)}
    return write_repodata(parts, tmp_path_factory.mktemp("small"))


# --- the matrix is right


def test_a_sample_of_all_scenarios_is_right(
    known: OracleFacts, every: Matrix, solved: Channels
) -> None:
    tally = Tally(known, solved)
    tally.run(RattlerSolver(), every.sample(SAMPLE, 1))
    total = tally.total
    assert tally.wrong == []
    assert total.total() == SAMPLE
    assert not total.keys() & set(Loss)
    # Enough of each kind that the sample means something.
    assert total["right"] > SAMPLE / 5
    assert set(Cause) <= total.keys()
    assert set(tally.counts) == set(REQUESTS)
    assert all(counts["right"] for counts in tally.counts.values())


def test_a_sample_is_as_right_as_can_be_where_constraints_are_ignored(
    known: OracleFacts, every: Matrix, planned: channels.Repodata, tmp_path: Path
) -> None:
    ignored = channels.write(channels.without_virtual_constraints(planned), tmp_path)
    tally = Tally(known, ignored, ignoring=True)
    tally.run(RattlerSolver(), every.sample(SAMPLE, 3))
    assert tally.wrong == []
    assert tally.total.total() == SAMPLE
    assert set(Loss) <= tally.total.keys()
    assert Cause.GPU not in tally.total
    # The driver that cuda-gpu asks for is a dependency, which every client respects.
    refused = {request for request, counts in tally.counts.items() if Cause.DRIVER in counts}
    assert refused == {request for request in REQUESTS if request.startswith("cuda-gpu ")}


# --- one answer

QUESTION = Question("cuda-core", "linux-64", "13.0", "9.0")
RIGHT = Expected("13.0", "native", "cp314")
RECORDS = {
    "cuda-version": Record("13.0", "native_100"),
    "cuda-core": Record("1.2.2", "cuda13_py314_native_habc_13110"),
    "cuda-bindings": Record("13.4.4", "cuda13_py314_native_hdef_13110"),
    "cuda-nvrtc": Record("13.0.88", "h1_100"),
    "cuda-nvvm-impl": Record("13.0.88", "h2_100"),
    "libnvjitlink": Record("13.0.88", "h3_100"),
    "python": Record("3.14.6", "h4_100_cp314"),
    "python_abi": Record("3.14", "8_cp314"),
    "cuda-pathfinder": Record("1.9.0", "pyh5_0"),
    "cuda-nvrtc-files": Record("13.0.88", "h6_0"),
    "cuda-nvvm-impl-files": Record("13.0.88", "h7_0"),
    "libnvjitlink-files": Record("13.0.88", "h8_0"),
    "libnvfatbin": Record("13.0.85", "h9_100"),
    "numpy": Record("2.4.6", "py314h_0"),
}
SIDES = {
    (name, record.version, record.build): TwinBuild("native", "13")
    for name, record in RECORDS.items()
    if not name.startswith(("python", "cuda-pathfinder", "numpy")) and not name.endswith("-files")
}
SIDES |= {
    ("cuda-version", "13.4", "compat_0"): TwinBuild("compat", "13"),
    ("cuda-nvrtc", "13.0.88", "h1_0"): TwinBuild("compat", "13"),
    ("cuda-bindings", "12.9.10", "cuda12_py314_native_hdef_12110"): TwinBuild("native", "12"),
}


@pytest.mark.parametrize(
    ("name", "record", "said"),
    [
        ("cuda-version", Record("13.4", "compat_0"), "toolkit 13.4 compat, not 13.0 native"),
        ("cuda-version", Record("13.0", "h123_0"), "not a native or compat build"),
        ("cuda-nvrtc", Record("13.0.88", "h1_0"), "cuda-nvrtc 13.0.88 h1_0 is of CUDA 13 compat"),
        (
            "cuda-bindings",
            Record("12.9.10", "cuda12_py314_native_hdef_12110"),
            "is of CUDA 12 native: builds are mixed",
        ),
        (
            "cuda-nvvm-impl",
            Record("12.9.86", "h9_100"),
            "cuda-nvvm-impl 12.9.86 is not of toolkit 13.0",
        ),
        (
            "libnvjitlink",
            Record("13.4.92", "h9_100"),
            "libnvjitlink 13.4.92 is not of toolkit 13.0",
        ),
        ("python", Record("3.14.6", "h4_0_cp314t"), "Python is cp314t, not cp314"),
        ("python_abi", Record("3.14", "8_cp314t"), "python_abi is 8_cp314t"),
        (
            "numba-cuda",
            Record("0.30", "cuda13_py314t_native_habc_0"),
            "numba-cuda is cuda13_py314t_native_habc_0, not",
        ),
        (
            "cuda-python",
            Record("12.9", "cuda12_py_native_habc_0"),
            "is cuda12_py_native_habc_0, not cuda13_py_native_",
        ),
        ("python", None, "Python is not there, not cp314"),
        *(
            (name, None, f"{name} is not there")
            for name in RECORDS
            if name not in ("python", "python_abi")
        ),
    ],
)
def test_what_can_be_wrong_with_an_answer(name: str, record: Record | None, said: str) -> None:
    records = {**RECORDS, **({name: record} if record else {})}
    if not record:
        del records[name]
    assert said in wrong(QUESTION, RIGHT, SolverAnswer(scenario(QUESTION), records), SIDES)


def test_a_pick_where_there_must_be_none_and_none_where_there_must_be_one() -> None:
    refused = SolverAnswer(scenario(QUESTION), problem="nothing provides __cuda")
    assert wrong(QUESTION, RIGHT, refused, SIDES) == "it can be solved, but was refused"
    assert wrong(QUESTION, Expected(cause=Cause.GPU), refused, SIDES) == ""
    solved = SolverAnswer(scenario(QUESTION), RECORDS)
    assert "must be refused (GPU too old)" in wrong(
        QUESTION, Expected(cause=Cause.GPU), solved, SIDES
    )


def test_machines_that_are_alike_get_what_each_gets_alone(
    every: Matrix, solved: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = [scenario(Question("cuda-core", "linux-64", *machine)) for machine in every.machines]
    asked: list[Scenario] = []

    def ask(self: Catalogue, scenarios: Iterable[Scenario]) -> None:
        asked.extend(scenarios := list(scenarios))
        genuine(self, scenarios)

    genuine = Catalogue.ask
    monkeypatch.setattr(Catalogue, "ask", ask)
    together = {a.scenario: a.records for a in RattlerSolver().solve_all(machines, solved.folders)}
    assert len(asked) < len(machines) / 2
    assert together.keys() == set(machines)
    # Of each class, the machine that is the least like the one that was solved.
    classes: dict[int, list[Scenario]] = {}
    for machine in machines:
        classes.setdefault(id(together[machine]), []).append(machine)
    others = [members[-1] for members in classes.values() if len(members) > 1]
    alone = Catalogue(solved.folders, "linux-64")
    for machine in others:
        assert together[machine] == clients._as_answer(machine, alone.answer(machine)).records, (
            machine
        )


# --- counting


class Scripted:
    """A solver with real answers except for the last; then it ends with an error."""

    name = "scripted"

    def __init__(self, end: BaseException) -> None:
        self.end = end

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        yield from RattlerSolver().solve_all(tuple(scenarios)[:-1], channels)
        raise self.end


class Answering:
    """A solver that answers each question with what rattler picks for another machine."""

    name = "answering"

    def __init__(self, machine: Scenario, **changed: Any) -> None:
        self.machine, self.changed = machine, changed

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        (answer,) = RattlerSolver().solve_all([self.machine], channels)
        yield from (replace(answer, scenario=scenario, **self.changed) for scenario in scenarios)


def tally(known: OracleFacts, solved: Channels, solver: Answering, question: Question) -> Counts:
    counting = Tally(known, solved)
    counting.run(solver, [question])
    return counting.total


def test_a_client_that_sees_no_gpu_is_judged_for_a_machine_without(
    known: OracleFacts, solved: Channels
) -> None:
    question = Question("cuda-nvrtc", "linux-64", "13.0", "7.0")  # with its GPU, 12.9 is right
    blind = replace(scenario(question), arch=None)
    assert tally(known, solved, Answering(blind, sees_gpus=False), question) == {"right": 1}
    assert tally(known, solved, Answering(blind), question) == {"wrong": 1}


def test_a_solver_that_takes_the_driver_away_loses_the_refusal_only(
    known: OracleFacts, solved: Channels
) -> None:
    removing = Answering(Scenario(("cuda-nvrtc",), "linux-64"), removed=("__cuda",))

    def removed(question: Question) -> Counts:
        return tally(known, solved, removing, question)

    assert removed(Question("cuda-nvrtc", "linux-64", "11.8")) == {Loss.REFUSAL: 1}
    assert removed(Question("cuda-nvrtc", "linux-64", "11.8", pin="12.7")) == {"wrong": 1}
    assert removed(Question("cuda-nvrtc", "linux-64", "13.4")) == {"wrong": 1}


# --- what is solved from


# --- the command


def run(*arguments: str) -> Any:
    """Runs the command in this process; errors are exceptions, which `start` would print."""
    return CliRunner().invoke(app, ["verify", *arguments], env={"COLUMNS": "120"})


def test_the_command_says_how_many_of_how_many_are_right_in_words_and_as_json(
    small: Path, every: Matrix
) -> None:
    of = len(replace(every, subdirs=("win-arm64",), requests=("cuda-nvrtc",)))
    asked = (
        "--channel",
        str(small),
        "--request",
        "cuda-nvrtc",
        "--constraints",
        "ignored",
        "--sample",
        "100",
    )
    said, found = run(*asked), json.loads(run(*asked, "--json").stdout)
    assert said.exit_code == 0, said.output
    for words in (
        f"100 of {of} scenarios",
        "none wrong",
        "lost: refusal",
        "too old for all that was asked for",
    ):
        assert words in said.output
    assert (found["solver"], found["of"], found["complete"], found["first_wrong"]) == (
        "rattler",
        of,
        True,
        [],
    )
    judged = (
        found["right"]
        + sum(found["refused"].values())
        + sum(found["lost"].values())
        + found["wrong"]
    )
    assert found["scenarios"] == found["total"] == judged == 100
    assert set(found["requests"]) == {"cuda-nvrtc"}


def test_a_wrong_pick_is_printed_whole_and_ends_with_a_code_of_its_own(
    small: Path, tmp_path: Path
) -> None:
    """In a channel whose native builds fit every driver."""
    content = channels.built(small)
    for record in content[NOARCH]["packages.conda"].values():
        if record["name"] == "cuda-version":
            record["depends"] = []
    done = run(
        "--channel",
        str(write_repodata(content, tmp_path)),
        "--request",
        "cuda-nvrtc",
        "--sample",
        "200",
    )
    assert isinstance(done.exception, VerifyFailed) and done.exception.exit_code == 17
    assert "picks are wrong" in done.exception.cause and done.exception.step
    assert done.stdout.count("wrong: ctk solve ") == 3
    text = done.stdout[done.stdout.index("wrong: ctk solve ") :]
    for part in (
        "--platform win-arm64 --driver ",
        "  expected: ",
        "  found: ",
        "    cuda-version ",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--sample", "0"], 2, "sample of 0"),
        (["--platform", "osx-arm64"], 3, "there is no CUDA for macOS (osx-arm64)"),
        (["--platform", "linux-64"], 2, "nothing to verify"),
        (["--channel", "/nowhere"], 33, "there is no channel"),
    ],
)
def test_what_cannot_be_asked_is_a_clear_error(
    small: Path, arguments: list[str], code: int, said: str
) -> None:
    error = run("--channel", str(small), *arguments).exception
    assert isinstance(error, CtkError)
    assert (error.exit_code, said in error.cause, bool(error.step)) == (code, True, True)


@pytest.mark.parametrize(
    "end", [KeyboardInterrupt(), SolverFailed("micromamba crashed", "try it by hand")], ids=type
)
def test_a_run_that_ended_early_does_not_say_that_none_is_wrong(
    small: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    monkeypatch.setattr(clients, "solver", lambda name, where: Scripted(end))
    shown: list[str] = []
    monkeypatch.setattr(Reporter, "line", lambda self, text, style=None: shown.append(str(text)))
    monkeypatch.setattr(Reporter, "result", lambda self, **values: shown.append(json.dumps(values)))
    done = run("--channel", str(small), "--request", "cuda-nvrtc", "--sample", "50")
    assert done.exit_code != 0
    (result,) = [json.loads(text) for text in shown if text.startswith("{")]
    assert (result["complete"], result["total"], result["scenarios"]) == (False, 49, 50)
    assert any(
        re.search(r"^stopped: 49 of \d+ scenarios in .* s: 0 wrong so far, 1 not answered$", t)
        for t in shown
    ), shown
    assert not any("none wrong" in text for text in shown)
