"""A mistake in what somebody made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a build or its package, and what its author writes instead."""

    cause: str
    step: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.step}"
