"""How a package and its rebuild differ, file by file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ctk.build.provenance import tools
from ctk.package.package import Member, members


@dataclass(frozen=True)
class Difference:
    """One way in which a package and its rebuild differ.

    Attributes:
        place: ``info/...`` or ``pkg/...`` for a file of the package, ``archive`` for all of it, ``build`` when none
            was made.
        what: In a few words.
    """

    place: str
    what: str


def differences(old: Path, new: Path | None, made_with: Mapping[str, str]) -> Iterator[Difference]:
    """Every difference between a package and its rebuild; nothing when they are the same bytes.

    Args:
        old: The package.
        new: What was made now, or None when it was not.
        made_with: The tools that the package names.
    """
    if new is None:
        yield Difference("archive", "is not made any more")
        return
    if _sha256(old) == _sha256(new):
        return
    before, after = _members(old), _members(new)
    for place in sorted(before.keys() | after.keys()):
        if place not in after:
            yield Difference(place, "only in the package")
        elif place not in before:
            yield Difference(place, "only in the rebuild")
        elif before[place] != after[place]:
            yield Difference(place, _words(before[place], after[place]))
    if before == after:
        yield Difference("archive", "same files, in another order, with other times or compressed in another way")
    for name, version in tools().items():
        if made_with.get(name) != version:
            yield Difference("archive", f"made with {name} {made_with.get(name, 'unknown')}, and here is {version}")


_Content = tuple[Member, str]


def _members(package: Path) -> dict[str, _Content]:
    """Each file of both halves, with its sha256."""
    return {
        f"{part}/{member.path.removeprefix('info/') if part == 'info' else member.path}": (
            member,
            _digest(stream) if stream is not None else "",
        )
        for part in ("info", "pkg")
        for member, stream in members(package, part)
    }


def _words(old: _Content, new: _Content) -> str:
    (before, _), (after, _) = old, new
    if before.kind != after.kind:
        return f"{before.kind}, now {after.kind}"
    if before.link != after.link:
        return f"link to {before.link}, now to {after.link}"
    if before.size != after.size:
        return f"{before.size} bytes, now {after.size}"
    return f"other content, {before.size} bytes"


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return _digest(stream)


def _digest(stream: IO[bytes]) -> str:
    found = hashlib.sha256()
    while block := stream.read(1 << 20):
        found.update(block)
    return found.hexdigest()
