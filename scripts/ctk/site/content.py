"""What a site is made of: a channel's index, the files it names, and the release locks, read once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ctk.core.checkout import Workspace
from ctk.core.console import count
from ctk.core.errors import UnknownName
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.package.package import Index, index_of

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_FILE = re.compile(r"[A-Za-z0-9_][^/\\\0]*\.conda")  # what can be opened in the subdir's folder, and nowhere else
_UNREADABLE = (
    "The index of {} cannot be read, so its packages are missing from these pages. ctk build makes the channel anew."
)
_LEFT_OUT = "{} of the index of {} cannot be read as a package, and is left out here. ctk channel check says more."
_PLANNED = (
    "This is what recipes and release locks say, and not a channel that was built: "
    "sizes, files, texts of licences, SBOMs and audits are not known."
)
_EMPTY = "The channel has no packages yet. Run ctk build, then ctk site build again."


@dataclass(frozen=True)
class Entry:
    """A package that the channel's index lists.

    Attributes:
        file: Its file name.
        index: What a solver sees of it.
        size: Bytes of the file; 0 where the index does not say.
        sha256: Of the file; "" where the index does not say.
        path: Where the file should be; it may be missing.
    """

    file: str
    index: Index
    size: int
    sha256: str
    path: Path

    @property
    def name(self) -> str:
        return self.index.name


@dataclass(frozen=True)
class Site:
    """What was read of the channel and the checkout. Pages of audits, benchmarks and binaries read caches as well.

    Attributes:
        workspace: The checkout.
        channel: The channel's folder: one state of it, which stays as it is.
        name: What the channel is called on the pages.
        repodata: Subdir -> content of its ``repodata.json``, as it is; without those that cannot be read.
        entries: Every package that they list, by name, then newest version first, then native before compat.
        locks: Every release of the checkout by name, CTK releases first, oldest first.
        problems: A sentence for each thing that should be there and cannot be read.
        planned: Whether nothing of it is built, so that no package can be opened.
    """

    workspace: Workspace
    channel: Path
    name: str
    repodata: Mapping[str, Mapping[str, Any]]
    entries: tuple[Entry, ...]
    locks: Mapping[str, ReleaseLock]
    problems: tuple[str, ...] = ()
    planned: bool = False

    @cached_property
    def packages(self) -> Mapping[str, tuple[Entry, ...]]:
        """Package name -> its entries, newest first."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.name, []).append(entry)
        return {name: tuple(found[name]) for name in sorted(found)}

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the channel has packages for."""
        found = {entry.index.subdir for entry in self.entries}
        return tuple(subdir for subdir in PLATFORMS if subdir in found)

    @property
    def releases(self) -> tuple[ReleaseLock, ...]:
        """The CTK releases of the checkout, oldest first."""
        return tuple(lock for lock in self.locks.values() if lock.is_ctk)

    @property
    def newest(self) -> str:
        """The newest CTK release that is locked; "" without any."""
        return self.releases[-1].release if self.releases else ""


def read(workspace: Workspace, channel: Path, *, planned: bool = False) -> Site:
    """Reads a channel. What of it cannot be read is said on the pages and does not stop the rest.

    Args:
        workspace: The checkout.
        channel: The channel's folder.
        planned: Whether it is metadata without packages, of what recipes and release locks say.

    Raises:
        UnknownName: There is no such folder.
        LockError: A release lock of the checkout is not valid.
    """
    if not channel.is_dir():
        raise UnknownName(f"there is no channel in {channel}", "make one with `ctk build`, or name another folder")
    state = channel.resolve()  # a run that builds meanwhile makes another state
    repodata: dict[str, Mapping[str, Any]] = {}
    entries: list[Entry] = []
    problems = []
    for file in sorted(state.glob("*/repodata.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            records = [item for kind in ("packages", "packages.conda") for item in content.get(kind, {}).items()]
        except (OSError, ValueError, AttributeError, RecursionError):
            problems.append(_UNREADABLE.format(file.parent.name))
            continue
        repodata[file.parent.name] = content
        read = [_entry(file.parent, name, record) for name, record in records]
        entries += (entry for entry in read if entry is not None)
        if left := read.count(None):
            problems.append(_LEFT_OUT.format(count(left, "entry").replace("entrys", "entries"), file.parent.name))
    if not entries:
        problems.append(_EMPTY)
    elif planned:
        problems.append(_PLANNED)
    locks = release_locks(workspace)
    return Site(workspace, state, channel.name, repodata, _sorted(entries), locks, tuple(problems), planned)


def version_of(text: str) -> tuple[bool, Version | str]:
    """A key that sorts versions; what is no version of Python's comes first, by its letters."""
    try:
        return True, Version(text)
    except InvalidVersion:
        return False, text


def _sorted(entries: list[Entry]) -> tuple[Entry, ...]:
    found = sorted(entries, key=lambda entry: (entry.index.subdir, entry.file))  # each sort keeps the order before
    found.sort(key=lambda entry: (version_of(entry.index.version), entry.index.build_number), reverse=True)
    return tuple(sorted(found, key=lambda entry: entry.name))


def _entry(folder: Path, file: str, record: Any) -> Entry | None:
    """A record of the index; None for one that is no package: pages and links are named after what it says."""
    try:
        index = index_of(record)
        size, sha256 = int(record.get("size") or 0), str(record.get("sha256") or "")
        texts = (index.name, index.version, index.build, index.license, *index.depends, *index.constrains)
        ordered = index.build_number + 0  # a number, so that builds can be sorted
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    names = _NAME.fullmatch(str(index.name)), _FILE.fullmatch(file)
    if not all(names) or not all(isinstance(text, str) for text in texts) or ordered < 0 or size < 0:
        return None
    return Entry(file, replace(index, subdir=folder.name), size, sha256, folder / file)
