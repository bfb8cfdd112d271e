"""Whether a path from data stays inside of its folder.

Records of environments, indexes, locks, notes, SBOMs and archives state paths. Anybody may have
written them, so none is joined to a folder before a function of this module has seen it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_SEPARATORS = re.compile(r"[/\\]")  # Windows takes both
_DRIVE = re.compile(r"[A-Za-z]:")


def wrong_with(path: object) -> str:
    """Why a path is not that of a file below a folder, by its text alone; "" if it is one.

    The answer is the same on every system: a path that leads out on Windows only is wrong, too.
    """
    if not isinstance(path, str):
        return "it is not text"
    if "\0" in path:
        return "it has a null character"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "a file cannot have this name"
    parts = _SEPARATORS.split(path)
    if ".." in parts:
        return "it leads outside through `..`"
    if not {*parts} - {"", "."}:
        return "it does not name a file"
    if not parts[0] or _DRIVE.match(path):
        return "it is absolute"
    return ""


def is_file_name(name: object) -> bool:
    """Whether a text is the name of a file, without any folder."""
    return isinstance(name, str) and not wrong_with(name) and not _SEPARATORS.search(name)


def place_in(root: Path, path: object) -> Path | None:
    """The place of a path below a folder; None if it is outside, or behind a link that leads out.

    The place itself may be a link: who removes it removes the link.
    """
    return None if outside(root, [path]) else root / str(path)


def outside(root: Path, paths: Iterable[object]) -> dict[str, str]:
    """Which paths are outside of a folder, or behind a link that leads out -> why.

    Each folder on the way is looked at once.
    """
    found: dict[str, str] = {}
    links: dict[str, str] = {}  # a folder below the root -> why what is in it is outside
    real_root = os.path.realpath(root)
    for path in paths:
        why = wrong_with(path)
        if not why:
            folder = os.path.dirname(os.path.normpath(str(path)))
            if folder not in links:
                links[folder] = _leads_out(root, folder, real_root)
            why = links[folder]
        if why:
            found[str(path)] = why
    return found


def _leads_out(root: Path, folder: str, real_root: str) -> str:
    """Why what is in a folder below the root is outside of it; "" if it is inside."""
    real = os.path.realpath(root / folder)
    if real == real_root or real.startswith(os.path.join(real_root, "")):
        return ""
    return f"{root / folder} leads to {real}"
