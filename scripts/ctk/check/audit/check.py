"""What a check is, what it finds, and the report of a whole audit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import getdoc
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from ctk.check.verdict import Severity, Verdict
from ctk.core.console import count
from ctk.package.scan import PackageScan, ScannedFile

if TYPE_CHECKING:
    from ctk.check.audit.packages import PackageSet


@dataclass(frozen=True, order=True)
class Finding:
    """One place where a package breaks a rule.

    Attributes:
        check: The check's id.
        package: File name of the package.
        path: The file in the package, "" for the package as a whole.
        message: What is wrong.
        mend: What to change.
        severity: An error blocks publishing, a hint advises.
    """

    check: str
    package: str
    path: str
    message: str
    mend: str
    severity: Severity = "error"

    def __str__(self) -> str:
        place = f"{self.package}: {self.path}" if self.path else self.package
        return f"{self.check}: {place}: {self.message}"


class Check(ABC):
    """A rule. The class's name is its id and its skip key, its docstring the help.

    Attributes:
        mend: What to do about a finding.
        severity: How bad a finding is.
        probes: Package name -> strings to look for in its files, as evidence for this check.
    """

    mend: ClassVar[str]
    severity: ClassVar[Severity] = "error"
    probes: ClassVar[Mapping[str, Sequence[str]]] = {}

    @classmethod
    def id(cls) -> str:
        return cls.__name__

    @classmethod
    def help(cls) -> str:
        return getdoc(cls) or ""

    def finding(
        self, package: PackageScan, file: ScannedFile | str, message: str, severity: Severity | None = None
    ) -> Finding:
        """A finding of this check, of the check's own severity unless told otherwise."""
        path = file if isinstance(file, str) else file.path
        return Finding(self.id(), PurePath(package.file).name, path, message, self.mend, severity or self.severity)


class PackageCheck(Check):
    """A rule that one package keeps or breaks alone."""

    @abstractmethod
    def check(self, package: PackageScan) -> Iterator[Finding]:
        """What is wrong with the package."""


class SetCheck(Check):
    """A rule about packages together: dependencies, and what may share an environment."""

    @abstractmethod
    def check(self, packages: PackageSet) -> Iterator[Finding]:
        """What is wrong with the audited packages of the set."""


@dataclass(frozen=True)
class AuditReport(Verdict[Finding]):
    """The outcome of an audit.

    Attributes:
        findings: Sorted by check, package and path.
        checks: Findings by check, with a 0 for each that found nothing.
        packages: How many were audited.
        seconds: Wall time.
    """

    checks: Mapping[str, int]
    packages: int
    seconds: float = field(compare=False, default=0.0)

    @classmethod
    def of(
        cls, findings: Iterable[Finding], checks: Iterable[type[Check]], packages: int, seconds: float
    ) -> AuditReport:
        """A report with its findings sorted and counted."""
        ordered = tuple(sorted(set(findings)))
        counts = Counter(finding.check for finding in ordered)
        names = dict.fromkeys([*(check.id() for check in checks), *counts])
        return cls(ordered, {name: counts[name] for name in names}, packages, seconds)

    def summary(self) -> str:
        """The outcome in one line."""
        return f"{count(self.packages, 'package')}, {count(len(self.checks), 'check')}, {self.found()}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "packages": self.packages,
            "seconds": round(self.seconds, 2),
            "checks": dict(self.checks),
            "findings": [asdict(finding) for finding in self.findings],
        }
