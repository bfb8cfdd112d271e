"""``ctk release``: locks of releases from the package index, and what their binaries say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ctk import exclusions, facts, freshness, licences, project, release, release_table
from ctk.errors import BadValue, OutOfDate
from ctk.fetch import borrowed, missing
from ctk.index import Index
from ctk.lock import Artefact, Facts, ReleaseLock, find_release, path_of, release_locks
from ctk.paths import Workspace, workspace
from ctk.pip_config import pip_settings
from ctk.platforms import NOARCH, PLATFORMS
from ctk.proposal import Change, changes, summary, write
from ctk.report import Reporter
from ctk.runlock import exclusive

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
Write = Annotated[bool, typer.Option("--write", help="Write the files; without it only the difference is shown.")]
Check = Annotated[bool, typer.Option("--check", help="Fail when a file is not what would be written; write nothing.")]


def add_command(
    releases: Annotated[
        list[str] | None,
        typer.Argument(help="CTK minors like 13.4, or python-13, or base.", metavar="[RELEASE...]"),
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
    here, reporter = workspace(), Reporter()
    if bool(releases) == newer:
        raise BadValue("nothing says what to lock", "name releases, or --newer, not both")
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
    found = sorted({r.release.removeprefix("cuda-") for r in freshness.compare(index, locks, here) if r.is_newer})
    for state in freshness.states(index, locks, (), [name for name in found if not name.startswith("python-")]):
        if not state.published or state.published.missing:
            reporter.say(f"{state.minor} is not whole yet: `ctk release check {state.minor}` says what is missing")
            found.remove(state.minor)
    return found


def measure_command(
    releases: Annotated[
        list[str] | None, typer.Argument(help="CTK minors like 13.4; all without any.", metavar="[RELEASE...]")
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
    here, reporter = workspace(), Reporter()
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
    _show_facts(measured, reporter)
    reporter.result(facts={lock.name: asdict(lock.facts) for lock in measured if lock.facts})


def check_command(
    releases: Annotated[
        list[str] | None,
        typer.Argument(help="CTK minors like 13.4; by default the locked and the newer ones.", metavar="[RELEASE...]"),
    ] = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Fail when the index has something newer.")] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Do not fail when the index lacks something of a release.")
    ] = False,
) -> None:
    """Say what the package index has that is newer than the locks, and how complete each CTK release is there.

    Fails when a release is not complete.

    Example: ctk release check --exit-code
    """
    here, reporter = workspace(), Reporter()
    locks = release_locks(here)
    minors = [name.removeprefix("cuda-") for name in release.names_of(releases or ()) if name.startswith("cuda-")]
    with Index() as index:
        rows = freshness.compare(index, locks, here)
        states = freshness.states(index, locks, exclusions.load(here).unpublished, minors)
        shown = [row for row in rows if not releases or row.release in release.names_of(releases)]
        newer = sorted({row.release for row in shown if row.is_newer})
        changed = licences.changes(locks, release.lockable(index, newer, here))
    reporter.result(
        rows=[asdict(row) for row in shown],
        releases=[_state_as_json(state) for state in states],
        licences=[
            {"release": c.release, "component": c.new.name, "compared_with": c.before, "old": old, "new": new}
            for c in changed
            for old, new in [c.old_and_new]
        ],
        newer=newer,
    )
    columns = ("release", "what", "locked", "would lock", "newest", "verdict")
    reporter.table("locks and the package index", columns, [row.cells for row in shown])
    _show_states(states, reporter)
    if changed:
        words = ("release", "component", "compared with", "its licence there", "its licence now")
        cells = [(c.release, c.new.name, c.before, *c.old_and_new) for c in changed]
        reporter.table("licences that `ctk release add` refuses until they are accepted", words, cells)
    lacking = {s.minor: s.published for s in states if s.published and s.published.missing}
    if lacking and not partial:
        raise release.incomplete(lacking)
    if newer:
        command = f"ctk release add {' '.join(name.removeprefix('cuda-') for name in newer)} --write"
        if exit_code:
            raise OutOfDate(f"the package index has newer files for {', '.join(newer)}", f"run `{command}`")
        reporter.line(f"to lock them: {command}")


def list_command(
    write_table: Annotated[bool, typer.Option("--write-table", help="Only write the table in README.md anew.")] = False,
    check_table: Annotated[bool, typer.Option("--check-table", help="Only check that table.")] = False,
) -> None:
    """Show the locked releases: how many components are packaged, left out on purpose, or neither, and their facts.

    Example: ctk release list
    """
    here, reporter = workspace(), Reporter()
    locks = list(release_locks(here).values())
    if write_table:
        changed = release_table.TABLES.write(here, lambda _: release_table.markdown_of(locks))
        reporter.result(written=changed)
        reporter.line(f"written: {' '.join(map(str, changed))}" if changed else "unchanged")
    elif check_table:
        release_table.TABLES.check(here, lambda _: release_table.markdown_of(locks))
        reporter.line("the table of releases is what the release locks say")
    else:
        _show_locks(locks, here, reporter)
        _show_facts(locks, reporter)


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


def _show_diff(change: Change, here: Workspace, reporter: Reporter) -> None:
    for line in change.diff(here.root):
        style = "bold" if line.startswith(("+++", "---")) else _COLOURS.get(line[:1], "")
        reporter.line(Text(line, style=style))


def _show_states(states: Sequence[freshness.State], reporter: Reporter) -> None:
    columns = ("release", "manifest", "on the index", "what is missing there")
    reporter.table("completeness of the CTK releases", columns, [state.cells for state in states])
    for state in states:
        listed = [
            f"its manifest names {name}, which variants/{exclusions.FILE} calls unpublished" for name in state.listed
        ]
        for line in (*([state.problem] if state.problem else ()), *state.withdrawn, *listed):
            reporter.line(f"cuda-{state.minor}: {line}")


def _state_as_json(state: freshness.State) -> dict[str, Any]:
    found = state.published
    return {
        "release": f"cuda-{state.minor}",
        "version": state.version,
        "complete": None if found is None else not found.missing,
        "wanted": found and found.wanted,
        "missing": found and found.missing,
        "problem": state.problem or None,
        "withdrawn": state.withdrawn,
        "listed_as_unpublished": state.listed,
    }


def _show_locks(locks: Sequence[ReleaseLock], here: Workspace, reporter: Reporter) -> None:
    classes = project.classified(here)
    reporter.result(releases=[_lock_as_json(lock, classes[lock.name] if lock.is_ctk else None) for lock in locks])
    columns = ("release", "components", "packaged", "excluded", "unclassified", *PLATFORMS)
    rows = [release_table.components_row(lock, classes[lock.name]) for lock in locks if lock.is_ctk]
    reporter.table("CTK releases (artefacts by subdir)", columns, rows, right=columns[1:])
    for lock in locks:
        if lock.missing:
            lacking = "; ".join(f"{name} for {', '.join(places)}" for name, places in lock.missing.items())
            step = f"`ctk release add {lock.minor} --write` completes it"
            reporter.line(f"{lock.name} is partial, it lacks {lacking}: {step}")
        if unclassified := sorted(classes[lock.name].unclassified) if lock.is_ctk else []:
            reporter.line(f"{lock.name}: neither packaged nor in variants/{exclusions.FILE}: {', '.join(unclassified)}")
    columns = ("release", "projects", *PLATFORMS, NOARCH)
    rows = [release_table.projects_row(lock) for lock in locks if not lock.is_ctk]
    reporter.table("Python projects (artefacts by subdir)", columns, rows, right=columns[1:])


def _lock_as_json(lock: ReleaseLock, classes: exclusions.Classes | None) -> dict[str, Any]:
    return {
        "name": lock.name,
        "release": lock.release,
        "components": {name: component.version for name, component in lock.components.items()},
        "packaged": classes and sorted(classes.packaged),
        "excluded": classes and sorted(classes.excluded),
        "unclassified": classes and sorted(classes.unclassified),
        "missing": lock.missing,
        "facts": asdict(lock.facts) if lock.facts else None,
    }


def _show_facts(locks: Sequence[ReleaseLock], reporter: Reporter) -> None:
    rows = release_table.facts_rows(locks)
    if rows:
        reporter.table("measured of the CTK releases", release_table.FACTS, rows)
