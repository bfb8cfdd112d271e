"""`ctk release list`: the locks in place and what was measured of them, without the index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict

from ctk.core.checkout import Workspace, checkout
from ctk.core.console import Reporter
from ctk.lock.components import EXCLUSIONS
from ctk.lock.model import ReleaseLock, release_locks
from ctk.plan.plan import classified
from ctk.release import FACTS, facts_rows

_KINDS = ("packaged", "excluded", "unclassified")


def list_locks() -> None:
    """Shows the locks in place, and their facts."""
    workspace, report = checkout(), Reporter()
    locks = list(release_locks(workspace).values())
    _show_locks(locks, workspace, report)
    show_facts(locks, report)


def show_facts(
    locks: Sequence[ReleaseLock], report: Reporter, others: Collection[ReleaseLock] = ()
) -> None:
    """Shows the table of facts, if there is a CTK release.

    The GPUs of other locks are gaps in it.
    """
    rows = facts_rows(locks, others)
    if rows:
        report.table("measured of the CUDA Toolkit releases", FACTS, rows)


def _show_locks(locks: Sequence[ReleaseLock], workspace: Workspace, report: Reporter) -> None:
    found = _components_by_kind(locks, workspace)
    report.result(
        releases=[
            {
                "name": lock.name,
                "release": lock.release,
                "components": {
                    name: component.version for name, component in lock.components.items()
                },
                **found[lock.name],
                "facts": asdict(lock.facts) if lock.facts else None,
                "added": lock.added,
            }
            for lock in locks
        ]
    )
    rows = []
    for lock in locks:
        names = found[lock.name]
        numbers = ["" if names[kind] is None else len(names[kind] or ()) for kind in _KINDS]
        rows.append((lock.release, len(lock.components), *numbers))
        if names["unclassified"]:
            listed = ", ".join(names["unclassified"])
            report.line(f"{lock.name}: neither packaged nor in variants/{EXCLUSIONS}: {listed}")
    columns = ("release", "components", *_KINDS)
    report.table("locks", columns, rows, right=columns[1:])
    _show_versions(locks, report)


def _show_versions(locks: Sequence[ReleaseLock], report: Reporter) -> None:
    """Shows the projects that a lock has in several versions, the newest first."""
    rows = []
    for lock in locks:
        versions: dict[str, list[str]] = {}
        for component in lock.components.values():
            is_named = lock.added.get(component.name, {}).get(component.version) == ""
            ending = " (by name)" if is_named else ""
            versions.setdefault(component.name, []).append(f"{component.version}{ending}")
        rows += [
            (lock.name, name, ", ".join(texts)) for name, texts in versions.items() if texts[1:]
        ]
    if rows:
        report.table("projects in several versions", ("lock", "project", "versions"), rows)


def _components_by_kind(
    locks: Sequence[ReleaseLock], workspace: Workspace
) -> dict[str, dict[str, list[str] | None]]:
    """Name of a lock -> kind -> its components of this kind; None of a lock without kinds."""
    classes = classified(workspace)
    found: dict[str, dict[str, list[str] | None]] = {}
    for lock in locks:
        found[lock.name] = dict.fromkeys(_KINDS)
        if lock.is_ctk:
            for kind in _KINDS:
                found[lock.name][kind] = sorted(getattr(classes[lock.name], kind))
    return found
