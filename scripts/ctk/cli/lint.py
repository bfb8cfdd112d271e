"""`ctk lint`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from ctk.check.framework import Check, chosen
from ctk.check.lint import CHECKS, LintReport, fixed, lint, tree_of
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

    Errors block, hints advise; each names the fix.

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
    report.result(checks=[_as_json(check) for check in CHECKS])
    for check in CHECKS:
        report.line(f"{check.name} [{_kind(check)}]", "bold")
        report.console.print(Padding(Text(check.help), (0, 0, 0, 2)))


def _explain(name: str) -> None:
    (check,) = chosen(CHECKS, [name])
    report = Reporter()
    report.result(**_as_json(check))
    report.line(f"{check.name} [{_kind(check)}]", "bold")
    report.console.print(Text(check.help))
    report.line(f"fix: {check.fix}")


def _as_json(check: Check[Any]) -> dict[str, str]:
    return {"check": check.name, "kind": _kind(check), "help": check.help, "fix": check.fix}


def _kind(check: Check[Any]) -> str:
    return f"{check.severity}, --fix mends it" if check.autofix else str(check.severity)


def _fix(tree: Tree, checks: Sequence[str], paths: Sequence[Path], write: bool) -> None:
    found, report = fixed(tree, checks, paths), Reporter()
    report.result(mended=[{"file": file.name, "diff": file.diff(), "written": write} for file in found])
    for file in found:
        report.line(printable(file.diff()).removesuffix("\n"))
        if write:
            file.write()
    files = count(len(found), "file")
    said = f"wrote {files}" if write else f"{files} would change; --write writes {'it' if len(found) == 1 else 'them'}"
    report.say(said if found else "nothing can be mended without a thought")
