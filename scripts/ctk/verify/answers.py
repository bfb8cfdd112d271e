"""What every solver is asked, and what it answers: the protocol between the matrix and the solvers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ctk.solve.solve import Scenario


@dataclass(frozen=True)
class Record:
    """One package of an answer.

    Attributes:
        version: Its version.
        build: Its build string, e.g. ``native_100``.
        channel: Where it is from, as the solver names it; folder or address.
    """

    version: str
    build: str
    channel: str = ""


@dataclass(frozen=True)
class Answer:
    """What a solver answers to one scenario.

    Attributes:
        scenario: What was asked; without the GPU where the client cannot see one.
        records: Package name -> record, without virtual packages; empty when there is no solution.
        problem: The solver's message when there is no solution, else "".
        removed: Virtual packages that the solver took away to find a solution.
    """

    scenario: Scenario
    records: Mapping[str, Record] = field(default_factory=dict)
    problem: str = ""
    removed: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        return not self.problem


class Solver(Protocol):
    """A solver of conda packages."""

    name: str

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[Answer]:
        """Solves scenarios, each in an empty environment.

        Args:
            scenarios: Of any platforms, in any number.
            channels: Folders with ``<subdir>/repodata.json``, the most important first; strict priority.

        Yields:
            One answer for each scenario, in any order, as soon as it is there.

        Raises:
            CtkError: The solver itself failed: a channel that cannot be read, a program that crashes.
        """
        ...
