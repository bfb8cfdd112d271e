"""The input of a site: a channel's index, the files it names, and the release locks, read once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelMissing
from ctk.core.platforms import PLATFORMS
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.package.package import IndexJson, index_of
from ctk.site import benchmarks

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_FILE = re.compile(r"[A-Za-z0-9_][^/\\\0]*\.conda")  # what can be opened in the subdir's folder, and nowhere else
_UNREADABLE = "The index of {} cannot be read, so its packages are missing from these pages."
_LEFT_OUT = "{} of the index of {} cannot be read as a package, and is left out here."
_PLANNED = (
    "This is what recipes and release locks say, and not a channel that was built: "
    "sizes, files, texts of licences, SBOMs and audits are not known."
)
_EMPTY = "The channel has no packages yet."


@dataclass(frozen=True)
class IndexedPackage:
    """A package file that the index lists, and which may be missing; 0 and "" stand for what the index does not say."""

    file: str
    index: IndexJson
    size: int
    sha256: str
    path: Path

    @property
    def name(self) -> str:
        return self.index.name


@dataclass(frozen=True)
class Site:
    """The channel and the checkout. Pages of audits, benchmarks and binaries read caches as well."""

    workspace: Workspace
    channel: Path  # one state of it, which stays as it is
    name: str
    entries: tuple[IndexedPackage, ...]  # by name, then newest version first, then native before compat
    locks: Mapping[str, ReleaseLock]  # CTK releases first, oldest first
    problems: tuple[str, ...] = ()  # a sentence for each thing that should exist and cannot be read
    channels: tuple[str, ...] = ()  # what a client is given, the most important first: addresses or names
    planned: bool = False  # nothing of it is built, so no package can be opened

    @cached_property
    def packages(self) -> Mapping[str, tuple[IndexedPackage, ...]]:
        """Package name -> its entries, newest first."""
        return {name: tuple(group) for name, group in groupby(self.entries, key=lambda entry: entry.name)}

    @cached_property
    def history(self) -> Mapping[str, benchmarks.Series]:
        """Benchmark -> its rows that were measured twice or more: of one figure there is nothing to see yet."""
        return benchmarks.series(self.workspace)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the channel has packages for."""
        subdirs = {entry.index.subdir for entry in self.entries}
        return tuple(subdir for subdir in PLATFORMS if subdir in subdirs)

    @property
    def releases(self) -> tuple[ReleaseLock, ...]:
        """The CTK releases of the checkout, oldest first."""
        return tuple(lock for lock in self.locks.values() if lock.is_ctk)

    @property
    def newest(self) -> str:
        """The newest CTK release that is locked; "" without any."""
        return self.releases[-1].release if self.releases else ""


def read(workspace: Workspace, channel: Path, *, planned: bool = False) -> Site:
    """Reads a channel, or, `planned`, its metadata alone; what of it cannot be read is a sentence on the pages."""
    if not channel.is_dir():
        raise ChannelMissing.of(channel)
    state = channel.resolve()  # a run that builds meanwhile makes another state
    entries: list[IndexedPackage] = []
    problems = []
    for file in sorted(state.glob("*/repodata.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            records = [item for kind in ("packages", "packages.conda") for item in content.get(kind, {}).items()]
        except PermissionError:
            raise
        except (OSError, ValueError, AttributeError, RecursionError):
            problems.append(_UNREADABLE.format(file.parent.name))
            continue
        read = [_entry(file.parent, name, record) for name, record in records]
        entries += (entry for entry in read if entry is not None)
        if left := read.count(None):
            problems.append(_LEFT_OUT.format(f"{left} {'entry' if left == 1 else 'entries'}", file.parent.name))
    if not entries:
        problems.append(_EMPTY)
    elif planned:
        problems.append(_PLANNED)
    entries.sort(key=lambda entry: (entry.index.subdir, entry.file))  # each sort keeps the order before
    entries.sort(key=lambda entry: (_version_key(entry.index.version), entry.index.build_number), reverse=True)
    entries.sort(key=lambda entry: entry.name)
    locks = release_locks(workspace)
    return Site(workspace, state, channel.name, tuple(entries), locks, tuple(problems), planned=planned)


def _version_key(text: str) -> tuple[bool, Version | str]:
    """Sorts versions; what is no version of Python's comes first, by its letters."""
    try:
        return True, Version(text)
    except InvalidVersion:
        return False, text


def _entry(folder: Path, file: str, record: Any) -> IndexedPackage | None:
    """A record of the index; None for one that is no package: pages and links are named after it."""
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
    return IndexedPackage(file, replace(index, subdir=folder.name), size, sha256, folder / file)
