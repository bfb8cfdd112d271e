"""`ctk audit`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctk.check.audit import CHECKS, PACKAGE_CHECKS, AuditReport, ScanCache, audit_packages
from ctk.check.audit.checks import by_id
from ctk.check.audit.environment import FilesHaveOneOwner
from ctk.check.audit.packages import PackageSet
from ctk.check.audit.planned import planned_scans
from ctk.check.audit.run import check_packages
from ctk.cli.options import Jobs
from ctk.core.errors import AuditFailed, UnknownName
from ctk.core.paths import Workspace, workspace
from ctk.core.platforms import PLATFORMS
from ctk.core.report import Reporter, count
from ctk.core.scratch import machine_paths
from ctk.index.index import Index
from ctk.index.inside import members
from ctk.lock.lock import Artefact
from ctk.plan.plan import Request, plan
from ctk.plan.project import published_set, python_tags


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
    planned: Annotated[
        bool,
        typer.Option("--planned", help="Look for two packages with one file in all that the locks name, unbuilt."),
    ] = False,
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
    if planned:
        _end(_planned(where, jobs or os.cpu_count() or 1), report)
        return
    found = audit_packages(
        _named(paths) if paths else _packages([where.channel]),
        forbidden_paths=machine_paths(where),
        base=_packages(base if base is not None else [where.base_channel], missing_ok=base is None),
        jobs=jobs or os.cpu_count() or 1,
        skip={*(skip or ()), *(known.id() for known in CHECKS if chosen and known.id() not in chosen)},
        cache=ScanCache(where.cache / "audit"),
    )
    _end(found, report)


def _planned(where: Workspace, jobs: int) -> AuditReport:
    """Every release, component and platform as one channel, held to the rule that no file is in two packages."""
    start = time.monotonic()
    request = Request(platforms=tuple(PLATFORMS))
    everything = plan(published_set(where), request, python_tags(where.build_config))
    with Index() as index:

        def names(artefact: Artefact) -> list[str]:
            with index.opened(index.locate(artefact)) as content, members(content, artefact.file) as inside:
                return [member.name for member in inside]

        scans = planned_scans(everything, where, names, jobs)
    found = check_packages(PackageSet(scans), [FilesHaveOneOwner])
    return AuditReport.of(found, [FilesHaveOneOwner], len(scans), time.monotonic() - start)


def _end(found: AuditReport, report: Reporter) -> None:
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
