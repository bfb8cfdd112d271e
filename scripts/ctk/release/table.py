"""The rows of `ctk release list`, and the table of releases in README.md."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from packaging.version import Version

from ctk.core.marked import Marked, markdown
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.lock.exclusions import Classes
from ctk.lock.lock import ReleaseLock

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
    releases = [lock for lock in locks if lock.is_ctk]
    known = {gpu for lock in releases if lock.facts for gpu in lock.facts.gpu_architectures}
    return [(lock.release, *_facts(lock, known)) for lock in releases]


def markdown_of(locks: Iterable[ReleaseLock]) -> str:
    """The table of README.md."""
    return markdown(FACTS, facts_rows(locks))


def _facts(lock: ReleaseLock, known: Collection[str]) -> tuple[str, str]:
    """GPUs from the oldest to the newest, with those between them that others know and it does not; and PTX ISA."""
    if lock.facts is None:
        return "?", "?"
    gpus = lock.facts.gpu_architectures
    oldest, newest = gpus[0], gpus[-1]
    missing = [
        g for g in sorted(known, key=Version) if Version(oldest) < Version(g) < Version(newest) and g not in gpus
    ]
    return f"{oldest} to {newest}{', not ' if missing else ''}{', '.join(missing)}", lock.facts.ptx_isa


def _count(lock: ReleaseLock, subdir: str) -> int:
    return sum(a.target == subdir or a.target.startswith(f"{subdir}-") for a in lock.artefacts)
