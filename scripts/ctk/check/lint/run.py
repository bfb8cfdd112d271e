"""Runs checks over a tree: every finding is collected, and what recipes skip is left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ctk.check.lint.check import (
    Check,
    FileCheck,
    LockCheck,
    RecipeCheck,
    ScriptCheck,
    TreeCheck,
    VariantCheck,
    YamlCheck,
)
from ctk.check.lint.checks import BY_NAME, by_name
from ctk.check.lint.finding import Finding, Problem
from ctk.check.lint.skips import SkipsAreNeeded, skipped
from ctk.check.lint.source import YamlFile
from ctk.check.lint.tree import Tree
from ctk.check.verdict import Severity, Verdict
from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import BadValue, UnknownName


@dataclass(frozen=True)
class LintReport(Verdict[Finding]):
    """The outcome of a lint.

    Attributes:
        findings: By file and line.
        checks: How many were run.
        files: How many were looked at.
        skipped: Findings that a recipe asked to be spared of.
        seconds: Wall time.
    """

    checks: int
    files: int
    skipped: int
    seconds: float = field(compare=False, default=0.0)

    def summary(self) -> str:
        """The outcome in one line."""
        spared = f", {self.skipped} skipped" if self.skipped else ""
        return f"{count(self.files, 'file')}, {count(self.checks, 'check')}: {self.found()}{spared}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "files": self.files,
            "checks": self.checks,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 2),
            "findings": [asdict(finding) for finding in self.findings],
        }


def tree_of(workspace: Workspace, paths: Sequence[Path] = (), base: str | None = None) -> Tree:
    """The checkout, with the feedstocks elsewhere that the paths name.

    Args:
        workspace: The checkout.
        paths: What the user wants linted.
        base: The git revision that was published.
    """
    apart = [path for path in paths if _is_apart(path, workspace)]
    return Tree(workspace, BY_NAME, [_recipe_in(path) for path in apart], base)


def lint(tree: Tree, checks: Sequence[str] = (), paths: Sequence[Path] = ()) -> LintReport:
    """Holds the files of a tree to the checks.

    Args:
        tree: The files.
        checks: Names of the checks to run; all of them for none.
        paths: Files and folders to say something of; everything for none.

    Raises:
        UnknownName: A check or a path that does not exist.
        BadValue: A path where nothing is linted.
    """
    start = time.monotonic()
    wanted = by_name(checks)
    files = [f.name for f in tree.files if not paths or _within(f.path, paths)]
    for path in paths:
        if not any(_within(f.path, [path]) for f in tree.files):
            raise BadValue(
                f"nothing in {path} is linted", "name recipes, release locks, variant files, or folders of them"
            )
    found = {_finding(check, p, s) for check in wanted for p, s in _problems(check, tree)}
    spared = set[Finding]()
    for recipe in tree.every_recipe:
        of = {finding for finding in found if finding.file == recipe.name}
        spared |= {finding for finding in of if finding.check in skipped(recipe).keys() - {"SkipsHaveReasons"}}
        if SkipsAreNeeded in wanted:
            idle = SkipsAreNeeded.unneeded(recipe, {check.id() for check in wanted}, {finding.check for finding in of})
            found |= {_finding(SkipsAreNeeded, problem, SkipsAreNeeded.severity) for problem in idle}
    shown = [finding for finding in found - spared if not paths or _within(_path(finding, tree), paths)]
    seconds = time.monotonic() - start
    return LintReport(tuple(sorted(shown)), len(wanted), len(set(files)), len(spared), seconds)


def _problems(kind: type[Check], tree: Tree) -> Iterator[tuple[Problem, Severity]]:
    """What a check finds, with how bad it is there."""
    check = kind()
    found: Iterator[Problem]
    match check:
        case FileCheck():
            found = (p for file in tree.files for p in check.check(file))
        case YamlCheck():
            found = (p for file in tree.files if isinstance(file, YamlFile) for p in check.check(file))
        case ScriptCheck():
            found = (p for file in tree.scripts for p in check.check(file))
        case LockCheck():
            found = (p for file in tree.locks for p in check.check(file, tree))
        case VariantCheck():
            found = (p for file in (*tree.variants, *tree.config) for p in check.check(file, tree))
        case TreeCheck():
            found = check.check(tree)
        case RecipeCheck():
            for recipe in tree.every_recipe:
                if recipe.home in check.homes:
                    yield from ((p, p.severity or check.homes[recipe.home]) for p in check.check(recipe, tree))
            return
        case _:
            return
    yield from ((problem, problem.severity or check.severity) for problem in found)


def _finding(check: type[Check], problem: Problem, severity: Severity) -> Finding:
    fix = problem.fix or check.fix
    return Finding(problem.file, problem.line, problem.column, check.id(), problem.message, fix, severity)


def _path(finding: Finding, tree: Tree) -> Path:
    return tree.workspace.root / finding.file


def _within(path: Path, paths: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(other.resolve()) for other in paths)


def _is_apart(path: Path, workspace: Workspace) -> bool:
    """Whether a path is that of a feedstock that stands alone: not of the checkout, or below its output."""
    if not path.exists():
        raise UnknownName(f"there is no {path}", "name a recipe, a release lock, a variant file, or a folder of them")
    real, root = path.resolve(), workspace.root.resolve()
    return not real.is_relative_to(root) or real.is_relative_to((workspace.output).resolve())


def _recipe_in(path: Path) -> Path:
    places = [path] if path.is_file() else [path / "recipe.yaml", path / "recipe" / "recipe.yaml"]
    for place in places:
        if place.is_file() and place.suffix in (".yaml", ".yml"):
            return place.resolve()
    raise BadValue(f"nothing in {path} is linted", "name the folder of a feedstock, with its recipe.yaml")
