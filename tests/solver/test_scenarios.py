"""The matrix has every value that the issue names, and what is chosen from it leaves none out."""

from __future__ import annotations

import shlex
from functools import cache

import pytest
from typer.testing import CliRunner

from ctk.cli import solve
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, UnknownName, Unsolvable
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import release_locks
from ctk.plan.plan import python_tags
from ctk.solve.solve import Scenario
from ctk.verify.oracle import REQUESTS, OracleFacts, Question, version
from ctk.verify.scenarios import Matrix, command, matrix, scenario


@pytest.fixture(scope="module")
def covering(every: Matrix) -> list[Question]:
    return every.covering()


def test_drivers_are_none_one_too_old_every_minor_and_one_newer(every: Matrix, known: OracleFacts) -> None:
    newest = max((t.minor for t in known.toolkits), key=version)
    major, minor = newest.split(".")
    assert every.drivers[:2] == (None, "11.8")
    assert every.drivers[-1] == f"{major}.{int(minor) + 1}"
    assert {f"12.{n}" for n in range(10)} | {f"13.{n}" for n in range(int(minor) + 1)} <= set(every.drivers)


def test_gpus_are_none_every_one_that_a_locked_nvrtc_knows_and_one_newer(every: Matrix, project: Workspace) -> None:
    locked = {gpu for lock in release_locks(project).values() if lock.facts for gpu in lock.facts.gpu_architectures}
    assert every.gpus[0] is None
    assert set(every.gpus[1:-1]) == locked
    assert all(version(str(every.gpus[-1])) > version(gpu) for gpu in locked)


def test_pythons_are_all_of_the_channel_and_those_that_it_must_refuse(every: Matrix, project: Workspace) -> None:
    """When this fails after a Python was added: add it to universe.yaml too."""
    ours = {f"3.{tag.removeprefix('cp3')}" for tag in python_tags(project.build_config)}
    assert {"3.11", "3.14", "3.14t", "3.15", "3.15t"} <= ours <= set(every.pythons)
    assert {None, "3.10"} <= set(every.pythons)


def test_pins_are_each_major_each_locked_minor_and_one_that_is_not_locked(every: Matrix, known: OracleFacts) -> None:
    locked = {t.minor for t in known.toolkits}
    assert {None, "12", "13", *locked} < set(every.pins)
    (missing,) = set(every.pins) - {None, "12", "13", *locked}
    assert min(locked, key=version) < missing < max(locked, key=version)


def test_requests_and_platforms_are_the_issue_s(every: Matrix) -> None:
    assert set(every.requests) == {
        "cuda-core", "numba-cuda", "cuda-python", "cuda-bindings", "cuda-nvrtc", "cuda-nvcc", "numba-cuda-mlir",
        "cccl-python", "cuda-runtime",
    }  # fmt: skip
    assert every.subdirs == tuple(PLATFORMS)


def test_the_matrix_has_as_many_members_as_it_says_and_a_sample_can_hold_them_all(known: OracleFacts) -> None:
    small = matrix(known, ["cp312"], ["win-64"], ["cuda-core"])
    members = list(small)
    assert len(members) == len(small) == len(set(members))
    assert small.sample(len(small), 1) == members


# --- what is chosen from it


def test_by_default_at_least_20_000_different_scenarios_are_solved(covering: list[Question]) -> None:
    assert len(covering) == len(set(covering)) >= 20_000
    assert len({scenario(question) for question in covering}) == len(covering)


def test_the_default_choice_has_every_machine_for_each_request_and_platform(
    every: Matrix, covering: list[Question]
) -> None:
    plain = {(q.driver, q.arch, q.subdir, q.request) for q in covering if not q.pin and not q.python}
    assert plain == {(d, g, s, r) for d, g in every.machines for s in every.subdirs for r in REQUESTS}


def test_the_default_choice_has_every_pin_with_every_driver_and_every_kind_of_gpu(
    every: Matrix, covering: list[Question], known: OracleFacts
) -> None:
    @cache
    def kind(gpu: str | None) -> object:
        """What the toolkits say of a GPU; the choice has one of each kind."""
        if gpu is None:
            return None
        return tuple((gpu in t.architectures, version(t.architectures[0]) <= version(gpu)) for t in known.toolkits)

    for subdir in every.subdirs:
        got = {(q.pin, q.driver, kind(q.arch), q.request) for q in covering if q.subdir == subdir and q.python is None}
        machines = {(d, kind(g)) for d, g in every.machines}
        assert got == {(pin, d, k, r) for pin in every.pins for d, k in machines for r in REQUESTS}


@pytest.mark.parametrize(
    ("minor", "gpu"),
    [("12.8", "10.3"), ("12.9", "8.8"), ("12.9", "10.7"), ("12.9", "11.0")]
    + [(minor, gpu) for minor in ("13.0", "13.1", "13.2", "13.3") for gpu in ("10.1", "10.7")]
    + [("13.4", "10.1"), ("13.5", "10.1")],
)
def test_the_default_choice_has_each_gpu_in_a_gap_with_a_driver_and_a_pin_of_the_toolkit(
    minor: str, gpu: str, every: Matrix, covering: list[Question], known: OracleFacts
) -> None:
    (toolkit,) = (t for t in known.toolkits if t.minor == minor)
    assert gpu not in toolkit.architectures
    assert version(toolkit.architectures[0]) < version(gpu) < version(toolkit.architectures[-1])
    alike = {g for g in every.gpus if g and [g in t.architectures for t in known.toolkits] ==
             [gpu in t.architectures for t in known.toolkits]}  # fmt: skip
    assert {q.pin for q in covering if q.driver == minor and q.arch == gpu} >= {None}
    assert any(q.pin == q.driver == minor and q.arch in alike for q in covering)


def test_the_default_choice_has_every_python_with_every_request_pin_and_platform(
    every: Matrix, covering: list[Question]
) -> None:
    got = {(q.python, q.request, q.pin, q.subdir) for q in covering}
    assert got == {(p, r, n, s) for p in every.pythons for r in REQUESTS for n in every.pins for s in every.subdirs}


def test_a_sample_is_the_same_for_the_same_seed(every: Matrix) -> None:
    sample = every.sample(300, 7)
    assert sample == every.sample(300, 7) != every.sample(300, 8)
    assert len(set(sample)) == 300


@pytest.mark.parametrize("size", [0, -1, 10**9])
def test_an_impossible_sample_is_refused_with_the_size_of_the_matrix(every: Matrix, size: int) -> None:
    with pytest.raises(BadValue, match=str(size)) as error:
        every.sample(size, 0)
    assert str(len(every)) in error.value.step


def test_only_some_platforms_requests_and_pythons(known: OracleFacts) -> None:
    few = matrix(known, ["cp314t"], ["win-arm64"], ["cuda-core", "cuda-nvcc"], any_python=False)
    chosen = few.covering()
    assert {q.subdir for q in chosen} == {"win-arm64"}
    assert {q.request for q in chosen} == {"cuda-core", "cuda-nvcc"}
    assert {q.python for q in chosen} == {q.python for q in few} == {"3.14t"}


@pytest.mark.parametrize(
    ("subdirs", "requests", "named"), [(["osx-64"], [], "osx-64"), ([], ["cuda-cor"], "cuda-core")]
)
def test_an_unknown_platform_or_request_is_named_with_what_there_is(
    known: OracleFacts, subdirs: list[str], requests: list[str], named: str
) -> None:
    with pytest.raises(UnknownName) as error:
        matrix(known, [], subdirs, requests)
    assert named in error.value.cause + error.value.step


# --- how it is asked


def test_a_question_is_asked_as_a_user_would_type_it() -> None:
    question = Question("numba-cuda", "win-64", "13.0", "9.0", "3.14t", "12.6")
    asked = scenario(question)
    assert asked.specs == ("cuda-version=12.6", "numba-cuda", "python=3.14", "python_abi=3.14=*_cp314t")
    assert (asked.subdir, asked.driver, asked.arch) == ("win-64", "13.0", "9.0")


def test_the_printed_command_asks_the_same(every: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of the printed command, as `ctk solve` itself understands them, are the scenario."""
    asked: list[Scenario] = []

    def remember(understood: Scenario, *_: object) -> None:
        asked.append(understood)
        raise Unsolvable("enough")

    monkeypatch.setattr(solve, "solve_or_say_why", remember)
    monkeypatch.setattr(solve, "catalogue", lambda *_: None)
    questions = every.sample(100, 3)
    for question in questions:
        program, *words = shlex.split(command(question))
        assert program == "ctk"
        with pytest.raises(Unsolvable, match="enough"):
            CliRunner().invoke(app, words, catch_exceptions=False)
    assert asked == [scenario(question) for question in questions]
