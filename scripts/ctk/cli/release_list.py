"""``ctk release list``: what is locked, how much of it is packaged, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ctk.core.paths import Workspace, checkout
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.report import Reporter
from ctk.lock import exclusions
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.plan import project
from ctk.release import review


def list_command(
    write_table: Annotated[bool, typer.Option("--write-table", help="Only write the table in README.md anew.")] = False,
    check_table: Annotated[bool, typer.Option("--check-table", help="Only check that table.")] = False,
) -> None:
    """Show the locked releases: how many components are packaged, left out on purpose, or neither, and their facts.

    Example: ctk release list
    """
    here, reporter = checkout(), Reporter()
    locks = list(release_locks(here).values())
    if write_table:
        changed = review.TABLES.write(here, lambda _: review.markdown_of(locks))
        reporter.result(written=changed)
        reporter.line(f"written: {' '.join(map(str, changed))}" if changed else "unchanged")
    elif check_table:
        review.TABLES.check(here, lambda _: review.markdown_of(locks))
        reporter.line("the table of releases is what the release locks say")
    else:
        _show_locks(locks, here, reporter)
        show_facts(locks, reporter)


def show_facts(locks: Sequence[ReleaseLock], reporter: Reporter) -> None:
    """The table of what was measured; nothing without a CTK release."""
    rows = review.facts_rows(locks)
    if rows:
        reporter.table("measured of the CTK releases", review.FACTS, rows)


def _show_locks(locks: Sequence[ReleaseLock], here: Workspace, reporter: Reporter) -> None:
    classes = project.classified(here)
    reporter.result(releases=[_lock_as_json(lock, classes[lock.name] if lock.is_ctk else None) for lock in locks])
    columns = ("release", "components", "packaged", "excluded", "unclassified", *PLATFORMS)
    rows = [review.components_row(lock, classes[lock.name]) for lock in locks if lock.is_ctk]
    reporter.table("CTK releases (artefacts by subdir)", columns, rows, right=columns[1:])
    for lock in locks:
        if lock.missing:
            lacking = "; ".join(f"{name} for {', '.join(places)}" for name, places in lock.missing.items())
            step = f"`ctk release add {lock.minor} --write` completes it"
            reporter.line(f"{lock.name} is partial, it lacks {lacking}: {step}")
        if unclassified := sorted(classes[lock.name].unclassified) if lock.is_ctk else []:
            reporter.line(f"{lock.name}: neither packaged nor in variants/{exclusions.FILE}: {', '.join(unclassified)}")
    columns = ("release", "projects", *PLATFORMS, NOARCH)
    rows = [review.projects_row(lock) for lock in locks if not lock.is_ctk]
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
