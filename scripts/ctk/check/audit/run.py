"""Running the checks over packages."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ctk.check.audit.check import AuditReport, Check, Finding
from ctk.check.audit.checks import CHECKS, PACKAGE_CHECKS, PROBES, SET_CHECKS, by_id
from ctk.check.audit.packages import PackageSet
from ctk.core.errors import AuditFailed
from ctk.core.files import file_sha256
from ctk.package.cache import ScanCache, scan_key
from ctk.package.scan import PackageScan, listed_package, scan_package

OPENS = "PackageOpens"


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
        skip: Ids of checks to leave out.
        cache: Where scans are kept between runs.

    Raises:
        UnknownName: An id in ``skip`` that no check has.
    """
    start = time.monotonic()
    checks = [check for check in CHECKS if check not in by_id(skip)]
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        read = list(pool.map(lambda path: _scan(path, forbidden_paths, cache), _largest_first(paths)))
        beside = [found for found in pool.map(_listed, base) if found is not None]
    scans = sorted((found for found in read if isinstance(found, PackageScan)), key=lambda scan: scan.file)
    unreadable = [found for found in read if isinstance(found, Finding)]
    found = [*unreadable, *check_packages(PackageSet(scans, beside), checks)]
    return AuditReport.of(found, checks, len(paths), time.monotonic() - start)


def audit_package(
    path: Path, *, forbidden_paths: Sequence[str], skip: Collection[str] = (), cache: ScanCache | None = None
) -> AuditReport:
    """Holds one package to the rules that concern it alone.

    Raises:
        UnknownName: An id in ``skip`` that no check has.
    """
    start = time.monotonic()
    checks = [check for check in PACKAGE_CHECKS if check not in by_id(skip)]
    found = _scan(path, forbidden_paths, cache)
    findings = [found] if isinstance(found, Finding) else check_packages(PackageSet([found]), checks)
    return AuditReport.of(list(findings), checks, 1, time.monotonic() - start)


def check_packages(packages: PackageSet, checks: Iterable[type[Check]]) -> Iterator[Finding]:
    """What the checks find in packages that were scanned before."""
    wanted = set(checks)
    for local in PACKAGE_CHECKS:
        if local in wanted:
            for package in packages.audited:
                yield from local().check(package)
    for whole in SET_CHECKS:
        if whole in wanted:
            yield from whole().check(packages)


def _largest_first(paths: Sequence[Path]) -> list[Path]:
    """The order that ends soonest: no large package is left for last."""
    return sorted(paths, key=lambda path: path.stat().st_size if path.is_file() else 0, reverse=True)


def _scan(path: Path, forbidden: Sequence[str], cache: ScanCache | None) -> PackageScan | Finding:
    try:
        if not path.is_file():
            raise AuditFailed(f"{path} does not exist", "build it first")
        sha256 = file_sha256(path)
        if cache is None:
            return scan_package(path, forbidden, PROBES, sha256)
        key = scan_key(sha256, forbidden, PROBES)
        kept = cache.get(key, path)
        if kept is not None:
            return kept
        scan = scan_package(path, forbidden, PROBES, sha256)
        cache.put(key, scan)
        return scan
    except AuditFailed as error:
        return Finding(OPENS, path.name, "", error.cause, error.step)


def _listed(path: Path) -> PackageScan | None:
    try:
        return listed_package(path)
    except AuditFailed:
        # The base channel has its own tests; here it only provides names.
        return None
