"""Which files of an artefact came, went, moved or changed."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from ctk.diff.surface import File


@dataclass(frozen=True)
class FileChanges:
    """Files by path, sorted.

    Attributes:
        added: New ones.
        removed: Those that are gone.
        moved: Old and new path of those that are elsewhere with the same content.
        changed: Those with other content.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    changed: tuple[str, ...] = ()


def compare_files(old: Mapping[str, File], new: Mapping[str, File]) -> FileChanges:
    """What became of each file that a package may have: no Python markers, no records of the wheel itself."""
    old, new = ({p: f for p, f in files.items() if _counts(p)} for files in (old, new))
    gone, came = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    by_content: dict[File, list[str]] = {}
    for path in gone:
        if old[path].size:
            by_content.setdefault(old[path], []).append(path)
    moved: dict[str, str] = {}
    for path in came:
        same = by_content.get(new[path], [])
        # A folder that moved keeps the names in it.
        before = next((p for p in same if posixpath.basename(p) == posixpath.basename(path)), same[0] if same else None)
        if before:
            moved[before] = path
            same.remove(before)
    arrived = set(moved.values())
    return FileChanges(
        tuple(path for path in came if path not in arrived),
        tuple(path for path in gone if path not in moved),
        tuple(sorted(moved.items())),
        tuple(path for path in sorted(old.keys() & new.keys()) if old[path] != new[path]),
    )


def _counts(path: str) -> bool:
    if path.startswith("dist-info/"):
        return "licen" in path.lower()
    return posixpath.basename(path) != "__init__.py"
