"""Asks a solver for scenarios, holds each answer against the oracle's, and counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from ctk.core.errors import SolverFailed
from ctk.solve.solve import Scenario
from ctk.verify.channels import Channels, TwinBuild
from ctk.verify.oracle import (
    PTX_WRITERS,
    PYTHON_REQUESTS,
    Cause,
    Expected,
    Loss,
    OracleFacts,
    Question,
    expected,
    expected_ignoring,
    loss,
    minors_of,
)
from ctk.verify.scenarios import scenario

# Why a client can refuse a request, or fail to refuse it, because of the machine.
_MACHINE = (Cause.DRIVER, Cause.GPU)
# So many scenarios are kept in memory at a time.
_CHUNK = 20_000

_NVJITLINK, _NVRTC, _NVVM, _NVVM_TOOLS = (
    (name, f"{name}-files") for name in ("libnvjitlink", "cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools")
)
_LIBRARIES = ("cuda-cudart", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnpp", "libnvjpeg")
_NVCC = ("cuda-nvcc-tools", "cuda-nvcc-tools-files", "cuda-crt-tools", "cuda-cudart", "cuda-cudart-dev")
# They are of exactly the toolkit's minor.
_OF_THE_MINOR = (*_NVRTC, *_NVVM, *_NVVM_TOOLS, *_NVCC)
# Request -> the packages without which it is of no use.
_BINDINGS = ("cuda-bindings", "cuda-pathfinder", "libnvfatbin", "numpy", *_NVRTC, *_NVVM, *_NVJITLINK)
_KERNELS = ("cuda-core", "cuda-cccl", "cuda-cudart-dev", *_NVVM_TOOLS, *_BINDINGS)
_MLIR = ("numba-cuda-mlir-files", *_KERNELS)
_NEEDED = {
    "cuda-nvrtc": _NVRTC,
    "cuda-nvcc": (*_NVCC, *_NVVM, *_NVVM_TOOLS),
    "cuda-runtime": (*_LIBRARIES, *_NVRTC, *_NVJITLINK),
    "cuda-bindings": _BINDINGS,
    "cuda-core": _BINDINGS,
    "cuda-python": _BINDINGS,
    "numba-cuda": ("numba", *_KERNELS),
    "numba-cuda-mlir": _MLIR,
    "cccl-python": ("numba-cuda-mlir", *_MLIR),
}


@dataclass(frozen=True)
class Record:
    """One package of an answer."""

    version: str
    build: str
    channel: str = ""  # folder or address, as the solver names it


@dataclass(frozen=True)
class SolverAnswer:
    """A solver's answer to one scenario."""

    scenario: Scenario  # as it was asked; without the GPU where the client cannot see one
    records: Mapping[str, Record] = field(default_factory=dict)  # by name, without virtual packages
    problem: str = ""  # the solver's message when there is no solution
    removed: tuple[str, ...] = ()  # virtual packages that the solver took away to find a solution

    @property
    def solved(self) -> bool:
        return not self.problem


class Solver(Protocol):
    """A solver of conda packages."""

    name: str

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[SolverAnswer]:
        """Solves scenarios, each in an empty environment; one answer for each, in any order, as soon as it is known.

        The channels are folders with ``<subdir>/repodata.json``, the most important first, with strict priority. A
        `CtkError` means that the solver itself failed: a channel that cannot be read, a program that crashes.
        """
        ...


# --- one answer


def wrong(question: Question, right: Expected, answer: SolverAnswer, twins: Mapping[Any, TwinBuild]) -> str:
    """The first fault of an answer, in one sentence, or "" when it is right; `twins` as in `Channels`."""
    if not right.toolkit:
        return f"it must be refused ({right.cause}), but was solved" if answer.solved else ""
    if not answer.solved:
        return "it can be solved, but was refused"
    return next(_faults(question, right, answer.records, twins), "")


def _faults(
    question: Question, right: Expected, records: Mapping[str, Record], twins: Mapping[Any, TwinBuild]
) -> Iterator[str]:
    if missing := [name for name in ("cuda-version", question.request) if name not in records]:
        yield f"{missing[0]} is not there"
        return
    for name in ("cuda-version", question.request):
        if (name, records[name].version, records[name].build) not in twins:
            yield f"{name} {records[name].version} {records[name].build} is no native or compat build of this channel"
    got = records["cuda-version"]
    if (got.version, got.build.split("_")[0]) != (right.toolkit, right.fit):
        yield f"toolkit {got.version} {got.build.split('_')[0]}, not {right.toolkit} {right.fit}"
    for name, record in records.items():
        twin = twins.get((name, record.version, record.build))
        if twin and (twin.fit, twin.major) != (right.fit, right.major):
            yield f"{name} {record.version} {record.build} is of CUDA {twin.major} {twin.fit}: builds are mixed"
    minors: dict[str, tuple[str, ...]] = dict.fromkeys(_OF_THE_MINOR, (right.toolkit,))
    for writer in PTX_WRITERS:
        allowed = minors_of(writer, right.toolkit, for_python="cuda-bindings" in records)
        minors |= dict.fromkeys((writer, f"{writer}-files", f"{writer}-dev"), allowed)
    for name, allowed in minors.items():
        if name in records and ".".join(records[name].version.split(".")[:2]) not in allowed:
            yield f"{name} {records[name].version} is not of toolkit {' or '.join(allowed)}"
    yield from _python_faults(right, records)
    yield from (f"{name} is not there" for name in _NEEDED.get(question.request, ()) if name not in records)


def _python_faults(right: Expected, records: Mapping[str, Record]) -> Iterator[str]:
    tag = ""
    if "python" in records:
        python = records["python"]
        plain = f"cp{''.join(python.version.split('.')[:2])}"
        tag = plain if python.build.endswith("_cpython") else python.build.rsplit("_", 1)[-1]
    if tag != right.python:
        yield f"Python is {tag or 'not there'}, not {right.python or 'there'}"
    if right.python and "python_abi" in records and not records["python_abi"].build.endswith(f"_{right.python}"):
        yield f"python_abi is {records['python_abi'].build}, not for {right.python}"
    for name in PYTHON_REQUESTS:
        # noarch packages name the major only
        start = f"cuda{right.major}_py" + ("h" if name == "cuda-python" else f"{right.python[2:]}h")
        if name in records and not records[name].build.startswith(start):
            yield f"{name} is {records[name].build}, not {start}..."


# --- many answers


@dataclass(frozen=True)
class Wrong:
    """A scenario whose answer is not the right one."""

    question: Question
    expected: Expected
    answer: SolverAnswer
    fault: str


@dataclass
class Counts:
    """The verdicts on the answers to one request."""

    right: int = 0
    refused: Counter[Cause] = field(default_factory=Counter)  # rightly unsolvable
    lost: Counter[Loss] = field(default_factory=Counter)  # what the kind of client that is asked for must lose
    wrong: int = 0

    @property
    def total(self) -> int:
        return self.right + self.refused.total() + self.lost.total() + self.wrong

    def __add__(self, other: Counts) -> Counts:
        refused, lost = self.refused + other.refused, self.lost + other.lost
        return Counts(self.right + other.right, refused, lost, self.wrong + other.wrong)

    def as_json(self) -> dict[str, Any]:
        refused = {cause.name.lower(): number for cause, number in sorted(self.refused.items())}
        lost = {kind.name.lower(): number for kind, number in sorted(self.lost.items())}
        return {"total": self.total, "right": self.right, "refused": refused, "lost": lost, "wrong": self.wrong}


class Tally:
    """Judges answers one by one, so that a run that is stopped still has its counts, and keeps some wrong ones whole.

    A solver that is `ignoring` sees no constraint on a virtual package: it is held to what such a client can do, and
    what it loses by that is counted.
    """

    def __init__(self, facts: OracleFacts, channels: Channels, *, ignoring: bool = False, keep: int = 3) -> None:
        self._facts, self._channels, self._ignoring, self._keep = facts, channels, ignoring, keep
        self._asked: dict[Scenario, Question] = {}
        self.counts: dict[str, Counts] = {}
        self.wrong: list[Wrong] = []
        self.seconds = 0.0
        self.complete = False  # whether every scenario was answered, once

    @property
    def total(self) -> Counts:
        """Of all requests."""
        return sum(self.counts.values(), Counts())

    def run(
        self, solver: Solver, questions: Iterable[Question], advance: Callable[[float], None] = lambda _: None
    ) -> None:
        """Asks a solver different questions, and judges its answers, of which there must be one for each."""
        self.complete = False
        start, waiting = time.perf_counter(), iter(questions)
        try:
            while chunk := list(islice(waiting, _CHUNK)):
                self._asked = {scenario(question): question for question in chunk}
                for answer in solver.solve_all(tuple(self._asked), self._channels.folders):
                    self._add(answer)
                    advance(1)
                if self._asked:
                    raise SolverFailed(
                        f"{solver.name} answered {len(chunk) - len(self._asked)} of {len(chunk)} scenarios",
                        f"try it with a few: ctk verify --solver {solver.name} --sample 10",
                    )
            self.complete = True
        finally:
            self.seconds += time.perf_counter() - start

    def _add(self, answer: SolverAnswer) -> None:
        question = self._question(answer.scenario)
        right = (expected_ignoring if self._ignoring else expected)(self._facts, question)
        counts = self.counts.setdefault(question.request, Counts())
        if answer.removed and right.cause in _MACHINE:
            # Such a client takes the driver away when nothing else solves: it refuses nothing.
            counts.lost[Loss.REFUSAL] += 1
            return
        fault = wrong(question, right, answer, self._channels.twins)
        if not fault and answer.removed:
            fault = f"it was solved without {' and '.join(answer.removed)}"
        if fault:
            counts.wrong += 1
            if len(self.wrong) < self._keep:
                self.wrong.append(Wrong(question, right, answer, fault))
        elif self._ignoring and (lost := loss(self._facts, question)):
            counts.lost[lost] += 1
        elif right.cause:
            counts.refused[right.cause] += 1
        else:
            counts.right += 1

    def _question(self, asked: Scenario) -> Question:
        """Takes out the question of a scenario, for the machine without a GPU where the client sees none."""
        if asked in self._asked:
            return self._asked.pop(asked)
        for whole, question in self._asked.items():
            if replace(whole, arch=None) == asked:
                del self._asked[whole]
                return replace(question, arch=None)
        raise SolverFailed(
            f"an answer to what was not asked, or a second one: {' '.join(asked.specs)} on {asked.subdir}",
            "a solver must answer the scenarios that it is given",
        )
