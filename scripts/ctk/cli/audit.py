"""How the findings of an audit are shown: for `ctk check` and `ctk build-recipe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctk.core.console import Reporter, count
from ctk.core.errors import AuditFailed, CtkError

if TYPE_CHECKING:
    from ctk.audit import AuditReport


def show_audit(found: AuditReport, report: Reporter) -> list[CtkError]:
    """Prints the findings of an audit, and returns the error that they are."""
    report.result(**found.as_json())
    report.line(f"audit: {found.summary()} ({found.seconds:.1f} s)")
    if found.findings:
        rows = [
            (
                f"{seen.check}\n({seen.severity})",
                f"{seen.where}\n{seen.path}",
                seen.message,
                seen.fix,
            )
            for seen in found.findings
        ]
        report.table("findings", ["check", "where", "problem", "fix"], rows)
    if found.ok:
        return []
    step = "each finding says how to fix it; ctk check --list explains the rules"
    return [AuditFailed(f"the audit found {count(len(found.errors), 'error')}", step)]
