"""New versions on the package index, and new locks. Here: tables of the locks, which need no index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import Version

from ctk.core.checkout import Marked, markdown_table
from ctk.lock.model import ReleaseLock

FACTS = ("release", "GPUs its compiler knows", "PTX ISA it writes")
TABLE = Marked(
    "table of releases",
    "ctk verify --write-table",
    "docs/how-the-right-build-is-picked.md",
)


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
