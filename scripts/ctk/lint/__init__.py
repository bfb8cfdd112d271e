"""`ctk lint`: checks recipes, release locks and variant files, before anything is built."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ctk.core.console import count
from ctk.lint import recipes, releases
from ctk.lint.tree import Tree
from ctk.rules import Check, Finding, Report, checks_of, chosen

CHECKS: tuple[Check[Any], ...] = checks_of(recipes, releases)


class LintReport(Report):
    """The outcome of a lint, whose subjects are files."""

    def summary(self) -> str:
        """The outcome in one line."""
        return (
            f"{count(self.subjects, 'file')}, {count(len(self.checks), 'check')}: {self.verdict()}"
        )

    def as_json(self) -> dict[str, Any]:
        keys = ("line", "column", "check", "message", "fix", "severity")
        return {
            "ok": self.ok,
            "files": self.subjects,
            "checks": len(self.checks),
            "seconds": round(self.seconds, 2),
            "findings": self.rows(file="where", **dict(zip(keys, keys, strict=True))),
        }


def lint(tree: Tree, checks: Sequence[str] = ()) -> LintReport:
    """Runs all checks, or the named checks, on the files of a tree.

    Raises:
        UnknownName: A check does not exist.
    """
    start = time.monotonic()
    wanted = chosen(CHECKS, checks)
    findings: list[Finding] = []
    for rule in wanted:
        for subject in (*tree.recipes.values(), tree):
            if isinstance(subject, rule.subject):
                findings += rule(subject)
    return LintReport.of(findings, wanted, len(tree.paths), start)


def annotation(finding: Finding) -> str:
    """A workflow command that GitHub shows at the line of a finding; a hint is a notice."""
    kind = "error" if finding.severity == "error" else "notice"
    file = _property(finding.where)
    title = _property(finding.check)
    place = f"file={file},line={finding.line},col={finding.column},title={title}"
    return f"::{kind} {place}::{_data(f'{finding.message}; fix: {finding.fix}')}"


def _data(text: str) -> str:
    """Escaped as in https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
