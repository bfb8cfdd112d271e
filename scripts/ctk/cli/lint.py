"""`ctk lint`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from ctk.check.lint import CHECKS, LintReport, by_name, lint, mended, tree_of
from ctk.check.lint.check import Mending, RecipeCheck
from ctk.check.lint.tree import Tree
from ctk.core.errors import BadValue, LintFailed, UnknownName, printable
from ctk.core.paths import checkout, workspace
from ctk.core.report import Reporter, count


class Format(StrEnum):
    """How findings are printed."""

    text = "text"
    github = "github"


def lint_command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Recipes, locks, variant files, or folders; everything in the checkout by default."),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", help="Run this check only (see --list); may be repeated.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="The git revision that was published: by default the newest tag published/*."),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Show as a diff what can be mended without a thought.")] = False,
    write: Annotated[bool, typer.Option("--write", help="With --fix: write it.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the checks with their help and exit.")] = False,
    explain: Annotated[str | None, typer.Option("--explain", help="Explain one check and exit.")] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="As lines, or as annotations of a GitHub workflow.")
    ] = Format.text,
) -> None:
    """Hold recipes, release locks and variant files to the rules, before anything is built.

    Errors block, hints advise; each names the fix. A recipe is spared of a check with extra: lint-skip:.

    Example: ctk lint recipes/cuda-cudart --check EveryOutputIsTested
    """
    if explain is not None:
        _explain(explain)
        return
    if list_:
        _list()
        return
    if write and not fix:
        raise BadValue("--write says nothing without --fix", "ctk lint --fix shows what would be written")
    here = workspace() if paths else checkout()  # a feedstock elsewhere needs none
    tree = tree_of(here, paths or (), base)
    if not tree.files:
        raise UnknownName(f"there is nothing to lint in {here.root}", "name recipes, or set CTK_ROOT to a checkout")
    if fix:
        _fix(tree, check or (), paths or (), write)
        if not write:
            return
        tree = tree_of(here, paths or (), base)
    report = lint(tree, check or (), paths or ())
    Reporter().result(**report.as_json())
    _show(report, format_)
    if not report.ok:
        where = "each line names its fix; ctk lint --explain CHECK says why, ctk lint --fix mends what it can"
        raise LintFailed(f"the lint found {count(len(report.errors), 'error')}", where)


def _show(found: LintReport, format_: Format) -> None:
    report = Reporter()
    for finding in found.findings:
        report.line(printable(finding.as_annotation() if format_ is Format.github else str(finding)))
    report.say(f"lint: {found.summary()} ({found.seconds:.1f} s)")


def _list() -> None:
    """A table has no room for this much text in a narrow terminal: a line for the name, then the help."""
    report = Reporter()
    report.result(checks=[{"check": k.id(), "kind": _kind(k), "help": k.help(), "fix": k.fix} for k in CHECKS])
    for kind in CHECKS:
        report.line(f"{kind.id()} [{_kind(kind)}]", "bold")
        report.console.print(Padding(Text(kind.help()), (0, 0, 0, 2)))


def _explain(name: str) -> None:
    (kind,) = by_name([name])
    report = Reporter()
    report.result(check=kind.id(), kind=_kind(kind), help=kind.help(), fix=kind.fix)
    report.line(f"{kind.id()} [{_kind(kind)}]", "bold")
    report.console.print(Text(kind.help()))
    report.line(f"fix: {kind.fix}")
    if issubclass(kind, RecipeCheck):
        report.line(f"skip: extra: lint-skip: {{{kind.id()}: the reason}} in the recipe")


def _kind(kind: type[object]) -> str:
    homes = getattr(kind, "homes", {})
    worst = "hint" if homes and "error" not in homes.values() else getattr(kind, "severity", "error")
    return f"{worst}, --fix mends it" if issubclass(kind, Mending) else str(worst)


def _fix(tree: Tree, checks: Sequence[str], paths: Sequence[Path], write: bool) -> None:
    found, report = mended(tree, checks, paths), Reporter()
    report.result(mended=[{"file": file.name, "diff": file.diff(), "written": write} for file in found])
    for file in found:
        report.line(printable(file.diff()).removesuffix("\n"))
        if write:
            file.write()
    files = count(len(found), "file")
    said = f"wrote {files}" if write else f"{files} would change; --write writes {'it' if len(found) == 1 else 'them'}"
    report.say(said if found else "nothing can be mended without a thought")
