"""The run of the rules over packages, and its report."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ctk.check.audit import binaries, environment, files, metadata
from ctk.check.audit.packages import PackageSet
from ctk.check.framework import Check, Finding, Report, checks_of, chosen
from ctk.core.console import count
from ctk.core.errors import AuditFailed
from ctk.package.scan import PackageScan, ScanCache, listed_package, scan_package

OPENS = "PackageOpens"
CHECKS: tuple[Check[Any], ...] = checks_of(metadata, files, binaries, environment)
PROBES = binaries.PROBES


class AuditReport(Report):
    """The outcome of an audit; its subjects are packages."""

    @classmethod
    def by_check(
        cls, findings: Iterable[Finding], checks: Sequence[Check[Any]], packages: int, start: float
    ) -> AuditReport:
        """A report with its findings by check, then by package."""
        return cls.of(findings, checks, packages, start, lambda f: (f.check, f.where, f.path, f.message))

    def summary(self) -> str:
        """The outcome in one line."""
        return f"{count(self.subjects, 'package')}, {count(len(self.counts), 'check')}, {self.verdict()}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "packages": self.subjects,
            "seconds": round(self.seconds, 2),
            "checks": self.counts,
            "findings": self.rows(
                check="check", package="where", path="path", message="message", mend="fix", severity="severity"
            ),
        }


def audit_packages(
    paths: Sequence[Path],
    *,
    forbidden_paths: Sequence[str],
    base: Sequence[Path] = (),
    jobs: int = 2,
    skip: Collection[str] = (),
    cache: ScanCache | None = None,
) -> AuditReport:
    """Holds packages to every rule.

    Args:
        paths: The packages, all that one channel will offer.
        forbidden_paths: Folders of this machine that no file may name.
        base: Packages that they may depend on; these are not audited.
        jobs: Packages read at once.
        skip: Names of checks to leave out.
        cache: Where scans are kept between runs.

    Raises:
        UnknownName: A name in ``skip`` that no check has.
    """
    start = time.monotonic()
    skipped = chosen(CHECKS, skip) if skip else []
    checks = [check for check in CHECKS if check not in skipped]
    # The largest first: none is left for last.
    ordered = sorted(paths, key=lambda path: path.stat().st_size if path.is_file() else 0, reverse=True)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        results = list(pool.map(lambda path: _scan(path, forbidden_paths, cache), ordered))
        beside = [scan for scan in pool.map(_listed, base) if scan is not None]
    scans = sorted((scan for scan in results if isinstance(scan, PackageScan)), key=lambda scan: scan.file)
    findings = [unreadable for unreadable in results if isinstance(unreadable, Finding)]
    together = PackageSet(scans, beside)
    for check in checks:
        for subject in (*scans, together):
            if isinstance(subject, check.subject):
                findings += check(subject)
    return AuditReport.by_check(findings, checks, len(paths), start)


def _scan(path: Path, forbidden: Sequence[str], cache: ScanCache | None) -> PackageScan | Finding:
    try:
        return scan_package(path, forbidden, PROBES, cache)
    except AuditFailed as error:
        return Finding(path.name, error.cause, check=OPENS, fix=error.step, severity="error")


def _listed(path: Path) -> PackageScan | None:
    try:
        return listed_package(path)
    except AuditFailed:
        # The base channel has its own tests; here it only provides names.
        return None
