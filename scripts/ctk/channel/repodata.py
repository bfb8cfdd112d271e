"""The index of a channel: as data, and as the files that clients read.

`ctk.package.records` reads repodata alone, for rooms that need no other index file.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from ctk.core.checkout import channel_missing, step_to_channel
from ctk.core.disk import disk_errors
from ctk.core.errors import ChannelBroken, PublishFailed
from ctk.core.files import make_folder, read_plain, replace_file
from ctk.core.platforms import NOARCH
from ctk.package.records import COMPRESSED, REMAKE, REPODATA, entries, records

RUN_EXPORTS = "run_exports.json"
FILES = (RUN_EXPORTS, COMPRESSED, REPODATA)
STATED = (RUN_EXPORTS, REPODATA)
"""The index files from which the others follow; a state in a history has only these."""
TIME = "indexed_timestamp"
"""Key of a record: the time at which the package was first indexed, in milliseconds since 1970 (CEP
47).
"""
FIRST = 1_325_376_000_000  # 2012, the first year of conda, in milliseconds: no package is older
Records = Mapping[str, Any]


@dataclass(frozen=True)
class ChannelIndex:
    """The index of a channel; keys are ``subdir/file``."""

    records: Records = field(default_factory=dict)  # entries of repodata.json
    run_exports: Records = field(default_factory=dict)  # entries of run_exports.json (CEP 12)
    subdirs: frozenset[str] = frozenset()  # subdirs with index files, also without packages

    def names(self) -> dict[str, str]:
        """``subdir/file`` -> sha256."""
        return {name: record["sha256"] for name, record in self.records.items()}

    def without(self, names: Collection[str]) -> ChannelIndex:
        """The index without the records of some packages; their run exports stay."""
        return replace(
            self,
            records={name: record for name, record in self.records.items() if name not in names},
        )

    def times(self) -> dict[str, str]:
        """``subdir/file`` -> when it first came into the index, in ISO 8601.

        Where its record says so (CEP 47).
        """
        known = {
            name: record[TIME] / 1000 for name, record in self.records.items() if record.get(TIME)
        }
        return {
            n: datetime.fromtimestamp(t, UTC).isoformat(timespec="milliseconds")
            for n, t in known.items()
        }

    def dated(self, times: Mapping[str, str]) -> ChannelIndex:
        """The index with the times of publication in `times`; records of other packages stay."""
        dated = {
            n: {**self.records[n], TIME: milliseconds(times[n])}
            for n in self.records.keys() & times.keys()
        }
        return replace(self, records={**self.records, **dated})

    def undated(self) -> dict[str, dict[str, Any]]:
        """The records without times of publication, which differ between indexes of one state."""
        return {
            name: {k: v for k, v in record.items() if k != TIME}
            for name, record in self.records.items()
        }

    def __or__(self, newer: ChannelIndex) -> ChannelIndex:
        """The union.

        `self` wins, since its records may name attestations that the other index lacks.
        """
        exports = {**newer.run_exports, **self.run_exports}
        return ChannelIndex(
            {**newer.records, **self.records}, exports, self.subdirs | newer.subdirs
        )

    def __len__(self) -> int:
        return len(self.records)


def made_at(record: Mapping[str, Any]) -> int:
    """The timestamp of a record in milliseconds since 1970.

    `FIRST` if it has none or an older one.
    """
    return max(FIRST, int(record.get("timestamp", 0)))


def milliseconds(text: str) -> int:
    """A time in ISO 8601 -> milliseconds since 1970, as in records."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def read_index(channel: Path) -> ChannelIndex:
    """Reads the index of a channel folder; an empty index without the folder.

    Raises:
        ChannelBroken: An index file is damaged.
    """
    found, folders = records(channel), sorted(file.parent for file in channel.glob(f"*/{REPODATA}"))
    run_exports = {
        name: entry for folder in folders for name, entry in entries(folder / RUN_EXPORTS).items()
    }
    for name, record in found.items():
        try:
            record["name"], bytes.fromhex(record["sha256"] + record.get("md5", ""))
        except (ValueError, KeyError, TypeError):
            raise ChannelBroken(
                f"the index of {channel} has no name or no hash of {name}", REMAKE
            ) from None
    return ChannelIndex(found, run_exports, frozenset(folder.name for folder in folders))


def write_index(index: ChannelIndex, channel: Path, subdir: str, files: Iterable[str]) -> None:
    """Writes index files of a subdir, in the given order, each with one rename."""
    make_folder(channel / subdir)
    for name in files:
        replace_file(channel / subdir / name, content_of(index, subdir, name))


def shows(channel: Path, index: ChannelIndex) -> bool:
    """Whether the index files of a channel are exactly those of `index`."""
    return all(
        _has(channel / subdir / name, content_of(index, subdir, name))
        for subdir in index.subdirs
        for name in FILES
    )


def _has(file: Path, content: bytes) -> bool:
    return file.is_file() and read_plain(file) == content


def content_of(index: ChannelIndex, subdir: str, name: str) -> bytes:
    """The content of an index file of a subdir."""
    is_exports = name == RUN_EXPORTS
    content: dict[str, Any] = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": {}}
    for file, entry in _of_subdir(
        index.run_exports if is_exports else index.records, subdir
    ).items():
        content["packages.conda" if file.endswith(".conda") else "packages"][file] = entry
    if is_exports:
        content["info"]["version"] = 1
    else:
        content |= {"repodata_version": 1, "v3": {}}
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return zstandard.ZstdCompressor(level=19).compress(text) if name == COMPRESSED else text


def _of_subdir(entries: Records, subdir: str) -> dict[str, Any]:
    return {
        name.partition("/")[2]: entry
        for name, entry in entries.items()
        if name.startswith(f"{subdir}/")
    }


def steps(
    old: ChannelIndex, new: ChannelIndex
) -> Iterator[tuple[ChannelIndex, str, tuple[str, ...]]]:
    """The steps that replace the index files of a channel: readers see one index at any moment.

    Only single files can be replaced atomically, and a reader may combine the old file of one
    subdir with the new file of another. So packages leave the index in two steps: first to the
    union of both indexes, then to the new index. Any mixture then contains all of the old index or
    all of the new index, and names only packages that exist. Entries of run_exports.json stay,
    since a build that has read the old index asks for them later. ``noarch`` is written first; in a
    subdir, run_exports.json before the repodata that needs it; repodata.json, which every client
    can read, is last.

    The channel has the packages of both indexes, and the run exports of `new` include those of
    `old`.

    Yields:
        An index, a subdir, and which of its files to write, in their order.
    """
    union = new | old
    subdirs = sorted({*union.subdirs, NOARCH}, key=lambda subdir: (subdir != NOARCH, subdir))
    for subdir in subdirs:
        yield union, subdir, FILES
    for subdir in subdirs:
        if _of_subdir(union.records, subdir) != _of_subdir(new.records, subdir):
            yield new, subdir, (COMPRESSED, REPODATA)


def add(source: Path, channel: Path) -> None:
    """Adds the packages of one channel folder to another.

    It replaces packages of the same file name.
    """
    found = read_index(source)
    exports = {
        name: {"run_exports": record.get("run_exports", {})}
        for name, record in found.records.items()
    }
    with disk_errors(channel):
        for name in found.records:
            make_folder((channel / name).parent)
            shutil.copyfile(source / name, channel / name)
        old = read_index(channel)
        new = replace(found, run_exports=exports)
        for index, subdir, files in steps(old, new | old):
            write_index(index, channel, subdir, files)


def no_packages(place: str) -> PublishFailed:
    """The error for a folder or an address, as it was typed, in which no index names a package."""
    preposition = "at" if "://" in place else "in"
    cause = f"there is no channel with packages {preposition} {place}"
    return PublishFailed(cause, step_to_channel(place))


def in_order(channel: Path, index: ChannelIndex | None = None) -> list[str]:
    """The packages of a channel folder, each after its dependencies.

    Packages in a cycle are sorted by name. The index is that of the folder, unless another is
    given.

    Raises:
        ChannelMissing: The folder does not exist.
        PublishFailed: It is not a channel, or has no packages.
    """
    if not channel.is_dir():
        raise channel_missing(channel)
    needs: dict[str, list[str]] = {}
    providers: dict[str, list[str]] = {}
    for file, record in sorted((index or read_index(channel)).records.items()):
        needs[file] = [spec.split()[0] for spec in record["depends"]]
        providers.setdefault(record["name"], []).append(file)
    if not needs:
        raise no_packages(str(channel))
    done: dict[str, None] = {}
    entered: set[str] = set()
    stack = sorted(needs, reverse=True)
    while stack:  # depth first, without recursion: a cycle may have thousands of files
        file = stack[-1]
        needed = (
            []
            if file in entered
            else [other for name in needs[file] for other in providers.get(name, [])]
        )
        entered.add(file)
        if fresh := [other for other in needed if other not in entered]:
            stack += reversed(fresh)
        else:
            done.setdefault(stack.pop())
    return list(done)
