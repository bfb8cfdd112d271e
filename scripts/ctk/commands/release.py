"""``ctk release``: locks of releases from the package index, and what their binaries say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from ctk import facts, freshness, release
from ctk.errors import OutOfDate
from ctk.fetch import fetch, missing
from ctk.index import Index
from ctk.lock import ReleaseLock, find_release, release_locks
from ctk.paths import Workspace, workspace
from ctk.platforms import PLATFORMS
from ctk.proposal import Change, changes, write
from ctk.report import Reporter
from ctk.runlock import exclusive

app = typer.Typer(help="Release locks: add, check, list, measure.", no_args_is_help=True)

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
Write = Annotated[bool, typer.Option("--write", help="Write the files; without it only the difference is shown.")]
Check = Annotated[bool, typer.Option("--check", help="Fail when a file is not what would be written; write nothing.")]


@app.command("add")
def add_command(
    releases: Annotated[
        list[str], typer.Argument(help="CTK minors like 13.4, or python-13, or base.", metavar="RELEASE...")
    ],
    write_: Write = False,
    check: Check = False,
) -> None:
    """Lock the newest patch of CTK minors, and the Python projects of their majors; or the base channel.

    Shows the difference to the locks in place. Facts are kept while the files they were measured from stay the same.

    Example: ctk release add 12.9 13.4 --write
    """
    here, reporter = workspace(), Reporter()
    made = []
    with Index() as index:
        for name in release.names_of(releases):
            reporter.say(f"{name}: asking the package index")
            made.append(release.make(index, name, here))
    _settle(made, here, reporter, write_, check)
    unmeasured = [lock.minor for lock in made if lock.is_ctk and lock.facts is None]
    if unmeasured:
        reporter.say(f"not measured: run `ctk release measure {' '.join(unmeasured)} --write`")


@app.command("measure")
def measure_command(
    releases: Annotated[
        list[str] | None, typer.Argument(help="CTK minors like 13.4; all without any.", metavar="[RELEASE...]")
    ] = None,
    write_: Write = False,
    check: Check = False,
) -> None:
    """Measure the facts of CTK releases from their Linux artefacts: GPU architectures, PTX ISA, glibc.

    Fetches what is not in the cache. Needs a linux-64 machine, no GPU and no driver.

    Example: ctk release measure 13.4 --write
    """
    here, reporter = workspace(), Reporter()
    locks = release_locks(here)
    chosen = [find_release(locks, name) for name in releases] if releases else [k for k in locks.values() if k.is_ctk]
    measured = []
    for lock in chosen:
        artefacts = facts.needed_artefacts(lock)
        with exclusive(here, reporter.say):
            size = sum(a.size for a in missing(artefacts, here))
            with reporter.task(f"fetching for {lock.name}", size, bytes_=True) as task:
                paths = fetch(artefacts, here, Index, progress=lambda _, n, task=task: task.advance(n))
        reporter.say(f"{lock.name}: measuring")
        measured.append(facts.with_facts(lock, facts.measure(lock, dict(zip(artefacts, paths, strict=True)))))
    _settle(measured, here, reporter, write_, check)
    _show(measured, reporter)


@app.command("check")
def check_command(
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Fail when the index has something newer.")] = False,
) -> None:
    """Say what the package index has that is newer than the locks.

    Example: ctk release check --exit-code
    """
    here, reporter = workspace(), Reporter()
    with Index() as index:
        rows = freshness.compare(index, release_locks(here), here)
    columns = ("release", "what", "locked", "would lock", "newest", "verdict")
    reporter.table("locks and the package index", columns, [row.cells for row in rows])
    newer = sorted({row.release for row in rows if row.is_newer})
    if newer:
        command = f"ctk release add {' '.join(name.removeprefix('cuda-') for name in newer)} --write"
        if exit_code:
            raise OutOfDate(f"the package index has newer files for {', '.join(newer)}", f"run `{command}`")
        reporter.say(f"to lock them: {command}")


@app.command("list")
def list_command() -> None:
    """Show the locked releases.

    Example: ctk release list
    """
    _show(list(release_locks(workspace()).values()), Reporter())


def _settle(locks: Sequence[ReleaseLock], here: Workspace, reporter: Reporter, write_: bool, check: bool) -> None:
    """Show what changes, then write it, or fail because of it, or say how to write it."""
    folders = {lock.name: here.base_recipes if lock.name == "base" else here.variants for lock in locks}
    needed = [change for lock in locks for change in changes(folders[lock.name], lock) if change.is_needed]
    for change in needed:
        _show_diff(change, here, reporter)
    names = ", ".join(change.path.name for change in needed)
    if not needed:
        reporter.say("nothing changes")
    elif check:
        raise OutOfDate(f"not up to date: {names}", "run the command with --write")
    elif write_:
        with exclusive(here, reporter.say):
            write(needed)
        reporter.say(f"wrote {names}")
    else:
        reporter.say(f"nothing written; --write writes {names}")


def _show_diff(change: Change, here: Workspace, reporter: Reporter) -> None:
    for line in change.diff(here.root):
        style = "bold" if line.startswith(("+++", "---")) else _COLOURS.get(line[:1], "")
        reporter.console.print(Text(line, style=style), soft_wrap=True)


def _show(locks: Sequence[ReleaseLock], reporter: Reporter) -> None:
    rows = []
    for lock in locks:
        counts = [sum(a.target.startswith(f"{s}-") or a.target == s for a in lock.artefacts) for s in PLATFORMS]
        noarch = len(lock.artefacts) - sum(counts)
        known = lock.facts
        unknown = "?" if lock.is_ctk else ""
        reach = f"{known.gpu_architectures[0]} to {known.gpu_architectures[-1]}" if known else unknown
        ptx = known.ptx_isa if known else unknown
        rows.append((lock.name, lock.release, len(lock.components), *counts, noarch, reach, ptx))
    columns = ("name", "release", "components", *PLATFORMS, "noarch", "GPUs", "PTX ISA")
    reporter.table("release locks (artefacts by subdir)", columns, rows, right=("components", *PLATFORMS, "noarch"))
