"""`ctk lint` and `ctk audit`."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli import options
from ctk.cli.options import Jobs
from ctk.core.checkout import Workspace, checkout, workspace
from ctk.core.console import Reporter, count
from ctk.core.errors import AuditFailed, ChannelMissing, LintFailed, UnknownName, check_names, printable
from ctk.core.platforms import PLATFORMS

if TYPE_CHECKING:
    from ctk.audit import AuditReport
    from ctk.rules import Check


class LintFormat(StrEnum):
    """How findings of the lint are printed."""

    text = "text"
    github = "github"


def _lint_names() -> list[str]:
    from ctk import lint as lints

    return [check.name for check in lints.CHECKS]


def _audit_names() -> list[str]:
    from ctk import audit

    return [check.name for check in audit.CHECKS]


def lint_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Recipes by name, or recipes, locks, variant files and folders by path; everything by default.",
            metavar="NAME|PATH",
            autocompletion=options.recipes,
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Run this check only (see --list); may be repeated.", autocompletion=_lint_names),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks with their help and exit.")] = False,
    format_: Annotated[
        LintFormat, typer.Option("--format", help="As lines, or as annotations of a GitHub workflow.")
    ] = LintFormat.text,
) -> None:
    """Hold recipes, release locks and variant files to the rules, before anything is built.

    Each finding names the fix.

    Example: ctk lint cuda-cudart --check DevHasRunExports
    """
    from rich.padding import Padding
    from rich.text import Text

    from ctk import lint as lints
    from ctk.lint import annotation, lint
    from ctk.lint.tree import Tree

    report = Reporter()
    if list_:
        # A table has no room for this much text in a narrow terminal: a line for the name, then the help.
        report.result(checks=[_as_json(known) for known in lints.CHECKS])
        for known in lints.CHECKS:
            report.line(f"{known.name} [{known.severity}]", "bold")
            report.console.print(Padding(Text(f"{known.help}\nfix: {known.fix}"), (0, 0, 0, 2)))
        return
    here = checkout()
    tree = Tree(here)
    if not tree.paths:
        raise UnknownName(f"there is nothing to lint in {here.root}", "set CTK_ROOT to a checkout")
    found = lint(tree, check or (), [_linted(name, here) for name in names or ()])
    report.result(**found.as_json())
    for finding in found.findings:
        report.line(printable(annotation(finding) if format_ is LintFormat.github else str(finding)))
    report.say(f"lint: {found.summary()} ({found.seconds:.1f} s)")
    if not found.ok:
        step = "each line names its fix; ctk lint --list says why"
        raise LintFailed(f"the lint found {count(len(found.errors), 'error')}", step)


def _linted(name: str, here: Workspace) -> Path:
    """The file or folder that a word means: what is there by that path, or a recipe of that name."""
    if Path(name).exists() or os.sep in name:
        return Path(name)
    check_names("recipe", [name], options.recipes())
    return here.recipes / name


def _as_json(check: Check[Any]) -> dict[str, str]:
    return {"check": check.name, "kind": check.severity, "help": check.help, "fix": check.fix}


def audit_command(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Packages, or folders of them; the published channel by default.")
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(help="Run this check only (see --list); may be repeated.", autocompletion=_audit_names),
    ] = None,
    base: Annotated[
        list[Path] | None, typer.Option(help="Packages to depend on, not audited; the local base channel by default.")
    ] = None,
    jobs: Jobs = None,
    planned: Annotated[
        bool,
        typer.Option("--planned", help="Hold all packages that the locks and recipes name, unbuilt, to the rules."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the checks and exit.")] = False,
) -> None:
    """Open built packages and hold them to the rules of the design.

    Packages are audited as a set: what one depends on must be among them, in the base channel, or well known.

    Example: ctk audit output/channel --check NeededIsProvided
    """
    from ctk import audit
    from ctk.audit import audit_packages
    from ctk.build.one import machine_paths  # the lint, in this module too, does without it
    from ctk.package.scan import PackageScan

    where, report = workspace(), Reporter()
    if list_:
        listed = [
            (c.name, "each package" if c.subject is PackageScan else "the set", c.help.replace("``", ""))
            for c in audit.CHECKS
        ]
        report.table("checks", ["check", "looks at", "rule"], listed)
        report.result(checks=[dict(zip(("check", "looks_at", "rule"), row, strict=True)) for row in listed])
        return
    jobs = jobs or os.cpu_count() or 1
    if planned:
        found = _audit_planned(where, jobs, check or ())
    else:
        found = audit_packages(
            _packages(paths or [where.channel], empty_ok=not paths),
            forbidden_paths=machine_paths(where),
            base=_packages(base if base is not None else [where.base_channel], missing_ok=base is None),
            jobs=jobs,
            only=check or (),
            cache=where.notes,
        )
    report.result(**found.as_json())
    if found.findings:
        rows = [
            (f"{seen.check}\n({seen.severity})", f"{seen.where}\n{seen.path}", seen.message, seen.fix)
            for seen in found.findings
        ]
        report.table("findings", ["check", "where", "what", "mend"], rows)
    report.line(f"audit: {found.summary()} ({found.seconds:.1f} s)")
    if not found.ok:
        raise AuditFailed(
            f"the audit found {count(len(found.errors), 'error')}",
            "each finding says what to mend; ctk audit --list explains the checks",
        )


def _audit_planned(where: Workspace, jobs: int, only: Collection[str]) -> AuditReport:
    """Every release, component and platform as one channel."""
    from ctk.audit import audit_planned
    from ctk.lock import contents
    from ctk.plan.plan import Request, plan, published_set, python_tags

    request = Request(platforms=tuple(PLATFORMS))
    everything = plan(published_set(where), request, python_tags(where.build_config))
    return audit_planned(everything, where, contents.load(where), jobs=jobs, only=only)


def _packages(places: Sequence[Path], *, missing_ok: bool = False, empty_ok: bool = True) -> list[Path]:
    found: dict[Path, None] = {}
    for place in places:
        if not place.exists() and not missing_ok:
            if place == workspace().channel:
                raise ChannelMissing.of(place)
            raise UnknownName(f"there is no {place}", "name packages, or folders of packages; ctk build makes them")
        here = [place] if place.is_file() else sorted({*place.glob("*.conda"), *place.glob("*/*.conda")})
        if not here and not empty_ok:
            raise UnknownName(
                f"there are no packages in {place}",
                "name packages, or a folder with *.conda in it or in folders such as noarch below it",
            )
        found |= dict.fromkeys(here)
    return list(found)
