"""The input of a site: a channel's index, the files it names, and the release locks, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from rattler import Version

from ctk.core.checkout import Workspace
from ctk.core.errors import ChannelBroken, ChannelMissing
from ctk.core.platforms import PLATFORMS
from ctk.lock.model import ReleaseLock, release_locks
from ctk.package.reader import IndexJson, index_of


@dataclass(frozen=True)
class IndexedPackage:
    """A package file, as the index lists it."""

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
    """The channel and the checkout. Pages of audits and binaries read caches as well."""

    workspace: Workspace
    channel: Path  # one state of it, which stays as it is
    name: str
    entries: tuple[IndexedPackage, ...]  # by name, then newest version first, then native before compat
    locks: Mapping[str, ReleaseLock]  # CTK releases first, oldest first
    channels: tuple[str, ...] = ()  # what a client is given, the most important first: addresses or names

    @cached_property
    def packages(self) -> Mapping[str, tuple[IndexedPackage, ...]]:
        """Package name -> its entries, newest first."""
        return {name: tuple(group) for name, group in groupby(self.entries, key=lambda entry: entry.name)}

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


def read(workspace: Workspace, channel: Path) -> Site:
    """Reads the channel's index and the locks.

    Raises:
        ChannelBroken: An index is damaged.
        ChannelMissing: There is no channel.
    """
    if not channel.is_dir():
        raise ChannelMissing.of(channel)
    state = channel.resolve()  # a run that builds meanwhile makes another state
    entries: list[IndexedPackage] = []
    for file in sorted(state.glob("*/repodata.json")):
        try:
            records = json.loads(file.read_text(encoding="utf-8"))["packages.conda"]
            entries += (_entry(file.parent, name, record) for name, record in records.items())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ChannelBroken(f"{file} is no index: {error!r}", "ctk build makes the channel again") from error
    entries.sort(key=lambda entry: (entry.index.subdir, entry.file))  # each sort keeps the order before
    entries.sort(key=lambda entry: (Version(entry.index.version), entry.index.build_number), reverse=True)
    entries.sort(key=lambda entry: entry.name)
    return Site(workspace, state, channel.name, tuple(entries), release_locks(workspace))


def _entry(folder: Path, file: str, record: Any) -> IndexedPackage:
    index = replace(index_of(record), subdir=folder.name)
    return IndexedPackage(file, index, record["size"], record["sha256"], folder / file)
