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
from ctk.core.errors import ChannelMissing, CtkError, SolverFailed, VerifyFailed
from ctk.core.platforms import NOARCH
from ctk.plan.plan import write_repodata
from ctk.solve import channels, solve
from ctk.solve.channels import Channels, TwinBuild
from ctk.solve.solve import MachineClasses, Scenario
from ctk.verify import clients
from ctk.verify.clients import RattlerSolver
from ctk.verify.oracle import REQUESTS, Cause, Expected, Loss, OracleFacts, Question
from ctk.verify.run import Counts, Record, SolverAnswer, Tally, wrong
from ctk.verify.scenarios import Matrix, scenario

# In every test run, in each of two modes.
SAMPLE = 700


@pytest.fixture(scope="module")
def small(planned: channels.Repodata, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A channel for a platform, so that runs of the command need no plan."""
    parts = {subdir: planned[subdir] for subdir in ("win-arm64", NOARCH)}
    return write_repodata(parts, tmp_path_factory.mktemp("small"))


def spoilt(content: channels.Repodata, folder: Path) -> Path:
    """A channel whose native builds fit every driver."""
    copy = json.loads(json.dumps(content))
    for record in copy[NOARCH]["packages.conda"].values():
        if record["name"] == "cuda-version":
            record["depends"] = []
    return write_repodata(copy, folder)


# --- the matrix is right


def test_a_sample_of_all_scenarios_is_right(known: OracleFacts, every: Matrix, solved: Channels) -> None:
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
    assert not {Cause.DRIVER, Cause.GPU} & tally.total.keys()


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


def judged(without: str = "", **changed: Record) -> str:
    records = {name: record for name, record in RECORDS.items() if name != without}
    records |= {name.replace("__", "-"): record for name, record in changed.items()}
    return wrong(QUESTION, RIGHT, SolverAnswer(scenario(QUESTION), records), SIDES)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cuda__version": Record("13.4", "compat_0")}, "toolkit 13.4 compat, not 13.0 native"),
        ({"cuda__version": Record("13.0", "h123_0")}, "no native or compat build"),
        ({"cuda__nvrtc": Record("13.0.88", "h1_0")}, "cuda-nvrtc 13.0.88 h1_0 is of CUDA 13 compat"),
        (
            {"cuda__bindings": Record("12.9.10", "cuda12_py314_native_hdef_12110")},
            "is of CUDA 12 native: builds are mixed",
        ),
        ({"cuda__nvrtc": Record("13.4.92", "h9_100")}, "cuda-nvrtc 13.4.92 is not of toolkit 13.0"),
        ({"cuda__nvvm__impl": Record("12.9.86", "h9_100")}, "cuda-nvvm-impl 12.9.86 is not of toolkit 13.0"),
        ({"libnvjitlink": Record("12.9.86", "h9_100")}, "libnvjitlink 12.9.86 is not of toolkit 13.0"),
        ({"libnvjitlink": Record("13.4.92", "h9_100")}, "libnvjitlink 13.4.92 is not of toolkit 13.0"),
        ({"python": Record("3.13.1", "h4_100_cp313")}, "Python is cp313, not cp314"),
        ({"python": Record("3.14.6", "h4_0_cp314t")}, "Python is cp314t, not cp314"),
        ({"python_abi": Record("3.14", "8_cp314t")}, "python_abi is 8_cp314t"),
        (
            {"numba__cuda": Record("0.30", "cuda12_py314_native_habc_0")},
            "numba-cuda is cuda12_py314_native_habc_0, not cuda13_py314_native_",
        ),
        ({"numba__cuda": Record("0.30", "cuda13_py314t_native_habc_0")}, "numba-cuda is cuda13_py314t_native_habc_0"),
        (
            {"cuda__python": Record("12.9", "cuda12_py_native_habc_0")},
            "cuda-python is cuda12_py_native_habc_0, not cuda13_py_native_",
        ),
        ({"without": "python"}, "Python is not there, not cp314"),
        *(({"without": name}, f"{name} is not there") for name in RECORDS if name not in ("python", "python_abi")),
    ],
)
def test_what_can_be_wrong_with_an_answer(changed: dict[str, Any], said: str) -> None:
    assert said in judged(**changed)


def test_an_old_python_is_told_by_its_version() -> None:
    question, right = replace(QUESTION, python="3.11"), replace(RIGHT, python="cp311")
    records = RECORDS | {
        "python": Record("3.11.9", "h4_100_cpython"),
        "python_abi": Record("3.11", "8_cp311"),
        "cuda-core": Record("1.2.2", "cuda13_py311_native_habc_13110"),
        "cuda-bindings": Record("13.4.4", "cuda13_py311_native_hdef_13110"),
    }
    sides = SIDES | {("cuda-core", "1.2.2", "cuda13_py311_native_habc_13110"): TwinBuild("native", "13")}
    assert wrong(question, right, SolverAnswer(scenario(question), records), sides) == ""


def test_bindings_for_cuda_12_need_a_newer_nvjitlink_than_toolkit_12_0_has() -> None:
    question, right = replace(QUESTION, request="cuda-bindings"), Expected("12.0", "native", "cp314")
    records = {name: record for name, record in RECORDS.items() if name != "cuda-core"} | {
        **{name: r._replace(version="12.0.140") for name, r in RECORDS.items() if name.startswith("cuda-nv")},
        "libnvjitlink-files": Record("12.3.101", "h8_0"),
        "libnvfatbin": Record("12.4.127", "h9_100"),
        "cuda-version": Record("12.0", "native_100"),
        "cuda-bindings": Record("12.9.10", "cuda12_py314_native_hdef_12110"),
        "libnvjitlink": Record("12.0.140", "h9_100"),
        "python": RECORDS["python"],
    }
    sides = {(n, r.version, r.build): TwinBuild("native", "12") for n, r in records.items() if n.startswith("cuda")}
    said = wrong(question, right, SolverAnswer(scenario(question), records), sides)
    assert said == "libnvjitlink 12.0.140 is not of toolkit 12.3"
    records["libnvjitlink"] = Record("12.3.101", "h9_100")
    assert wrong(question, right, SolverAnswer(scenario(question), records), sides) == ""


def test_a_pick_where_there_must_be_none_and_none_where_there_must_be_one() -> None:
    refused = SolverAnswer(scenario(QUESTION), problem="nothing provides __cuda")
    assert wrong(QUESTION, RIGHT, refused, SIDES) == "it can be solved, but was refused"
    assert wrong(QUESTION, Expected(cause=Cause.GPU), refused, SIDES) == ""
    solved = SolverAnswer(scenario(QUESTION), RECORDS)
    assert "must be refused (GPU too old)" in wrong(QUESTION, Expected(cause=Cause.GPU), solved, SIDES)


# --- machines that are alike


@pytest.fixture
def machines(every: Matrix) -> list[Scenario]:
    """A request on every machine of a platform."""
    return [scenario(Question("cuda-core", "linux-64", *machine)) for machine in every.machines]


def test_machines_that_are_alike_get_what_each_gets_alone(
    machines: list[Scenario], solved: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Scenario] = []

    def solve_many(scenarios: Iterable[Scenario], *rest: Any) -> Any:
        asked.extend(scenarios := list(scenarios))
        return solve.solve_many(scenarios, *rest)

    monkeypatch.setattr(clients, "solve_many", solve_many)
    together = {a.scenario: a for a in RattlerSolver().solve_all(machines, solved.folders)}
    assert len(asked) < len(machines) / 2
    alone = {a.scenario: a for a in RattlerSolver(grouped=False).solve_all(machines, solved.folders)}
    assert list(together) != machines, "members of a class follow each other"
    assert together.keys() == alone.keys() == set(machines)
    assert all(together[m].records == alone[m].records for m in machines)


# --- counting


class Scripted:
    """A solver with given answers, or with real answers except for the last; then it ends, or raises `end`."""

    name = "scripted"

    def __init__(self, *answers: SolverAnswer, real: bool = False, end: BaseException | None = None) -> None:
        self.answers, self.real, self.end = answers, real, end

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[SolverAnswer]:
        yield from RattlerSolver().solve_all(tuple(scenarios)[:-1], channels) if self.real else self.answers
        if self.end:
            raise self.end


def tally(known: OracleFacts, solved: Channels, solver: Scripted, *questions: Question) -> Tally:
    counting = Tally(known, solved)
    counting.run(solver, questions)
    return counting


def test_machines_that_are_taken_for_alike_and_are_not_fail_the_run(
    machines: list[Scenario], solved: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MachineClasses, "key", lambda self, scenario: scenario.specs)
    with pytest.raises(SolverFailed, match="no rule of the channel tells apart got different packages"):
        list(RattlerSolver().solve_all(machines, solved.folders))


def test_a_solver_that_does_not_answer_every_scenario_once_has_failed(known: OracleFacts, solved: Channels) -> None:
    asked = [Question("cuda-nvrtc", "linux-64", driver) for driver in ("13.0", "12.9")]
    (answer,) = RattlerSolver().solve_all([scenario(asked[0])], solved.folders)
    other = SolverAnswer(Scenario(("cuda-core",), "win-64", "13.0"))
    for answers, said in (([], "answered 0 of 2"), ([answer, answer], "a second one"), ([other], "not asked")):
        counting = Tally(known, solved)
        with pytest.raises(SolverFailed, match=said):
            counting.run(Scripted(*answers), asked)
        assert not counting.complete


def test_a_client_that_sees_no_gpu_is_judged_for_a_machine_without(known: OracleFacts, solved: Channels) -> None:
    question = Question("cuda-nvrtc", "linux-64", "13.0", "7.0")  # with its GPU, 12.9 is right
    blind = replace(scenario(question), arch=None)
    (answer,) = RattlerSolver().solve_all([blind], solved.folders)
    assert answer.records["cuda-version"].version == "13.0"
    assert tally(known, solved, Scripted(answer), question).total == {"right": 1}


def test_a_solver_that_takes_the_driver_away_loses_the_refusal_only(known: OracleFacts, solved: Channels) -> None:
    (anything,) = RattlerSolver().solve_all([Scenario(("cuda-nvrtc",), "linux-64")], solved.folders)

    def removed(question: Question) -> Counts:
        asked = scenario(question)
        answer = replace(anything, scenario=asked, removed=("__cuda",))
        return tally(known, solved, Scripted(answer), question).total

    assert removed(Question("cuda-nvrtc", "linux-64", "11.8")) == {Loss.REFUSAL: 1}
    assert removed(Question("cuda-nvrtc", "linux-64", "11.8", pin="12.7")) == {"wrong": 1}
    assert removed(Question("cuda-nvrtc", "linux-64", "13.4")) == {"wrong": 1}


# --- what is solved from


def test_every_package_of_one_cuda_major_says_which_of_the_two_builds_it_is(
    planned: channels.Repodata, solved: Channels
) -> None:
    for subdir in planned.values():
        for record in subdir["packages.conda"].values():
            ranges = [need for need in record["depends"] if need.startswith("cuda-version ")]
            known = (record["name"], record["version"], record["build"]) in solved.twins
            # One build for both majors, or for both fits.
            once = record["name"] in ("cuda-pathfinder", "cuda-gpu") or record["name"].endswith("-files")
            assert known == (record["name"] == "cuda-version" or (bool(ranges) and not once)), record["name"]


def test_only_constraints_on_virtual_packages_are_taken_out(planned: channels.Repodata) -> None:
    before = json.dumps(planned)
    copy = channels.without_virtual_constraints(planned)
    assert json.dumps(planned) == before
    assert '"__cuda >=13.4"' in json.dumps(copy)  # the dependency of the native build
    for subdir in planned:
        for file, record in planned[subdir]["packages.conda"].items():
            kept = [c for c in record.get("constrains", []) if not c.startswith("__")]
            assert copy[subdir]["packages.conda"][file].get("constrains", []) == kept
            assert {**copy[subdir]["packages.conda"][file], "constrains": 0} == {**record, "constrains": 0}


@pytest.mark.parametrize("subdirs", [[], [NOARCH], ["linux-64"]])
def test_a_folder_without_packages_for_a_platform_is_no_channel(tmp_path: Path, subdirs: list[str]) -> None:
    for subdir in subdirs:
        (tmp_path / subdir).mkdir()
        (tmp_path / subdir / "repodata.json").write_text(json.dumps({"packages.conda": {}}))
    with pytest.raises(ChannelMissing, match="there is no channel"):
        channels.built(tmp_path)


# --- the command


def run(*arguments: str) -> Any:
    """Runs the command in this process; errors are exceptions, which `start` would print."""
    return CliRunner().invoke(app, ["verify", *arguments], env={"COLUMNS": "120"})


def test_the_command_says_how_many_of_how_many_are_right_in_words_and_as_json(small: Path, every: Matrix) -> None:
    of = len(replace(every, subdirs=("win-arm64",), requests=("cuda-nvrtc",)))
    asked = ("--channel", str(small), "--request", "cuda-nvrtc", "--constraints", "ignored", "--sample", "100")
    said, found = run(*asked), json.loads(run(*asked, "--json").stdout)
    assert said.exit_code == 0, said.output
    for words in (f"100 of {of} scenarios", "none wrong", "lost: refusal", "too old for all that was asked for"):
        assert words in said.output
    assert (found["solver"], found["of"], found["complete"], found["first_wrong"]) == ("rattler", of, True, [])
    judged = found["right"] + sum(found["refused"].values()) + sum(found["lost"].values()) + found["wrong"]
    assert found["scenarios"] == found["total"] == judged == 100
    assert set(found["requests"]) == {"cuda-nvrtc"}


def test_a_wrong_pick_is_printed_whole_and_ends_with_a_code_of_its_own(
    planned: channels.Repodata, tmp_path: Path
) -> None:
    arguments = ("--request", "cuda-nvrtc", "-p", "win-64", "--sample", "200")
    done = run("--channel", str(spoilt(planned, tmp_path)), *arguments)
    assert isinstance(done.exception, VerifyFailed) and done.exception.exit_code == 17
    assert "picks are wrong" in done.exception.cause and done.exception.step
    assert done.stdout.count("wrong: ctk solve ") == 3
    text = done.stdout[done.stdout.index("wrong: ctk solve ") :]
    for part in ("--platform win-64 --driver ", "  expected: ", "  found: ", "    cuda-version "):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--sample", "0"], 2, "sample of 0"),
        (["--platform", "osx-arm64"], 3, "there is no CUDA for macOS (osx-arm64)"),
        (["--platform", "linux-64"], 2, "nothing to verify"),
    ],
)
def test_what_cannot_be_asked_is_a_clear_error(small: Path, arguments: list[str], code: int, said: str) -> None:
    error = run("--channel", str(small), *arguments).exception
    assert isinstance(error, CtkError)
    assert (error.exit_code, said in error.cause, bool(error.step)) == (code, True, True)


ENDS: dict[str, BaseException | None] = {
    "Ctrl-C": KeyboardInterrupt(),
    "the client fails": SolverFailed("micromamba crashed", "try it by hand"),
    "an answer is missing": None,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_ended_early_does_not_say_that_none_is_wrong(
    small: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(clients, "solver", lambda name, where: Scripted(real=True, end=ENDS[end]))
    shown: list[str] = []
    monkeypatch.setattr(Reporter, "line", lambda self, text, style=None: shown.append(str(text)))
    monkeypatch.setattr(Reporter, "result", lambda self, **values: shown.append(json.dumps(values)))
    done = run("--channel", str(small), "--request", "cuda-nvrtc", "--sample", "50")
    assert done.exit_code != 0
    (result,) = [json.loads(text) for text in shown if text.startswith("{")]
    assert (result["complete"], result["total"], result["scenarios"]) == (False, 49, 50)
    assert any(re.search(r"^stopped: 49 of \d+ scenarios in .* s: 0 wrong so far, 1 not answered$", t) for t in shown)
    assert not any("none wrong" in text for text in shown)
