"""The audit: opens every built package and holds it to the rules of the design."""

from __future__ import annotations

from ctk.check.audit.run import CHECKS, AuditReport, audit_packages

__all__ = ["CHECKS", "AuditReport", "audit_packages"]
