"""The page of the audit: the findings of every check in the packages of the channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.check.audit import CHECKS, AuditReport, audit_packages
from ctk.check.audit.binaries import PROBES
from ctk.check.framework import Check
from ctk.core.files import file_sha256, machine_paths
from ctk.lock import exclusions
from ctk.package.scan import PackageScan, ScanCache
from ctk.site.content import Site
from ctk.site.page import Page, render

SHOWN = 200  # findings; more are counted


def pages(site: Site) -> Iterator[Page]:
    """The page; without findings where these very packages were not audited."""
    files = [entry.path for entry in site.entries if entry.path.is_file()]
    missing = [entry.file for entry in site.entries if not entry.path.is_file()]
    unread = unaudited(site, files)
    left_out = exclusions.load(site.workspace)
    report = None if unread or not files else audit(site, files)
    yield render(
        site,
        "audit.html",
        "audit.html",
        title="The audit",
        description="Every package is opened and held to written rules before it is published.",
        rows=[_row(check, report) for check in CHECKS],
        report=report,
        findings=report.findings[:SHOWN] if report else (),
        packages=len(files),
        unread=len(unread),
        missing=missing,
        excluded=[(e.component, _releases(e.releases), e.reason) for e in left_out.excluded],
        unpublished=[(e.name, _releases(e.releases), e.reason) for e in left_out.unpublished],
    )


def unaudited(site: Site, files: list[Path]) -> list[Path]:
    """Packages that were not read by an audit as they are, with the checks as they are."""
    cache, forbidden = ScanCache(site.workspace.cache / "audit"), machine_paths(site.workspace)
    return [file for file in files if not cache.file(file_sha256(file), forbidden, PROBES).is_file()]


def audit(site: Site, files: list[Path]) -> AuditReport:
    """The checks, over what the audit has read before: the report says what is true of the packages now."""
    base = sorted(site.workspace.base_channel.resolve().glob("*/*.conda"))
    return audit_packages(
        files,
        forbidden_paths=machine_paths(site.workspace),
        base=base,
        cache=ScanCache(site.workspace.cache / "audit"),
    )


def _releases(specifier: SpecifierSet) -> str:
    """``<12.3`` as ``before 12.3``."""
    words = {">=": "from", "<=": "up to", "<": "before", ">": "after", "==": ""}
    ordered = sorted(specifier, key=lambda part: Version(part.version.removesuffix(".*")))
    return ", ".join(f"{words.get(part.operator, part.operator)} {part.version}".strip() for part in ordered) or "all"


def _row(check: Check[Any], report: AuditReport | None) -> dict[str, object]:
    """A check, with the number of its findings; None without a report."""
    return {
        "name": check.name,
        "scope": "each package" if check.subject is PackageScan else "all together",
        "help": check.help.replace("``", ""),
        "blocks": check.severity == "error",
        "found": report.counts.get(check.name, 0) if report else None,
    }
