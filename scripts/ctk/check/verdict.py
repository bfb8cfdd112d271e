"""What checks found, weighed: of packages (`ctk.check.audit`) and of recipes, locks and variants (`ctk.check.lint`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from ctk.core.console import count

Severity = Literal["error", "hint"]
"""An error blocks, a hint advises."""


class Weighed(Protocol):
    """Whatever has a severity."""

    @property
    def severity(self) -> Severity: ...


F = TypeVar("F", bound=Weighed)


@dataclass(frozen=True)
class Verdict(Generic[F]):
    """What was found.

    Attributes:
        findings: In the order in which they are shown.
    """

    findings: tuple[F, ...]

    @property
    def errors(self) -> tuple[F, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def ok(self) -> bool:
        """Whether nothing blocks; hints do not."""
        return not self.errors

    def found(self) -> str:
        """How much, in words: ``1 error, 2 hints``."""
        hints = len(self.findings) - len(self.errors)
        words = [count(n, what) for n, what in ((len(self.errors), "error"), (hints, "hint")) if n]
        return ", ".join(words) or "nothing found"
