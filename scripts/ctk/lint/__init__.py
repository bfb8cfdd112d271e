"""`ctk lint`: recipes, release locks and variant files held to written rules, before anything is built."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctk.core.console import count
from ctk.core.errors import BadValue, UnknownName
from ctk.lint import recipes, releases
from ctk.lint.tree import Tree
from ctk.rules import Check, Report, checks_of, chosen

CHECKS: tuple[Check[Any], ...] = checks_of(recipes, releases)


class LintReport(Report):
    """The outcome of a lint; its subjects are files."""

    def summary(self) -> str:
        """The outcome in one line."""
        return f"{count(self.subjects, 'file')}, {count(len(self.checks), 'check')}: {self.verdict()}"

    def as_json(self) -> dict[str, Any]:
        keys = ("line", "column", "check", "message", "fix", "severity")
        return {
            "ok": self.ok,
            "files": self.subjects,
            "checks": len(self.checks),
            "seconds": round(self.seconds, 2),
            "findings": self.rows(file="where", **dict(zip(keys, keys, strict=True))),
        }


def lint(tree: Tree, checks: Sequence[str] = (), paths: Sequence[Path] = ()) -> LintReport:
    """Holds the files of a tree, or those below some paths, to all rules or those that are named.

    Raises:
        UnknownName: A rule or a path that does not exist.
        BadValue: A path where nothing is linted.
    """
    start, wanted = time.monotonic(), chosen(CHECKS, checks)
    step = "name recipes, release locks, variant files, or folders of them"
    for path in paths:
        if not path.exists():
            raise UnknownName(f"there is no {path}", step)
        if not any(_within(file, [path]) for file in tree.paths):
            raise BadValue(f"nothing in {path} is linted", step)
    files = [file for file in tree.paths if _within(file, paths)]
    subjects = [*tree.recipes.values(), tree]
    findings = [
        f for rule in wanted for subject in subjects if isinstance(subject, rule.subject) for f in rule(subject)
    ]
    shown = [finding for finding in findings if _within(tree.workspace.root / finding.where, paths)]
    return LintReport.of(shown, wanted, len(files), start)


def _within(path: Path, paths: Sequence[Path]) -> bool:
    """Whether a path is below one of the others; always where there is none."""
    real = path.resolve()
    return not paths or any(real.is_relative_to(other.resolve()) for other in paths)
