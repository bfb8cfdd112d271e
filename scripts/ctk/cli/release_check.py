"""``ctk release check``: the locks against the package index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ctk.core.errors import OutOfDate
from ctk.core.paths import checkout
from ctk.core.report import Reporter
from ctk.index.index import Index
from ctk.lock import exclusions, licences
from ctk.lock.lock import release_locks
from ctk.release import release, review


def check_command(
    releases: Annotated[
        list[str] | None,
        typer.Argument(help="CTK minors like 13.4; by default the locked and the newer ones.", metavar="RELEASE"),
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
    here, reporter = checkout(), Reporter()
    locks = release_locks(here)
    named = release.names_of(releases or ())
    minors = [name.removeprefix("cuda-") for name in named if name.startswith("cuda-")]
    with Index() as index:
        rows = review.compare(index, locks, here)
        unpublished = exclusions.load(here).unpublished
        # Who names Python projects only asks about no CTK release, and not about all of them.
        states = review.completeness(index, locks, unpublished, minors) if minors or not named else []
        shown = [row for row in rows if not named or row.release in named]
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
    for row in shown:
        for sentence in row.reasons:
            reporter.line(sentence)
    if states:
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


def _show_states(states: Sequence[review.Completeness], reporter: Reporter) -> None:
    columns = ("release", "manifest", "on the index", "what is missing there")
    reporter.table("completeness of the CTK releases", columns, [state.cells for state in states])
    for state in states:
        listed = [
            f"its manifest names {name}, which variants/{exclusions.FILE} calls unpublished" for name in state.listed
        ]
        for line in (*([state.problem] if state.problem else ()), *state.withdrawn, *listed):
            reporter.line(f"cuda-{state.minor}: {line}")


def _state_as_json(state: review.Completeness) -> dict[str, Any]:
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
