"""Checks packages by the rules of the design: built ones, and those of a plan before a build."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache as remembered
from importlib.metadata import version
from itertools import filterfalse
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ctk.audit import binaries, files, packages
from ctk.audit.exempt import is_exempt
from ctk.audit.packages import PackageSet
from ctk.audit.planned import planned_scans
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import AuditFailed
from ctk.core.files import file_sha256
from ctk.core.memo import Memo, memo
from ctk.lock.contents import Contents
from ctk.package.scan import PackageScan, Scanner, listed_package
from ctk.plan.plan import Plan
from ctk.rules import Check, Finding, Report, checks_of, chosen

OPENS = "PackageOpens"
CHECKS: tuple[Check[Any], ...] = checks_of(files, binaries, packages)


@dataclass(frozen=True)
class AuditReport(Report):
    """The outcome of an audit, whose subjects are packages.

    `earlier` if it is the kept report of an earlier run.
    """

    earlier: bool = field(compare=False, default=False)

    def summary(self) -> str:
        """The outcome in one line."""
        unchanged = ", unchanged" if self.earlier else ""
        return (
            f"{count(self.subjects, 'package')}, {count(len(self.counts), 'check')},"
            f" {self.verdict()}{unchanged}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "packages": self.subjects,
            "seconds": round(self.seconds, 2),
            "checks": self.counts,
            "findings": self.rows(
                check="check",
                package="where",
                path="path",
                message="message",
                fix="fix",
                severity="severity",
            ),
        }


_REPORT = TypeAdapter(AuditReport)


def audit_packages(
    paths: Sequence[Path],
    *,
    forbidden_paths: Sequence[str],
    base: Sequence[Path] = (),
    jobs: int = 2,
    only: Collection[str] = (),
    cache: Path | None = None,
    earlier: bool = True,
    progress: Callable[[int], None] = lambda size: None,
) -> AuditReport:
    """Runs every check, or the checks named in `only`, on packages.

    Args:
        paths: The packages.
        forbidden_paths: Paths of this machine that no package may contain.
        base: Packages that they may depend on.
        jobs: Threads.
        only: Names of checks.
        cache: The folder of notes, with scans and reports: the same code does not audit the same
            packages again.
        earlier: Whether to look for a kept report, for which packages that were not hashed yet are
            read.
        progress: Is called in a thread after each package, with its size in bytes.

    Raises:
        UnknownName: `only` has a name that no check has.
    """
    start = time.monotonic()
    checks = chosen(CHECKS, only)
    asked = [forbidden_paths, [check.name for check in checks]]
    note = _note(cache, paths, base, asked) if cache and earlier else None
    if note and (known := note.read()):
        return replace(known, seconds=time.monotonic() - start, earlier=True)
    # The largest first: none is left for last.
    sizes = {path: path.stat().st_size if path.is_file() else 0 for path in paths}
    scanner = Scanner(forbidden_paths, cache)

    def scan(path: Path) -> PackageScan | Finding:
        found = _scan(path, scanner)
        progress(sizes[path])
        return found

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = list(pool.map(scan, sorted(paths, key=sizes.__getitem__, reverse=True)))
        beside = [scan for scan in pool.map(_listed, base) if scan is not None]
    scans = sorted(
        (scan for scan in results if isinstance(scan, PackageScan)), key=lambda scan: scan.file
    )
    findings = [unreadable for unreadable in results if isinstance(unreadable, Finding)]
    findings += _found(scans, PackageSet(scans, beside), checks)
    report = AuditReport.of(findings, checks, len(paths), start)
    note = _note(cache, paths, base, asked) if cache else None  # the scans have hashed the packages
    return note.write(report) if note else report


def audit_planned(
    plan: Plan,
    workspace: Workspace,
    contents: Contents,
    *,
    jobs: int = 2,
    only: Collection[str] = (),
    progress: Callable[[], None] = lambda: None,
) -> AuditReport:
    """Runs the checks that need no build on the packages of a plan.

    `only` names some of these checks. `progress` is called after each build.
    """
    start = time.monotonic()
    checks = [check for check in chosen(CHECKS, only) if not check.needs_build]
    scans, unseen, hints = planned_scans(plan, workspace, contents, jobs, progress)
    together = PackageSet(scans, unseen)
    by_name = {scan.file_name: scan for scan in scans}
    unknown = {scan.file for scan in unseen}

    def is_certain(finding: Finding) -> bool:
        """Whether the finding stands even if a package of unknown content had the missing file."""
        scan = by_name[finding.where]
        reach = (*together.closure(scan)[0], *together.constrained(scan))
        return not any(other.file in unknown for other in reach)

    findings = filter(is_certain, _found(scans, together, checks))
    return AuditReport.of([*hints, *findings], checks, len(scans), start)


def _found(
    scans: Sequence[PackageScan], together: PackageSet, checks: Sequence[Check[Any]]
) -> Iterator[Finding]:
    for check in checks:
        for subject in (*scans, together):
            if isinstance(subject, check.subject):
                yield from filterfalse(is_exempt, check(subject))


def _note(
    cache: Path, paths: Sequence[Path], base: Sequence[Path], asked: list[Any]
) -> Memo[AuditReport] | None:
    """The note of the outcome for these packages, paths, checks and code.

    None if a package is missing.
    """
    try:
        of = [
            [[p.parent.name, p.name, file_sha256(p)] for p in sorted(packages)]
            for packages in (paths, base)
        ]
    except OSError:
        return None
    return memo(cache / "audits", [of, asked, _code()], _REPORT)


@remembered
def _code() -> list[str]:
    """The inputs of an audit besides packages: the modules of ctk, and the version of rattler.

    A check uses rattler.
    """
    root = Path(__file__).parents[2]
    return [version("py-rattler"), *(file_sha256(file) for file in sorted(root.rglob("*.py")))]


def _scan(path: Path, scanner: Scanner) -> PackageScan | Finding:
    try:
        return scanner.scan(path)
    except AuditFailed as error:
        return Finding(path.name, error.cause, check=OPENS, fix=error.step, severity="error")


def _listed(path: Path) -> PackageScan | None:
    with suppress(
        AuditFailed
    ):  # the base channel has tests of its own; here it only provides names
        return listed_package(path)
    return None
