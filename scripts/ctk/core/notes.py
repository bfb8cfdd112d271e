"""Small JSON files that a run leaves for the next one. Whatever has become of one, it is never more than no note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

LARGEST = 64 << 20
"""Bytes: far beyond what any run notes."""


def read(file: Path) -> Any:
    """What a note holds; None where there is none, or none that can be read."""
    try:
        with file.open("rb") as content:
            text = content.read(LARGEST + 1)
        return json.loads(text) if len(text) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def packages(note: Any) -> dict[str, str] | None:
    """The packages that the note of a build lists, as paths below its folder, and their sha256, "" where it has none.

    Notes of older revisions have paths alone. None when it lists anything else.
    """
    listed = note.get("packages") if isinstance(note, Mapping) else None
    if listed is None:
        return None
    try:
        found = dict.fromkeys(listed, "") if isinstance(listed, list) else dict(listed)
    except (TypeError, ValueError):
        return None
    whole = all(isinstance(word, str) for pair in found.items() for word in pair)
    return found if whole and all(map(_is_below, found)) else None


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        bool(path.parts) and "\\" not in name and "\0" not in name and not path.is_absolute() and ".." not in path.parts
    )
