"""The audit station: opens every built package and holds it to the rules of the design.

`ctk.package.scan` reads each package once; checks are small classes over the scans. `audit_packages` does both.
"""

from __future__ import annotations

from ctk.check.audit.check import AuditReport, Check, Finding, PackageCheck, SetCheck
from ctk.check.audit.checks import CHECKS, PACKAGE_CHECKS, SET_CHECKS
from ctk.check.audit.run import audit_package, audit_packages
from ctk.package.cache import ScanCache

__all__ = [
    "CHECKS",
    "PACKAGE_CHECKS",
    "SET_CHECKS",
    "AuditReport",
    "Check",
    "Finding",
    "PackageCheck",
    "ScanCache",
    "SetCheck",
    "audit_package",
    "audit_packages",
]
