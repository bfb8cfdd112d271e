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


def packages(note: Any) -> tuple[str, ...] | None:
    """The packages that the note of a build lists, as paths below its folder; None when it lists anything else."""
    names = note.get("packages") if isinstance(note, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) and _is_below(name) for name in names):
        return None
    return tuple(names)


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        bool(path.parts) and "\\" not in name and "\0" not in name and not path.is_absolute() and ".." not in path.parts
    )
