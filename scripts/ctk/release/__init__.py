"""New versions on the package index, and new locks. Here: tables of the locks, which need no index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import Version

from ctk.core.checkout import Marked, markdown_table
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.components import Classes
from ctk.lock.model import ReleaseLock

FACTS = ("release", "GPUs its compiler knows", "PTX ISA it writes")
TABLE = Marked(
    "table of releases",
    "ctk verify --write-table",
    "docs/how-the-right-build-is-picked.md",
)


def components_row(lock: ReleaseLock, classes: Classes) -> tuple[object, ...]:
    """A row for a CTK release: its components by class, and its artefacts by subdir."""
    counts = (len(lock.components), len(classes.packaged), len(classes.excluded), len(classes.unclassified))
    return lock.release, *counts, *(_count(lock, subdir) for subdir in PLATFORMS)


def projects_row(lock: ReleaseLock) -> tuple[object, ...]:
    """A row for another lock: the number of its projects, and their artefacts by subdir."""
    return lock.release, len(lock.components), *(_count(lock, subdir) for subdir in (*PLATFORMS, NOARCH))


def _count(lock: ReleaseLock, subdir: str) -> int:
    return sum(a.subdir == subdir for a in lock.artefacts)


def facts_rows(locks: Iterable[ReleaseLock]) -> list[tuple[str, ...]]:
    """The facts of each CTK release; ``?`` where they are not measured."""
    releases = [lock for lock in locks if lock.is_ctk]
    known = sorted({gpu for lock in releases if lock.facts for gpu in lock.facts.gpu_architectures}, key=Version)
    return [(lock.release, *_facts(lock, known)) for lock in releases]


def _facts(lock: ReleaseLock, known: Sequence[str]) -> tuple[str, str]:
    """The oldest and the newest GPU, the GPUs between them that only other releases know, and the PTX ISA."""
    if lock.facts is None:
        return "?", "?"
    gpus = lock.facts.gpu_architectures
    between = known[known.index(gpus[0]) : known.index(gpus[-1])]
    missing = ", ".join(gpu for gpu in between if gpu not in gpus)
    return f"{gpus[0]} to {gpus[-1]}{f', not {missing}' if missing else ''}", lock.facts.ptx_isa


def markdown_of(locks: Iterable[ReleaseLock]) -> str:
    """The table of the docs."""
    return markdown_table(FACTS, facts_rows(locks))
