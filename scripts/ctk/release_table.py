"""The rows of `ctk release list`, and the table of releases in README.md."""

from __future__ import annotations

from collections.abc import Iterable

from ctk.exclusions import Classes
from ctk.lock import ReleaseLock
from ctk.marked import Marked, markdown
from ctk.platforms import NOARCH, PLATFORMS

FACTS = ("release", "GPUs its compiler knows", "PTX ISA it writes")
TABLES = Marked(
    "table of releases", "ctk release list --write-table", {"README.md": "release"}, "what the release locks say"
)


def components_row(lock: ReleaseLock, classes: Classes) -> tuple[object, ...]:
    """A CTK release: its components by class, and its artefacts by subdir."""
    name = f"{lock.release} partial" if lock.missing else lock.release
    counts = (len(lock.components), len(classes.packaged), len(classes.excluded), len(classes.unclassified))
    return name, *counts, *(_count(lock, subdir) for subdir in PLATFORMS)


def projects_row(lock: ReleaseLock) -> tuple[object, ...]:
    """The Python projects of a CUDA major: how many, and their artefacts by subdir."""
    return lock.release, len(lock.components), *(_count(lock, subdir) for subdir in (*PLATFORMS, NOARCH))


def facts_rows(locks: Iterable[ReleaseLock]) -> list[tuple[str, ...]]:
    """What the binaries of each CTK release say of themselves; ``?`` where they have not been asked."""
    return [(lock.release, *_facts(lock)) for lock in locks if lock.is_ctk]


def markdown_of(locks: Iterable[ReleaseLock]) -> str:
    """The table of README.md."""
    return markdown(FACTS, facts_rows(locks))


def _facts(lock: ReleaseLock) -> tuple[str, str]:
    if lock.facts is None:
        return "?", "?"
    return f"{lock.facts.gpu_architectures[0]} to {lock.facts.gpu_architectures[-1]}", lock.facts.ptx_isa


def _count(lock: ReleaseLock, subdir: str) -> int:
    return sum(a.target == subdir or a.target.startswith(f"{subdir}-") for a in lock.artefacts)
