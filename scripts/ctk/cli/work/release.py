"""`ctk release add`, `measure` and `check`: locks beside what the package index has now."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from packaging.version import Version

from ctk.cli.work.locks import show_facts
from ctk.core.checkout import Workspace, base_channel, checkout, settings
from ctk.core.console import Reporter, Task, count, listing
from ctk.core.errors import BadValue, printable
from ctk.core.locks import exclusive
from ctk.diff.licences import licence_changes
from ctk.fetch.fetch import borrowed, missing
from ctk.index import pip_settings
from ctk.index.index import Index
from ctk.lock import contents, facts, redistribution
from ctk.lock.components import MANIFEST
from ctk.lock.facts import needs_measuring
from ctk.lock.model import Artefact, ReleaseLock, find_release, path_of, release_locks
from ctk.plan import conda_forge, known
from ctk.release import added, release, review
from ctk.release.review import (
    CompilesWith,
    Completeness,
    FileChange,
    LockedVersion,
    changes,
    write,
)

# --- add


def add(names: Sequence[str], *, newer: bool, is_written: bool) -> None:
    """Locks releases from the index, and shows the difference to the locks in place.

    Raises:
        BadValue: Nothing says what to lock, or names and --newer do.
    """
    workspace, report = checkout(), Reporter()
    if names and newer:
        raise BadValue(
            f"--newer chooses what to lock, and {', '.join(names)} is named too",
            "leave out one of them",
        )
    if not names and not newer:
        raise BadValue("nothing says what to lock", "name releases, or give --newer")
    if names and not release.is_release(names[0]):
        _add_version(names, workspace, report, is_written=is_written)
        return
    locks = []
    with Index() as index:
        for name in release.names_of(names or _newer(index, workspace, report)):
            report.say(f"{name}: asking the package index")
            locks.append(release.make(index, name, workspace))
    for line in _licence_changes(locks, workspace):
        report.line(line, "bold")
    same = "the newest that can be locked is locked"
    _settle(locks, workspace, report, is_written=is_written, same=same)
    _show_unmeasured(locks, workspace, report)
    _show_unread(locks, report)


def _add_version(
    words: Sequence[str], workspace: Workspace, report: Reporter, *, is_written: bool
) -> None:
    """Locks a version of a project beside the others, and shows the difference.

    Raises:
        BadValue: The words are not a name and a version.
    """
    project = added.find_project(words[0], workspace)
    if len(words) != 2:
        raise BadValue(
            f"a project is locked in one version, and {len(words) - 1} are named",
            f"name one: ctk release add {shlex.quote(words[0])} VERSION",
        )
    version = added.parse_version(words[0], words[1])
    report.say(f"{words[0]} {version}: asking the package index")
    with Index() as index:
        addition = added.add(index, project, version, workspace)
    for name, error in addition.refused.items():
        report.line(f"not in {name}: {error.cause}")
    report.result(refused={name: error.cause for name, error in addition.refused.items()})
    having = listing([lock.name for lock in addition.locks])
    same = f"{words[0]} {version} is already locked in {having}"
    _settle(addition.locks, workspace, report, is_written=is_written, same=same)
    _show_unmeasured(addition.locks, workspace, report)
    _show_unread(addition.locks, report)


def remove(name: str, text: str, *, is_written: bool) -> None:
    """Takes a version out of the locks that was added by name, and shows the difference."""
    workspace, report = checkout(), Reporter()
    project = added.find_project(name, workspace)
    locks = added.remove(project, added.parse_version(name, text), workspace)
    _settle(locks, workspace, report, is_written=is_written)


def _show_unmeasured(locks: Sequence[ReleaseLock], workspace: Workspace, report: Reporter) -> None:
    unmeasured = _unmeasured(locks, workspace)
    if unmeasured:
        report.line(f"not measured: run `ctk release measure {' '.join(unmeasured)} --write`")
    report.result(unmeasured=unmeasured)


def _newer(index: Index, workspace: Workspace, report: Reporter) -> list[str]:
    """The releases with newer versions, without CTK releases that are not complete on the index."""
    locks = release_locks(workspace)
    rows = review.compare(index, locks, workspace)
    found = sorted({row.release.removeprefix("cuda-") for row in rows if row.is_newer})
    minors = [name for name in found if name[0].isdigit()]
    for state in review.completeness(index, locks, minors):
        if not state.published or state.published.missing:
            report.say(
                f"{state.minor} is not complete yet: `ctk release check {state.minor}` says what is"
                " missing"
            )
            found.remove(state.minor)
    return found


def _licence_changes(locks: Iterable[ReleaseLock], workspace: Workspace) -> list[str]:
    """A line for each licence that changed since the release before."""
    in_place = release.in_place(workspace)
    lines = []
    for lock in locks:
        before = review.predecessor(in_place, lock)
        if before:
            lines += [
                f"{lock.name}, compared with {before.name}: {change}; release diff shows the text"
                for change in licence_changes(before, lock)
            ]
    return lines


def _unmeasured(locks: Iterable[ReleaseLock], workspace: Workspace) -> list[str]:
    """The releases whose facts or contents are not measured."""
    held = contents.load(workspace)
    return [lock.minor or lock.name for lock in locks if needs_measuring(lock, held)]


def _show_unread(locks: Iterable[ReleaseLock], report: Reporter) -> None:
    """Names the licence texts of some locks that nobody has read, and the next step."""
    measured = [lock for lock in locks if lock.is_measured]
    texts = list(redistribution.unread(redistribution.load(), measured))
    for text in texts:
        report.line(printable(str(text)))
    if texts:
        report.line(redistribution.NEXT_STEP)
    report.result(unread_texts=[asdict(text) for text in texts])


# --- measure


def measure(names: Sequence[str], *, again: bool, is_written: bool) -> None:
    """Measures releases from their artefacts, by default all that are not measured yet."""
    workspace, report = checkout(), Reporter()
    locks = release_locks(workspace)
    held = contents.load(workspace)
    measurable = {name: lock for name, lock in locks.items() if lock.is_measured}
    chosen = list(measurable.values())
    if names:
        chosen = [find_release(measurable, name) for name in names]
    index, measured = partial(Index, pip_settings()), []
    for lock in chosen:
        if again:
            lock = replace(lock, facts=None, gpu_code={})
            for artefact in contents.to_read([lock]):
                held.artefacts.pop(artefact.sha256, None)
        elif not needs_measuring(lock, held):
            report.say(f"{lock.name} is measured; --again measures it anew")
            continue
        size = sum(a.size for a in missing(facts.to_fetch(lock, held), workspace))
        with (
            exclusive(workspace, report.say),
            report.task(f"fetching for {lock.name}", size, bytes_=True) as task,
        ):
            progress = partial(_advance, task)
            at_hand = partial(borrowed, workspace=workspace, index=index, progress=progress)
            measured.append(facts.measure(lock, held, locks.values(), at_hand, workspace.notes))
    held = held.of(artefact.sha256 for artefact in contents.to_read(locks.values()))
    beside = [FileChange.of(contents.path_of(workspace), held.dump())] if measured else []
    _settle(measured, workspace, report, beside, is_written=is_written)
    show_facts(measured, report, locks.values())
    report.result(
        facts={lock.name: asdict(lock.facts) for lock in measured if lock.facts},
        gpu_code={lock.name: lock.gpu_code for lock in measured},
    )
    _show_unread(locks.values(), report)


def _advance(task: Task, artefact: Artefact, received: int) -> None:
    task.advance(received)


def _settle(
    locks: Sequence[ReleaseLock],
    workspace: Workspace,
    report: Reporter,
    beside: Sequence[FileChange] = (),
    *,
    is_written: bool,
    same: str = "",
) -> None:
    """Shows the changes, then writes them or says how to write them.

    Files `beside` are not shown. `same` says why nothing changes, if nothing does.
    """
    proposed = [
        change for lock in locks for change in changes(path_of(workspace, lock.name).parent, lock)
    ]
    needed = [change for change in proposed if change.is_needed]
    for change in needed:
        for line in change.diff(workspace.root):
            report.line(printable(line))
    needed += [change for change in beside if change.is_needed]
    names = ", ".join(change.path.name for change in needed)
    report.result(
        releases=[lock.name for lock in locks],
        changes=[{"file": str(c.path), "diff": "\n".join(c.diff(workspace.root))} for c in needed],
        written=bool(needed) and is_written,
    )
    if not needed:
        report.line(f"nothing changes: {same}" if same else "nothing changes")
    elif is_written:
        with exclusive(workspace, report.say):
            write(needed)
            known.write(workspace)
        report.line(f"wrote {names}")
    else:
        report.line(f"nothing written; --write writes {names}")


# --- check


def check(names: Sequence[str], base: str | None) -> None:
    """Shows what the index has newer than the locks, and what `base` is compiled with."""
    workspace, report = checkout(), Reporter()
    locks = release_locks(workspace)
    named = release.names_of(names)
    minors = [name.removeprefix("cuda-") for name in named if name.startswith("cuda-")]
    with Index() as index:
        # With names of Python projects only, no CTK release is asked for. Those that are named come
        # first: the index may have no such release.
        states = review.completeness(index, locks, minors) if minors or not named else []
        rows = review.compare(index, locks, workspace, named)
    states.sort(key=lambda state: state.is_whole)
    rows.sort(key=lambda row: (not row.is_newer, not row.held_back))
    newer = sorted({row.release for row in rows if row.is_newer})
    report.result(
        compiled_with=None,
        rows=[asdict(row) for row in rows],
        releases=[_state_as_json(state) for state in states],
        newer=newer,
    )
    is_short = not named and not report.verbose
    _show_rows(rows, states, report, is_short=is_short)
    if newer:
        releases = " ".join(name.removeprefix("cuda-") for name in newer)
        report.line(f"to lock them: ctk release add {releases} --write")
    _show_unread([lock for lock in locks.values() if not named or lock.name in named], report)
    known = review.compiles_with(workspace)
    report.result(compiles_with=[asdict(channel) for channel in known])
    if not named:
        _show_moved(known, report)
    if base:
        _show_compiled_with(base, workspace, report)


def _show_moved(known: Sequence[CompilesWith], report: Reporter) -> None:
    """Says whether conda-forge or RAPIDS compile with a minor that the default set lacks."""
    if not known:
        return
    report.line(f"scripts/ctk/plan/{conda_forge.FILE.name} says who compiles with which toolkit:")
    for channel in known:
        report.line(f"  {channel}")
    moved = [channel for channel in known if channel.has_moved]
    for channel in moved:
        lacks = ""
        if channel.lacking:
            lacks = f"the default set lacks {listing(channel.lacking)}, and "
        report.line(
            f"{channel.channel} has moved: {lacks}{channel.table} of pyproject.toml has"
            f" {listing(channel.stated)}; write {listing(channel.minors)} there, and `ctk build`"
            f" makes these ({channel.source})"
        )
    if not moved:
        report.line("the default set has all of these")


def _state_as_json(state: Completeness) -> Mapping[str, object]:
    published = state.published
    return {
        "release": f"cuda-{state.minor}",
        "version": state.version,
        "complete": None if published is None else not published.missing,
        "wanted": published and published.wanted,
        "missing": published and published.missing,
        "problem": state.problem or None,
    }


def _show_rows(
    rows: Collection[LockedVersion],
    states: Collection[Completeness],
    report: Reporter,
    *,
    is_short: bool,
) -> None:
    """Shows tables of versions and of CTK releases; if `is_short`, of those to look at."""
    shown, incomplete = list(rows), list(states)
    if is_short:
        shown = [row for row in rows if row.is_newer or row.held_back]
        incomplete = [state for state in states if not state.is_whole]
    if shown:
        columns = ("release", "what", "locked", "would lock", "newest", "verdict")
        report.table("locks and the package index", columns, [row.cells for row in shown])
    for row in shown:
        for sentence in row.reasons:
            report.line(sentence)
    if incomplete:
        words = ("release", "manifest", "on the index", "what is missing there")
        cells = [state.cells for state in incomplete]
        report.table("completeness of the CUDA Toolkit releases", words, cells)
    for state in incomplete:
        if state.problem:
            report.line(f"cuda-{state.minor}: {state.problem}")
    if is_short:
        calm, whole = len(rows) - len(shown), len(states) - len(incomplete)
        report.line(
            f"nothing to do for {count(calm, 'version')}; complete on the index:"
            f" {count(whole, 'toolkit release')} (-v: each)"
        )
        _show_newest_toolkit(rows, report)


def _show_newest_toolkit(rows: Collection[LockedVersion], report: Reporter) -> None:
    """Says that no toolkit is newer than the locked ones, if none is."""
    toolkits = [row for row in rows if row.what == MANIFEST]
    locked = [row.locked for row in toolkits if row.locked]
    if locked and not any(row.is_newer for row in toolkits):
        report.line(f"no toolkit on the index is newer than {max(locked, key=Version)}")


def _show_compiled_with(base: str, workspace: Workspace, report: Reporter) -> None:
    """Says which toolkits a channel is compiled with, if the settings have others."""
    known = settings(workspace.root).conda_forge.minors
    compiled = review.compiled_with(base_channel(base, workspace))
    report.result(compiled_with=compiled)
    if compiled != known:
        stated = f"[tool.ctk.conda_forge] of pyproject.toml has {listing(known)}"
        report.line(
            f"{base} compiles with {listing(compiled)}, and {stated}: change it; `ctk build`"
            " then makes these"
        )
