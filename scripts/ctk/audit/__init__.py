"""`ctk check`: every built package is opened and held to the rules of the design; and those of a plan, unbuilt."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache as remembered
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ctk.audit import binaries, files, packages
from ctk.audit.packages import PackageSet
from ctk.audit.planned import NEED_BYTES, planned_scans
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import AuditFailed
from ctk.core.files import disk_errors, file_sha256, make_folder, replace_file
from ctk.lock.contents import Contents
from ctk.package.scan import PackageScan, Scanner, listed_package
from ctk.plan.plan import Plan
from ctk.rules import Check, Finding, Report, checks_of, chosen

OPENS = "PackageOpens"
CHECKS: tuple[Check[Any], ...] = checks_of(files, binaries, packages)


@dataclass(frozen=True)
class AuditReport(Report):
    """The outcome of an audit; its subjects are packages. `earlier` is one that an earlier run had kept."""

    earlier: bool = field(compare=False, default=False)

    def summary(self) -> str:
        """The outcome in one line."""
        unchanged = ", unchanged" if self.earlier else ""
        return f"{count(self.subjects, 'package')}, {count(len(self.counts), 'check')}, {self.verdict()}{unchanged}"

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
) -> AuditReport:
    """Holds packages, which may depend on those of the base, to every rule, or to those named in `only`.

    Scans are kept in the folder `cache`, and the outcome: the same packages are not audited again by the same code.
    With `earlier=False` it is not looked for: its name has the packages' hashes, so new ones would be read once more.

    Raises:
        UnknownName: A name in ``only`` that no check has.
    """
    start = time.monotonic()
    checks = chosen(CHECKS, only)
    asked = [forbidden_paths, [check.name for check in checks]]
    if cache and earlier and (note := _note(cache, paths, base, asked)):
        with suppress(OSError, ValidationError):  # not there, or damaged
            return replace(_REPORT.validate_json(note.read_bytes()), seconds=time.monotonic() - start, earlier=True)
    # The largest first: none is left for last.
    ordered = sorted(paths, key=lambda path: path.stat().st_size if path.is_file() else 0, reverse=True)
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        scanner = Scanner(forbidden_paths, cache)
        results = list(pool.map(lambda path: _scan(path, scanner), ordered))
        beside = [scan for scan in pool.map(_listed, base) if scan is not None]
    scans = sorted((scan for scan in results if isinstance(scan, PackageScan)), key=lambda scan: scan.file)
    findings = [unreadable for unreadable in results if isinstance(unreadable, Finding)]
    findings += _held(scans, PackageSet(scans, beside), checks)
    report = AuditReport.of(findings, checks, len(paths), start)
    if cache and (note := _note(cache, paths, base, asked)):  # the scans have hashed the packages
        with disk_errors(note):
            make_folder(note.parent)
            replace_file(note, _REPORT.dump_json(report))
    return report


def audit_planned(
    plan: Plan, workspace: Workspace, contents: Contents, *, jobs: int = 2, only: Collection[str] = ()
) -> AuditReport:
    """Holds the packages of a plan to every rule for which no byte of them is needed, or to those named in `only`."""
    start = time.monotonic()
    checks = [check for check in chosen(CHECKS, only) if check.name not in NEED_BYTES]
    scans, unseen, hints = planned_scans(plan, workspace, contents, jobs)
    together = PackageSet(scans, unseen)
    by_name = {scan.file_name: scan for scan in scans}
    unknown = {scan.file for scan in unseen}

    def is_certain(finding: Finding) -> bool:
        """Whether no package without its files could have what is missing."""
        scan = by_name[finding.where]
        reach = (*together.closure(scan)[0], *together.constrained(scan))
        return not any(other.file in unknown for other in reach)

    findings = filter(is_certain, _held(scans, together, checks))
    return AuditReport.of([*hints, *findings], checks, len(scans), start)


def _held(scans: Sequence[PackageScan], together: PackageSet, checks: Sequence[Check[Any]]) -> Iterator[Finding]:
    for check in checks:
        for subject in (*scans, together):
            if isinstance(subject, check.subject):
                yield from check(subject)


def _note(cache: Path, paths: Sequence[Path], base: Sequence[Path], asked: list[Any]) -> Path | None:
    """Where the outcome is kept: named by the packages, what they are held to, and the code; None if one is missing."""
    try:
        of = [[[p.parent.name, p.name, file_sha256(p)] for p in sorted(packages)] for packages in (paths, base)]
    except OSError:
        return None
    said = json.dumps([of, asked, _code()])
    return cache / "reports" / f"{hashlib.sha256(said.encode()).hexdigest()}.json"


@remembered
def _code() -> list[str]:
    """What decides an outcome besides the packages: this package's modules, and the solver that a check asks."""
    root = Path(__file__).parents[2]
    return [version("py-rattler"), *(file_sha256(file) for file in sorted(root.rglob("*.py")))]


def _scan(path: Path, scanner: Scanner) -> PackageScan | Finding:
    try:
        return scanner.scan(path)
    except AuditFailed as error:
        return Finding(path.name, error.cause, check=OPENS, fix=error.step, severity="error")


def _listed(path: Path) -> PackageScan | None:
    with suppress(AuditFailed):  # the base channel has its own tests; here it only provides names
        return listed_package(path)
    return None
