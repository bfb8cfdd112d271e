"""The matrix has every value of the locks, and the covering set leaves none out."""

from __future__ import annotations

import shlex
from functools import cache

import pytest
from typer.testing import CliRunner

from ctk.cli.main import app
from ctk.cli.work import picks
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import python_tags
from ctk.solve import channels
from ctk.solve.solve import Scenario
from ctk.verify.oracle import REQUESTS, OracleFacts, Question, version
from ctk.verify.scenarios import Matrix, command, matrix, scenario


@pytest.fixture(scope="module")
def covering(every: Matrix) -> list[Question]:
    return every.covering()


def test_each_axis_has_every_value_that_the_locks_have_and_one_beyond_each_end(
    every: Matrix, known: OracleFacts, project: Workspace
) -> None:
    """If this fails after you added a Python, add it to universe.yaml too."""
    minors = sorted((t.minor for t in known.toolkits), key=version)
    major, minor = version(minors[-1])
    assert (every.drivers[:2], every.drivers[-1]) == ((None, "11.8"), f"{major}.{minor + 1}")
    assert {f"12.{n}" for n in range(10)} | {f"13.{n}" for n in range(minor + 1)} <= set(
        every.drivers
    )
    gpus = {gpu for toolkit in known.toolkits for gpu in toolkit.architectures}
    assert (every.gpus[0], set(every.gpus[1:-1])) == (None, gpus)
    assert all(version(str(every.gpus[-1])) > version(gpu) for gpu in gpus)
    ours = {f"3.{tag.removeprefix('cp3')}" for tag in python_tags(project.build_config)}
    assert {None, "3.10", "3.11", "3.14", "3.14t", "3.15", "3.15t", *ours} <= set(every.pythons)
    (missing,) = set(every.pins) - {None, "12", "13", *minors}
    assert {None, "12", "13", *minors} < set(every.pins) and version(minors[0]) < version(
        missing
    ) < (major, minor)
    assert every.subdirs == tuple(PLATFORMS)
    assert set(every.requests) == {
        "cuda-core", "numba-cuda", "cuda-python", "cuda-bindings", "cuda-nvrtc", "cuda-nvcc",
        "numba-cuda-mlir", "cccl-python", "cuda-runtime",
        "cuda-core libnvjitlink>=12.9", "cuda-core libnvjitlink>=13.4",
        "cuda-gpu cuda-core", "cuda-gpu cuda-nvrtc",
    }  # fmt: skip


# --- what is chosen from it


def test_the_default_choice_has_every_machine_for_each_request_and_platform(
    every: Matrix, covering: list[Question]
) -> None:
    plain = {
        (q.driver, q.arch, q.subdir, q.request) for q in covering if not q.pin and not q.python
    }
    assert plain == {
        (d, g, s, r) for d, g in every.machines for s in every.subdirs for r in REQUESTS
    }


def test_the_default_choice_has_every_pin_with_every_driver_and_every_kind_of_gpu(
    every: Matrix, covering: list[Question], known: OracleFacts
) -> None:
    @cache
    def kind(gpu: str | None) -> object:
        """For each toolkit, whether it knows the GPU.

        The covering set has a GPU of each such kind.
        """
        if gpu is None:
            return None
        return tuple(
            (gpu in t.architectures, version(t.architectures[0]) <= version(gpu))
            for t in known.toolkits
        )

    for subdir in every.subdirs:
        got = {
            (q.pin, q.driver, kind(q.arch), q.request)
            for q in covering
            if q.subdir == subdir and q.python is None
        }
        machines = {(d, kind(g)) for d, g in every.machines}
        assert got == {(pin, d, k, r) for pin in every.pins for d, k in machines for r in REQUESTS}


def test_the_default_choice_has_every_python_with_every_request_pin_and_platform(
    every: Matrix, covering: list[Question]
) -> None:
    got = {(q.python, q.request, q.pin, q.subdir) for q in covering}
    assert got == {
        (p, r, n, s)
        for p in every.pythons
        for r in REQUESTS
        for n in every.pins
        for s in every.subdirs
    }


def test_a_sample_is_the_same_for_the_same_seed_and_can_be_the_whole_matrix(
    every: Matrix, known: OracleFacts
) -> None:
    assert every.sample(300, 7) == every.sample(300, 7) != every.sample(300, 8)
    small = matrix(known, ["cp312"], ["win-64"], ["cuda-core"])
    assert len(set(small.sample(len(small), 1))) == len(small)


# --- how it is asked


def test_the_printed_command_asks_the_same(every: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ctk solve` reads the printed command as the same scenario."""
    asked: list[Scenario] = []

    def remember(understood: Scenario, *_: object) -> None:
        asked.append(understood)
        raise Unsolvable("enough")

    monkeypatch.setattr(picks, "solve_or_say_why", remember)
    monkeypatch.setattr(channels, "catalogue", lambda *_, **__: None)
    questions = every.sample(20, 3)
    for question in questions:
        program, *words = shlex.split(command(question))
        assert program == "ctk"
        with pytest.raises(Unsolvable, match="enough"):
            CliRunner().invoke(app, words, catch_exceptions=False)
    assert asked == [scenario(question) for question in questions]
