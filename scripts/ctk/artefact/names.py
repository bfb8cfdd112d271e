"""Names of members that mean the same file, inside the folder they are unpacked into, on every system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

LONGEST = 512
"""Bytes of a path; the longest one in the artefacts here has 133."""
_LONGEST_PART = 255
_DEEPEST = 32  # the artefacts here have 12
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*\\]')
# Windows opens a device for these, whatever ending follows.
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)


def wrong_with(name: str) -> str | None:
    """Why a member may not have this name; None for a good one. A folder's may end in a slash."""
    if name.startswith("/"):
        return "an absolute path"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "a name that is no Unicode"
    if size > LONGEST:
        return f"a path of {size} bytes, and {LONGEST} are the most"
    if found := _FORBIDDEN.search(name):
        return f"the character {found[0]!r} in its name"
    parts = name.removesuffix("/").split("/")
    if len(parts) > _DEEPEST:
        return f"a path of {len(parts)} parts, and {_DEEPEST} are the most"
    return next(filter(None, map(_wrong_with_part, parts)), None)


def _wrong_with_part(part: str) -> str | None:
    if part == "..":
        return "a path that leaves its folder"
    if part in ("", "."):
        return "a path with an empty part"
    if len(part.encode()) > _LONGEST_PART:
        return f"a part of more than {_LONGEST_PART} bytes in its path"
    if part[-1] in ". ":
        return "a part that ends in a dot or a space, which Windows drops"
    return f"the name {part!r}, which is a device on Windows" if _DEVICE.fullmatch(part) else None


def clashes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Members that cannot both be unpacked: one name twice, two that differ in case only, a file that is a folder too.

    Args:
        names: In the order of the archive; those of folders end in a slash.

    Yields:
        A member, and why.
    """
    seen: dict[str, str] = {}  # folded path -> as it was written first
    files: set[str] = set()
    folders: set[str] = set()
    for name in names:
        path, is_folder = name.removesuffix("/"), name.endswith("/")
        parents = [path[: i + 1] for i in range(len(path)) if path[i + 1 : i + 2] == "/"]
        for parent in [*parents, path]:
            first = seen.setdefault(_folded(parent), parent)
            if first != parent:
                yield name, f"clashes with {first} where upper and lower case are the same"
        if path in files or (not is_folder and path in folders):
            yield name, "occurs twice"
        if any(parent in files for parent in parents):
            yield name, "lies in what is a file"
        folders.update([*parents, path] if is_folder else parents)
        if not is_folder:
            files.add(path)


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
