"""Asks a solver for scenarios, compares each answer with the oracle's, and counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ctk.core.versions import PythonTag
from ctk.solve.channels import Channels, Twins
from ctk.solve.solve import Scenario
from ctk.verify import oracle
from ctk.verify.oracle import Cause, Expected, Loss, OracleFacts, Question
from ctk.verify.scenarios import scenario

_KEPT = 3  # wrong answers that are kept whole

_NVJITLINK, _NVRTC, _NVVM, _NVVM_TOOLS = (
    (name, f"{name}-files")
    for name in ("libnvjitlink", "cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvvm-tools")
)
_LIBRARIES = (
    "cuda-cudart",
    "libcublas",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnpp",
    "libnvjpeg",
)
_NVCC = (
    "cuda-nvcc-tools",
    "cuda-nvcc-tools-files",
    "cuda-crt-tools",
    "cuda-cudart",
    "cuda-cudart-dev",
)
# Packages with exactly the toolkit's minor.
_OF_THE_MINOR = _NVRTC + _NVVM + _NVVM_TOOLS + _NVCC
# Request -> the packages that it cannot work without.
_BINDINGS = (
    "cuda-bindings",
    "cuda-pathfinder",
    "libnvfatbin",
    "numpy",
    *_NVRTC,
    *_NVVM,
    *_NVJITLINK,
)
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


class Record(NamedTuple):
    """A package of an answer; the channel is a folder or an address, as the solver names it."""

    version: str
    build: str
    channel: str = ""


@dataclass(frozen=True)
class SolverAnswer:
    """A solver's answer to one scenario."""

    scenario: Scenario
    records: Mapping[str, Record] = field(default_factory=dict)  # by name, without virtual packages
    problem: str = ""  # the solver's message if there is no solution
    removed: tuple[str, ...] = ()  # virtual packages that the solver removed to find a solution
    sees_gpus: bool = True  # if not, it is the answer for the machine without its GPU

    @property
    def solved(self) -> bool:
        return not self.problem


class Solver(Protocol):
    """A solver of conda packages."""

    name: str

    def solve_all(
        self, scenarios: Iterable[Scenario], channels: Sequence[Path]
    ) -> Iterator[SolverAnswer]:
        """Solves scenarios, each in an empty environment; yields an answer for each, in any order.

        The channels are folders with ``<subdir>/repodata.json``, the most important first, with
        strict priority.

        Raises:
            CtkError: The solver itself failed: it cannot read a channel, or its program crashed.
        """
        ...


# --- an answer


def wrong(question: Question, right: Expected, answer: SolverAnswer, twins: Twins) -> str:
    """A sentence with the first fault of an answer; "" if the answer is right."""
    if right.toolkit and answer.solved:
        return next(_faults(question, right, answer.records, twins), "")
    if answer.solved:
        return f"it must be refused ({right.cause}), but was solved"
    return "it can be solved, but was refused" if right.toolkit else ""


def _faults(
    question: Question, right: Expected, records: Mapping[str, Record], twins: Twins
) -> Iterator[str]:
    requested = [word for word in question.request.split() if ">=" not in word]
    for name in ("cuda-version", *requested):
        if name not in records:
            yield f"{name} is not there"
            return
        if (name, records[name].version, records[name].build) not in twins:
            yield (
                f"{name} {records[name].version} {records[name].build} is not a native or compat"
                " build of this channel"
            )
    version, fit = records["cuda-version"].version, records["cuda-version"].build.split("_")[0]
    if (version, fit) != (right.toolkit, right.fit):
        yield f"toolkit {version} {fit}, not {right.toolkit} {right.fit}"
    for name, record in records.items():
        twin = twins.get((name, record.version, record.build))
        if twin and (twin.fit, twin.major) != (right.fit, right.major):
            yield (
                f"{name} {record.version} {record.build} is of CUDA {twin.major} {twin.fit}: builds"
                " are mixed"
            )
    minors: dict[str, tuple[str, ...]] = dict.fromkeys(_OF_THE_MINOR, (right.toolkit,))
    for writer in oracle.PTX_WRITERS:
        allowed = oracle.minors_of(writer, right.toolkit, for_python="cuda-bindings" in records)
        allowed = right.nvjitlink if writer == "libnvjitlink" and right.nvjitlink else allowed
        minors |= dict.fromkeys((writer, f"{writer}-files", f"{writer}-dev"), allowed)
    for name, allowed in minors.items():
        if name in records and ".".join(records[name].version.split(".")[:2]) not in allowed:
            yield f"{name} {records[name].version} is not of toolkit {' or '.join(allowed)}"
    yield from _python_faults(right, records)
    needed = set(chain.from_iterable(_NEEDED.get(name, ()) for name in requested))
    if right.nvjitlink:  # the build for an older toolkit has its files itself
        needed.discard("libnvjitlink-files")
    yield from (f"{name} is not there" for name in sorted(needed) if name not in records)


def _python_faults(right: Expected, records: Mapping[str, Record]) -> Iterator[str]:
    tag = ""
    if "python" in records:
        tag = records["python"].build.rsplit("_", 1)[-1]
        if tag == "cpython":
            tag = PythonTag(".".join(records["python"].version.split(".")[:2])).tag
    if tag != right.python:
        yield f"Python is {tag or 'not there'}, not {right.python or 'there'}"
    if (
        right.python
        and "python_abi" in records
        and not records["python_abi"].build.endswith(f"_{right.python}")
    ):
        yield f"python_abi is {records['python_abi'].build}, not for {right.python}"
    fit = {"compat": "with_compat"}.get(right.fit, right.fit)  # as build strings say it
    for name in oracle.PYTHON_REQUESTS:
        python = "" if name == "cuda-python" else right.python[2:]  # it is noarch
        start = f"cuda{right.major}_py{python}_{fit}_"
        if name in records and not records[name].build.startswith(start):
            yield f"{name} is {records[name].build}, not {start}..."


# --- many answers


class Wrong(NamedTuple):
    """A scenario with a wrong answer."""

    question: Question
    expected: Expected
    answer: SolverAnswer
    fault: str


Counts = Counter[str]
"""Verdict -> number of answers.

Verdicts are ``right``, ``wrong``, a `Cause` (rightly refused) or a `Loss`.
"""


def counts_as_json(counts: Counts) -> dict[str, Any]:
    refused = {cause.name.lower(): counts[cause] for cause in sorted(Cause) if counts[cause]}
    lost = {kind.name.lower(): counts[kind] for kind in sorted(Loss) if counts[kind]}
    ends = {"right": counts["right"], "refused": refused, "lost": lost, "wrong": counts["wrong"]}
    return {"total": counts.total(), **ends}


class Tally:
    """Compares answers with the oracle's as they come: a stopped run has its counts.

    With `ignoring`, the solver sees no constraints on virtual packages: its answers are compared
    with `oracle.expected_ignoring`, and its losses are counted.
    """

    def __init__(self, facts: OracleFacts, channels: Channels, *, ignoring: bool = False) -> None:
        self._facts, self._channels, self._ignoring = facts, channels, ignoring
        self.counts: dict[str, Counts] = {}  # by request
        self.wrong: list[Wrong] = []
        self.seconds = 0.0

    @property
    def total(self) -> Counts:
        """The sum over all requests."""
        return sum(self.counts.values(), Counts())

    def run(
        self,
        solver: Solver,
        questions: Iterable[Question],
        advance: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Asks a solver different questions, and counts the verdicts on its answers."""
        start, asked = time.perf_counter(), {scenario(question): question for question in questions}
        try:
            for answer in solver.solve_all(tuple(asked), self._channels.folders):
                question = asked[answer.scenario]
                if not answer.sees_gpus:
                    question = replace(question, arch=None)
                self.counts.setdefault(question.request, Counts())[
                    self._verdict(question, answer)
                ] += 1
                advance(1)
        finally:
            self.seconds = time.perf_counter() - start

    def _verdict(self, question: Question, answer: SolverAnswer) -> str:
        right = (oracle.expected_ignoring if self._ignoring else oracle.expected)(
            self._facts, question
        )
        # Such a client removes the driver if there is no other solution: it refuses nothing.
        if answer.removed and right.cause in (Cause.DRIVER, Cause.GPU):
            return Loss.REFUSAL
        fault = wrong(question, right, answer, self._channels.twins)
        if not fault and answer.removed:
            fault = f"it was solved without {' and '.join(answer.removed)}"
        if fault and len(self.wrong) < _KEPT:
            self.wrong.append(Wrong(question, right, answer, fault))
        if fault:
            return "wrong"
        lost = oracle.loss(self._facts, question) if self._ignoring else None
        return lost or right.cause or "right"
