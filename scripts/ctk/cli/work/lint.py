"""`ctk lint`: the files of a checkout, its checks, and packages that are not built."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import LintFailed, UnknownName, printable
from ctk.core.platforms import PLATFORMS
from ctk.lint import CHECKS, LintReport, annotation, lint
from ctk.lint.tree import Tree
from ctk.plan.plan import Request, plan, published_set, python_tags
from ctk.rules import Check

if TYPE_CHECKING:
    from ctk.audit import AuditReport

_NARROWEST = 20
"""Columns for a text where a terminal has fewer."""


def list_checks() -> None:
    """Prints the checks.

    A table has no room for this much text in a narrow terminal: a line for the name, then the help.
    """
    report = Reporter()
    report.result(checks=[_as_json(known) for known in CHECKS])
    wrapper = textwrap.TextWrapper(
        width=max(report.console.width, _NARROWEST),
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for known in CHECKS:
        report.line(f"{known.name} [{known.severity}]", "bold")
        for text in (known.help, f"fix: {known.fix}"):
            for line in wrapper.wrap(text):
                report.line(line)


def _as_json(check: Check[Any]) -> dict[str, str]:
    return {"check": check.name, "kind": check.severity, "help": check.help, "fix": check.fix}


def lint_files(checks: Sequence[str], *, as_annotations: bool) -> None:
    """Lints the files of the checkout; LintFailed if there are errors."""
    report = Reporter()
    workspace = checkout()
    tree = Tree(workspace)
    if not tree.paths:
        raise UnknownName(
            f"there is nothing to lint in {workspace.root}", "set CTK_ROOT to a checkout"
        )
    # The plan of each lock, then the checks.
    with report.task("lint", len(tree.measured.locks) + 1, of="steps") as task:
        tree.progress = lambda: task.advance(1)
        found = lint(tree, checks)
        task.advance(1)
    _show_lint(found, report, as_annotations=as_annotations)
    if not found.ok:
        step = "each line names its fix; ctk lint --list says why"
        raise LintFailed(f"the lint found {count(len(found.errors), 'error')}", step)


def _show_lint(found: LintReport, report: Reporter, *, as_annotations: bool) -> None:
    report.result(**found.as_json())
    for finding in found.findings:
        text = annotation(finding) if as_annotations else str(finding)
        report.line(printable(text))
    report.say(f"lint: {found.summary()} ({found.seconds:.1f} s)")


def audit_planned(checks: Collection[str], jobs: int | None) -> None:
    """Audits the packages of every release and platform, unbuilt; raises what is wrong."""
    from ctk.cli.audit import show_audit  # late, as below

    report = Reporter()
    found = _audit_planned(checkout(), jobs or os.cpu_count() or 1, checks, report)
    for error in show_audit(found, report):
        raise error


def _audit_planned(
    workspace: Workspace, jobs: int, only: Collection[str], report: Reporter
) -> AuditReport:
    """The audit of every release, component and platform together."""
    # Late: what reads packages is slow to import, and the lint of files reads none.
    from ctk import audit
    from ctk.lock import contents

    published = published_set(workspace)
    request = Request(platforms=tuple(PLATFORMS))
    tags = python_tags(workspace.build_config)
    with report.task("plan", len(published.locks), of="locks") as task:
        everything = plan(published, request, tags, lambda: task.advance(1))
    with report.task("audit", len(everything.builds), of="builds") as task:
        measured = contents.load(workspace)
        return audit.audit_planned(
            everything,
            workspace,
            measured,
            jobs=jobs,
            only=only,
            progress=lambda: task.advance(1),
        )
