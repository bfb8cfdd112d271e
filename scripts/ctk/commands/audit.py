"""`ctk audit`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctk.audit import CHECKS, PACKAGE_CHECKS, AuditReport, ScanCache, audit_packages
from ctk.audit.checks import by_id
from ctk.commands.options import Jobs
from ctk.errors import AuditFailed, UnknownName
from ctk.paths import workspace
from ctk.report import Reporter, count
from ctk.scratch import machine_paths


def audit_command(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Packages, or folders of them; the published channel by default.")
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option("--check", help="Run this check only (see --list); may be repeated.")
    ] = None,
    skip: Annotated[list[str] | None, typer.Option("--skip", help="Leave this check out; may be repeated.")] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option("--base", help="Packages to depend on, not audited; the local base channel by default."),
    ] = None,
    jobs: Jobs = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks and exit.")] = False,
) -> None:
    """Open built packages and hold them to the rules of the design.

    Packages are audited as a set: what one depends on must be among them, in the base channel, or well known.

    Example: ctk audit output/channel --check NeededIsProvided
    """
    where, report = workspace(), Reporter()
    if list_:
        _list(report)
        return
    chosen = {wanted.id() for wanted in by_id(check or ())}
    found = audit_packages(
        _named(paths) if paths else _packages([where.channel]),
        forbidden_paths=machine_paths(where),
        base=_packages(base if base is not None else [where.base_channel], missing_ok=base is None),
        jobs=jobs or os.cpu_count() or 1,
        skip={*(skip or ()), *(known.id() for known in CHECKS if chosen and known.id() not in chosen)},
        cache=ScanCache(where.cache / "audit"),
    )
    report.result(**found.as_json())
    _show(found, report)
    if not found.ok:
        raise AuditFailed(
            f"the audit found {count(len(found.errors), 'error')}",
            "each finding says what to mend; ctk audit --list explains the checks",
        )


def _packages(places: Sequence[Path], missing_ok: bool = False) -> list[Path]:
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            found |= dict.fromkeys(sorted({*place.glob("*.conda"), *place.glob("*/*.conda")}))
        elif place.is_file():
            found[place] = None
        elif not missing_ok:
            raise UnknownName(f"there is no {place}", "name packages, or folders of packages; ctk build makes them")
    return list(found)


def _named(places: Sequence[Path]) -> list[Path]:
    """The packages of places that the user named: one without any is a mistake, and nothing would be found in it."""
    found: dict[Path, None] = {}
    for place in places:
        here = _packages([place])
        if not here:
            raise UnknownName(
                f"there are no packages in {place}",
                "name packages, or a folder with *.conda in it or in folders such as noarch below it",
            )
        found |= dict.fromkeys(here)
    return list(found)


def _list(report: Reporter) -> None:
    rows = [
        (
            check.id(),
            "each package" if check in PACKAGE_CHECKS else "the set",
            " ".join(check.help().replace("``", "").split()),
        )
        for check in CHECKS
    ]
    report.table("checks", ["check", "looks at", "rule"], rows)
    report.result(checks=[dict(zip(("check", "looks_at", "rule"), row, strict=True)) for row in rows])


def _show(found: AuditReport, report: Reporter) -> None:
    if found.findings:
        rows = [
            (f"{seen.check}\n({seen.severity})", f"{seen.package}\n{seen.path}", seen.message, seen.mend)
            for seen in found.findings
        ]
        report.table("findings", ["check", "where", "what", "mend"], rows)
    report.line(f"audit: {found.summary()} ({found.seconds:.1f} s)")
