"""``ctk release add`` and ``measure``: locks of releases from the package index, and what their binaries say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ctk.cli.release_list import show_facts
from ctk.core.errors import BadValue, OutOfDate
from ctk.core.paths import Workspace, checkout
from ctk.core.report import Reporter
from ctk.core.runlock import exclusive
from ctk.fetch.fetch import borrowed, missing
from ctk.index.index import Index
from ctk.index.pip_config import pip_settings
from ctk.lock import facts, licences
from ctk.lock.lock import Artefact, Facts, ReleaseLock, find_release, path_of, release_locks
from ctk.release import release, review
from ctk.release.review import FileChange, changes, summary, write

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
Write = Annotated[bool, typer.Option("--write", help="Write the files; without it only the difference is shown.")]
Check = Annotated[bool, typer.Option("--check", help="Fail when a file is not what would be written; write nothing.")]


def add_command(
    releases: Annotated[
        list[str] | None,
        typer.Argument(help="CTK minors like 13.4, or python-13, or base.", metavar="RELEASE"),
    ] = None,
    newer: Annotated[
        bool, typer.Option("--newer", help="Whatever the index has newer and whole, instead of naming releases.")
    ] = False,
    write_: Write = False,
    check: Check = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Lock a release of which the index lacks something; the lock says what.")
    ] = False,
    accepted: Annotated[
        list[str] | None,
        typer.Option("--accept-licence", metavar="COMPONENT", help="Accept its changed licence. May be repeated."),
    ] = None,
    accept_all: Annotated[bool, typer.Option("--accept-licences", help="Accept every changed licence.")] = False,
) -> None:
    """Lock the newest patch of CTK minors, and the Python projects of their majors; or the base channel.

    Shows the difference to the locks in place. Facts are kept while the files they were measured from stay the same.
    A release that is not whole on the index is refused, and one with a component whose licence is not the one that is
    locked, here or for the newest other release, until that is accepted.

    Example: ctk release add 12.9 13.4 --write
    """
    here, reporter = checkout(), Reporter()
    if releases and newer:
        raise BadValue(f"--newer chooses what to lock, and {', '.join(releases)} is named too", "leave out one of them")
    if not releases and not newer:
        raise BadValue("nothing says what to lock", "name releases, or give --newer")
    made = []
    with Index() as index:
        for name in release.names_of(releases or _newer(index, here, reporter)):
            reporter.say(f"{name}: asking the package index")
            made.append(release.make(index, name, here, partial=partial))
    licences.check(release.in_place(here), made, accepted or (), accept_all)
    _settle(made, here, reporter, write_, check)
    unmeasured = [lock.minor for lock in made if lock.is_ctk and lock.facts is None]
    if unmeasured:
        reporter.line(f"not measured: run `ctk release measure {' '.join(unmeasured)} --write`")
    reporter.result(unmeasured=unmeasured)


def _newer(index: Index, here: Workspace, reporter: Reporter) -> list[str]:
    """What `ctk release check` calls newer, without the CTK releases of which something is missing yet."""
    locks = release_locks(here)
    found = sorted({r.release.removeprefix("cuda-") for r in review.compare(index, locks, here) if r.is_newer})
    for state in review.completeness(index, locks, (), [name for name in found if not name.startswith("python-")]):
        if not state.published or state.published.missing:
            reporter.say(f"{state.minor} is not whole yet: `ctk release check {state.minor}` says what is missing")
            found.remove(state.minor)
    return found


def measure_command(
    releases: Annotated[
        list[str] | None, typer.Argument(help="CTK minors like 13.4; all without any.", metavar="RELEASE")
    ] = None,
    write_: Write = False,
    check: Check = False,
    again: Annotated[bool, typer.Option("--again", help="Measure also what is measured already.")] = False,
) -> None:
    """Measure the facts of CTK releases from their Linux artefacts: GPU architectures, PTX ISA, glibc.

    Only what is not measured yet. Fetches what is not in the cache, 1 to 4 GB for a new release, one component after
    another, and removes it again. Needs a linux-64 machine, no GPU and no driver.

    Example: ctk release measure 13.4 --write
    """
    here, reporter = checkout(), Reporter()
    locks = release_locks(here)
    chosen = [find_release(locks, name) for name in releases] if releases else [k for k in locks.values() if k.is_ctk]
    known = {} if again else facts.known_needs(locks.values())
    measured = []
    for lock in chosen:
        if lock.facts and not again:
            reporter.say(f"{lock.name} is measured; --again measures it anew")
        else:
            measured.append(facts.with_facts(lock, _measure(lock, known, here, reporter)))
    _settle(measured, here, reporter, write_, check)
    show_facts(measured, reporter)
    reporter.result(facts={lock.name: asdict(lock.facts) for lock in measured if lock.facts})


def _settle(locks: Sequence[ReleaseLock], here: Workspace, reporter: Reporter, write_: bool, check: bool) -> None:
    """Show what changes, then write it, or fail because of it, or say how to write it."""
    folders = {lock.name: path_of(here, lock.name).parent for lock in locks}
    needed = []
    for lock in locks:
        found = [change for change in changes(folders[lock.name], lock) if change.is_needed]
        for change in found:
            _show_diff(change, here, reporter)
        needed += found
    for lock in locks:
        if any(change.path.stem == lock.name for change in needed):
            for line in summary(release.present(here, lock.name), lock):
                reporter.line(line)
    names = ", ".join(change.path.name for change in needed)
    reporter.result(
        releases=[lock.name for lock in locks],
        changes=[{"file": str(c.path), "diff": "\n".join(c.diff(here.root))} for c in needed],
        written=bool(needed) and write_ and not check,
    )
    if not needed:
        reporter.line("nothing changes")
    elif check:
        raise OutOfDate(f"not up to date: {names}", "run the command with --write")
    elif write_:
        with exclusive(here, reporter.say):
            write(needed)
        reporter.line(f"wrote {names}")
    else:
        reporter.line(f"nothing written; --write writes {names}")


def _measure(lock: ReleaseLock, known: dict[str, str | None], here: Workspace, reporter: Reporter) -> Facts:
    """The facts of one release; nothing that it fetched stays in the cache."""
    artefacts, settings = facts.to_measure(lock, known), pip_settings()
    size = sum(a.size for a in missing(artefacts, here))
    with exclusive(here, reporter.say), reporter.task(f"fetching for {lock.name}", size, bytes_=True) as task:

        def progress(_: Artefact, received: int) -> None:
            task.advance(received)

        def at_hand(some: Sequence[Artefact]) -> AbstractContextManager[list[Path]]:
            return borrowed(some, here, lambda: Index(settings), progress=progress)

        return facts.measure(lock, known, at_hand)


def _show_diff(change: FileChange, here: Workspace, reporter: Reporter) -> None:
    for line in change.diff(here.root):
        style = "bold" if line.startswith(("+++", "---")) else _COLOURS.get(line[:1], "")
        reporter.line(Text(line, style=style))
