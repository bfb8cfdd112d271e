"""`ctk lint`: recipes, release locks and variant files held to written rules, before anything is built."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.check import Check, Report, checks_of, chosen
from ctk.check.lint import contents, expressions, form, history, releases
from ctk.check.lint.tree import Tree
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import BadValue, UnknownName
from ctk.core.files import replace_file

CHECKS: tuple[Check[Any], ...] = checks_of(form, expressions, contents, releases, history)


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
            "skipped": 0,
            "seconds": round(self.seconds, 2),
            "findings": self.rows(file="where", **dict(zip(keys, keys, strict=True))),
        }


def tree_of(workspace: Workspace, paths: Sequence[Path] = (), base: str | None = None) -> Tree:
    """The checkout, and the feedstocks that the paths name; `base` is the published revision."""
    apart = [path for path in paths if _is_apart(path, workspace)]
    return Tree(workspace, [_recipe_in(path) for path in apart], base)


def lint(tree: Tree, checks: Sequence[str] = (), paths: Sequence[Path] = ()) -> LintReport:
    """Holds the files of a tree, or those below some paths, to all rules or those that are named.

    Raises:
        UnknownName: A rule or a path that does not exist.
        BadValue: A path where nothing is linted.
    """
    start, wanted = time.monotonic(), chosen(CHECKS, checks)
    for path in paths:
        if not any(_within(file.path, [path]) for file in tree.files):
            raise BadValue(
                f"nothing in {path} is linted", "name recipes, release locks, variant files, or folders of them"
            )
    files = [file for file in tree.files if _within(file.path, paths)]
    near = {file.path.with_suffix("") for file in files}  # a lock's check may look into its other half
    subjects = [*(file for file in tree.files if file.path.with_suffix("") in near), tree]
    findings = [
        f for rule in wanted for subject in subjects if isinstance(subject, rule.subject) for f in rule(subject)
    ]
    shown = [finding for finding in findings if _within(tree.workspace.root / finding.where, paths)]
    return LintReport.of(shown, wanted, len({file.name for file in files}), start)


def _within(path: Path, paths: Sequence[Path]) -> bool:
    """Whether a path is below one of the others; always where there is none."""
    real = path.resolve()
    return not paths or any(real.is_relative_to(other.resolve()) for other in paths)


def _is_apart(path: Path, workspace: Workspace) -> bool:
    """Whether a path is that of a feedstock that stands alone: not of the checkout, or below its output."""
    if not path.exists():
        raise UnknownName(f"there is no {path}", "name a recipe, a release lock, a variant file, or a folder of them")
    real, root = path.resolve(), workspace.root.resolve()
    return not real.is_relative_to(root) or real.is_relative_to(workspace.output.resolve())


def _recipe_in(path: Path) -> Path:
    for place in [path] if path.is_file() else [path / "recipe.yaml", path / "recipe" / "recipe.yaml"]:
        if place.is_file() and place.suffix in (".yaml", ".yml"):
            return place.resolve()
    raise BadValue(f"nothing in {path} is linted", "name the folder of a feedstock, with its recipe.yaml")


@dataclass(frozen=True)
class FixedFile:
    """A file that `--fix` would write."""

    path: Path
    name: str
    before: str
    after: str

    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        shown = difflib.unified_diff(before, after, fromfile=f"a/{self.name}", tofile=f"b/{self.name}")
        # A last line without an end is followed by nothing: the next file's diff would be on the same line.
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in shown)

    def write(self) -> None:
        mode = self.path.stat().st_mode
        replace_file(self.path, self.after.encode())
        self.path.chmod(mode)


def fixed(tree: Tree, checks: Sequence[str], paths: Sequence[Path]) -> list[FixedFile]:
    """The files of a tree that the rules can fix, with all of their fixes."""
    found = []
    for file in tree.files:
        now = file
        if file.unreadable or not _within(file.path, paths):
            continue
        for rule in chosen(CHECKS, checks):
            if rule.autofix and isinstance(now, rule.subject):
                now = now.with_text(rule.autofix(now))
        if now.text != file.text:
            found.append(FixedFile(file.path, file.name, file.text, now.text))
    return found
