"""The framework of all checks: of recipes, packages, channels and machines.

A check is a function of a subject that yields findings. The name of the function is the id of the
check, and its docstring the help. The decorator `check` adds name, fix and severity to findings
that do not have their own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from inspect import getdoc
from types import ModuleType
from typing import Any, Generic, Literal, Self, TypeVar

from ctk.core.console import count
from ctk.core.errors import UnknownName

Severity = Literal["error", "hint", "ok", ""]
"""An error blocks, a hint advises, "ok" reports a good state, and "" stands for the severity of the
check.
"""

S = TypeVar("S")


@dataclass(frozen=True)
class Finding:
    """A result of a check, in a file of a checkout, package or channel.

    Lines and columns count from 1.
    """

    where: str
    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    check: str = ""
    fix: str = ""
    severity: Severity = ""

    def __str__(self) -> str:
        place = self.where
        if self.path:
            place = f"{self.where}: {self.path}"
        elif self.line:
            place = f"{self.where}:{self.line}"
        return f"{place}: {self.severity}[{self.check}]: {self.message}; fix: {self.fix}"

    @property
    def order(self) -> tuple[str | int, ...]:
        """The order in which findings are shown."""
        return self.where, self.path, self.line, self.column, self.check, self.message


@dataclass(frozen=True, eq=False)
class Check(Generic[S]):
    """A rule.

    Attributes:
        needs_build: Whether it reads what only a built package has: the bytes of files, licence
            texts, `about`. A check of packages without it also runs on planned ones.
    """

    name: str
    subject: type[S]
    run: Callable[[S], Iterable[Finding]]
    fix: str = ""
    severity: Severity = "error"
    needs_build: bool = False

    @property
    def help(self) -> str:
        return " ".join((getdoc(self.run) or "").split())

    def __call__(self, subject: S) -> Iterator[Finding]:
        return map(self.complete, self.run(subject))

    def complete(self, f: Finding) -> Finding:
        """The finding with name, fix and severity of the check, where it does not have its own."""
        return replace(
            f,
            check=f.check or self.name,
            fix=f.fix or self.fix,
            severity=f.severity or self.severity,
        )


def check(
    subject: type[S], name: str = "", *, fix: str = "", needs_build: bool = False
) -> Callable[[Callable[[S], Iterable[Finding]]], Check[S]]:
    """Turns a function into a check; the arguments are the attributes of `Check`."""
    return lambda run: Check(name or run.__name__, subject, run, fix, needs_build=needs_build)


def checks_of(*modules: ModuleType) -> tuple[Check[Any], ...]:
    """The checks that modules define, in the order of the source."""
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Check) and value.run.__module__ == module.__name__
    )


def chosen(checks: Sequence[Check[Any]], names: Iterable[str]) -> list[Check[Any]]:
    """The checks of the given names, in that order; all checks without names.

    Raises:
        UnknownName: No check has this name.
    """
    known = {check.name: check for check in checks}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise UnknownName.of("check", name, known)
    return [known[name] for name in wanted] or list(checks)


@dataclass(frozen=True)
class Report:
    """The outcome of checks: sorted findings, names, number of subjects, seconds of wall time."""

    findings: tuple[Finding, ...]
    checks: tuple[str, ...] = ()
    subjects: int = 0
    seconds: float = field(compare=False, default=0.0)

    @classmethod
    def of(
        cls,
        findings: Iterable[Finding],
        checks: Iterable[Check[Any]],
        subjects: int,
        start: float,
        **more: Any,
    ) -> Self:
        """A report with sorted findings, without duplicates; `start` is a `time.monotonic()`."""
        names = tuple(check.name for check in checks)
        return cls(
            tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.order)),
            names,
            subjects,
            time.monotonic() - start,
            **more,
        )

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by check, also 0."""
        numbers = Counter(finding.check for finding in self.findings)
        names = dict.fromkeys([*self.checks, *numbers])
        return {name: numbers[name] for name in names}

    def verdict(self) -> str:
        """The number of findings, in words: ``1 error, 2 hints``."""
        hints = sum(finding.severity == "hint" for finding in self.findings)
        words = []
        if self.errors:
            words.append(count(len(self.errors), "error"))
        if hints:
            words.append(count(hints, "hint"))
        return ", ".join(words) or "nothing found"

    def rows(self, **keys: str) -> list[dict[str, Any]]:
        """The findings for JSON and tables; `keys` are key -> attribute of a finding."""
        return [
            {key: getattr(finding, name) for key, name in keys.items()} for finding in self.findings
        ]
