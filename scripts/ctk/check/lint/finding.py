"""What a lint finds, and how it is shown: to a person, to GitHub, to a program."""

from __future__ import annotations

from dataclasses import dataclass

from ctk.check.verdict import Severity


@dataclass(frozen=True, order=True)
class Problem:
    """A place where something is wrong; the check that found it adds the rest.

    Attributes:
        file: Path below the checkout, or as it was given.
        line: From 1.
        column: From 1.
        message: What is wrong.
        fix: What to do, where it is not what the check says for all of its problems.
        severity: Where it is not the check's own.
    """

    file: str
    line: int
    column: int
    message: str
    fix: str = ""
    severity: Severity | None = None


@dataclass(frozen=True, order=True)
class Finding:
    """One problem as it is reported.

    Attributes:
        file, line, column: Where.
        check: The check's id.
        message: What is wrong.
        fix: What to do.
        severity: Whether it blocks.
    """

    file: str
    line: int
    column: int
    check: str
    message: str
    fix: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.severity}[{self.check}]: {self.message}; fix: {self.fix}"

    def as_annotation(self) -> str:
        """As a workflow command, which GitHub shows at the line: an error, or a notice for a hint."""
        kind = "error" if self.severity == "error" else "notice"
        place = f"file={_property(self.file)},line={self.line},col={self.column},title={_property(self.check)}"
        return f"::{kind} {place}::{_data(f'{self.message}; fix: {self.fix}')}"


def _data(text: str) -> str:
    """Escaped as https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
