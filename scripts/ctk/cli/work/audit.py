"""The audit of `ctk check`: packages against the rules of the design, and these rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ctk import audit
from ctk.build.one import machine_paths
from ctk.cli.audit import show_audit
from ctk.cli.options import CheckOptions
from ctk.cli.work.places import is_at, is_built, packages_in
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter
from ctk.core.errors import CtkError
from ctk.package.scan import PackageScan


def list_rules() -> None:
    """Shows every rule of packages, and whether it looks at a package or at the set."""
    report, listed = Reporter(), []
    for rule in audit.CHECKS:
        looks_at = "each package" if rule.subject is PackageScan else "the set"
        listed.append((rule.name, looks_at, rule.help.replace("``", "")))
    report.table("rules of packages", ["check", "looks at", "rule"], listed)
    report.result(
        checks=[
            {"check": name, "looks_at": looks_at, "rule": text} for name, looks_at, text in listed
        ]
    )


def audit_places(
    names: Sequence[str], options: CheckOptions, workspace: Workspace, report: Reporter
) -> list[CtkError]:
    """Audits the packages of places, and returns the error that the findings are."""
    packages = packages_in(map(Path, names), empty_ok=is_built(names[0], workspace))
    base = options.base
    if base is None:  # the base channel has all that its packages need
        is_base = is_at(names[0], workspace.base_channel)
        base = [] if is_base else [workspace.base_channel]
    with report.reading("audit", packages) as task:
        found = audit.audit_packages(
            packages,
            forbidden_paths=machine_paths(workspace),
            base=packages_in(base, empty_ok=True),
            jobs=options.jobs or os.cpu_count() or 1,
            only=options.check or (),
            cache=workspace.notes,
            progress=task.advance,
        )
    return show_audit(found, report)
