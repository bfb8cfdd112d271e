"""Runs scenarios through a solver, compares every answer with the oracle's, and counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ctk.core.errors import SolverFailed
from ctk.solve.solve import Scenario
from ctk.verify.answers import Answer, Solver
from ctk.verify.channels import Channels
from ctk.verify.compare import wrong
from ctk.verify.oracle import Cause, Expected, Facts, Loss, Question, expected, expected_ignoring, loss
from ctk.verify.scenarios import scenario

# What a client can refuse, or fail to refuse, because of the machine.
_MACHINE = (Cause.DRIVER, Cause.GPU)
# So many scenarios are kept in memory at a time.
_CHUNK = 20_000


@dataclass(frozen=True)
class Wrong:
    """A scenario whose answer is not the right one.

    Attributes:
        question: What was asked.
        expected: The right answer.
        answer: The solver's.
        fault: What is wrong with it, one sentence.
    """

    question: Question
    expected: Expected
    answer: Answer
    fault: str


@dataclass
class Counts:
    """How often the answers to one request were what.

    Attributes:
        right: The right pick.
        refused: Rightly unsolvable, by cause.
        lost: What the kind of client that is asked for must lose, by kind.
        wrong: Anything else.
    """

    right: int = 0
    refused: Counter[Cause] = field(default_factory=Counter)
    lost: Counter[Loss] = field(default_factory=Counter)
    wrong: int = 0

    @property
    def total(self) -> int:
        return self.right + self.refused.total() + self.lost.total() + self.wrong

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.right + other.right, self.refused + other.refused, self.lost + other.lost, self.wrong + other.wrong
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "right": self.right,
            "refused": {cause.name.lower(): number for cause, number in sorted(self.refused.items())},
            "lost": {kind.name.lower(): number for kind, number in sorted(self.lost.items())},
            "wrong": self.wrong,
        }


class Tally:
    """Judges answers one by one, so that a run that is stopped still has its counts.

    Attributes:
        complete: Whether every scenario was answered, once: without it the counts say nothing of the others.

    Args:
        facts: The oracle's.
        channels: What is solved from.
        ignoring: Whether the solver sees no constraint on a virtual package. It is then held to what such a client can
            do, and what it loses by that is counted.
        keep: How many wrong ones to keep whole.
    """

    def __init__(self, facts: Facts, channels: Channels, *, ignoring: bool = False, keep: int = 3) -> None:
        self._facts, self._channels, self._ignoring, self._keep = facts, channels, ignoring, keep
        self._asked: dict[Scenario, Question] = {}
        self.counts: dict[str, Counts] = {}
        self.wrong: list[Wrong] = []
        self.seconds = 0.0
        self.complete = False

    @property
    def total(self) -> Counts:
        """Of all requests."""
        return sum(self.counts.values(), Counts())

    def run(
        self, solver: Solver, questions: Iterable[Question], advance: Callable[[float], None] = lambda _: None
    ) -> None:
        """Asks a solver, and judges what it answers.

        Args:
            solver: Which one.
            questions: All different.
            advance: Told of each answer.

        Raises:
            SolverFailed: It did not answer every scenario once.
        """
        self.complete = False
        start, waiting = time.perf_counter(), iter(questions)
        try:
            while chunk := list(islice(waiting, _CHUNK)):
                self._asked = {scenario(question): question for question in chunk}
                for answer in solver.solve_all(tuple(self._asked), self._channels.folders):
                    self.add(answer)
                    advance(1)
                if self._asked:
                    raise SolverFailed(
                        f"{solver.name} answered {len(chunk) - len(self._asked)} of {len(chunk)} scenarios",
                        f"try it with a few: ctk verify --solver {solver.name} --sample 10",
                    )
            self.complete = True
        finally:
            self.seconds += time.perf_counter() - start

    def add(self, answer: Answer) -> None:
        """Judges one answer."""
        question = self._question(answer.scenario)
        right = (expected_ignoring if self._ignoring else expected)(self._facts, question)
        counts = self.counts.setdefault(question.request, Counts())
        if answer.removed and right.cause in _MACHINE:
            # Such a client takes the driver away when nothing else solves: it refuses nothing.
            counts.lost[Loss.REFUSAL] += 1
            return
        fault = wrong(question, right, answer, self._channels.sides)
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
        """The question that a scenario was made of; a client that sees no GPU answers for the machine without.

        It is taken out: an answer that comes twice is none to another question.
        """
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
