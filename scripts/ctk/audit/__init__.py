"""The audit station: opens every built package and holds it to the rules of the design.

A scan reads each package once (`ctk.audit.scan`); checks are small classes over the scans. `audit_packages` does both.
"""

from __future__ import annotations

from ctk.audit.cache import ScanCache
from ctk.audit.check import AuditReport, Check, Finding, PackageCheck, SetCheck
from ctk.audit.checks import CHECKS, PACKAGE_CHECKS, SET_CHECKS
from ctk.audit.run import audit_package, audit_packages

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
