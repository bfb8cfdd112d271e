"""The index of a channel as data, and as the files that clients ask for."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from ctk.core.errors import PublishFailed
from ctk.core.files import make_folder, replace_file
from ctk.core.platforms import NOARCH

REPODATA, COMPRESSED, RUN_EXPORTS = "repodata.json", "repodata.json.zst", "run_exports.json"
FILES = (RUN_EXPORTS, COMPRESSED, REPODATA)
TIME = "indexed_timestamp"
"""In a record: when the package came into the index of its channel first, in milliseconds since 1970 (CEP 47)."""
_LATEST = 1 << 42  # milliseconds, in the year 2109
Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ChannelIndex:
    """What a channel says that it has.

    Attributes:
        records: Subdir -> package file -> what repodata says of it.
        run_exports: Subdir -> package file -> its entry in run_exports.json (CEP 12).
    """

    records: Mapping[str, Records] = field(default_factory=dict)
    run_exports: Mapping[str, Records] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """``subdir/file`` -> sha256."""
        return {f"{s}/{file}": record["sha256"] for s, files in self.records.items() for file, record in files.items()}

    def without(self, names: Collection[str]) -> ChannelIndex:
        """Without the records of some packages, ``subdir/file``; their run exports stay."""
        records = {
            subdir: {file: record for file, record in files.items() if f"{subdir}/{file}" not in names}
            for subdir, files in self.records.items()
        }
        return ChannelIndex(records, self.run_exports)

    def times(self) -> dict[str, str]:
        """``subdir/file`` -> when it came into the index first, where its record says so (CEP 47), as ISO 8601."""
        found = {f"{s}/{file}": record.get(TIME) for s, files in self.records.items() for file, record in files.items()}
        return {name: _text(time) for name, time in found.items() if type(time) is int and 0 < time < _LATEST}

    def dated(self, times: Mapping[str, str]) -> ChannelIndex:
        """With the time of each package that `times` has; the other records are as they were."""
        records = {
            subdir: {
                file: {**record, TIME: milliseconds(times[f"{subdir}/{file}"])}
                if f"{subdir}/{file}" in times
                else record
                for file, record in files.items()
            }
            for subdir, files in self.records.items()
        }
        return ChannelIndex(records, self.run_exports)

    def undated(self) -> dict[str, dict[str, Any]]:
        """Subdir -> its records without those times, where it has any: what two indexes of one state have in common."""
        return {
            subdir: {file: {k: v for k, v in record.items() if k != TIME} for file, record in files.items()}
            for subdir, files in self.records.items()
            if files
        }

    def __or__(self, newer: ChannelIndex) -> ChannelIndex:
        """Both; where both have a package, the record of `self`: it may name attestations that the other does not."""
        return ChannelIndex(_both(self.records, newer.records), _both(self.run_exports, newer.run_exports))

    def __len__(self) -> int:
        return sum(map(len, self.records.values()))


def milliseconds(text: str) -> int:
    """A moment of ISO 8601 as records state it."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _both(first: Mapping[str, Records], second: Mapping[str, Records]) -> dict[str, Records]:
    subdirs = sorted({*first, *second})
    return {s: dict(sorted({**second.get(s, {}), **first.get(s, {})}.items())) for s in subdirs}


def read_index(channel: Path) -> ChannelIndex:
    """The index of a channel folder; an empty one where there is no folder.

    Raises:
        PublishFailed: A file of it cannot be read as one.
    """
    records, run_exports = {}, {}
    for file in sorted(channel.glob(f"*/{REPODATA}")):
        subdir = file.parent.name
        records[subdir] = _packages(file)
        exports = file.with_name(RUN_EXPORTS)
        run_exports[subdir] = _packages(exports) if exports.exists() else {}
    return ChannelIndex(records, run_exports)


def _packages(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
        found = {**content.get("packages", {}), **content.get("packages.conda", {})}
        if file.name == REPODATA:
            for record in found.values():
                if not isinstance(record["sha256"], str):
                    raise TypeError("a sha256 that is no text")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PublishFailed(
            f"{file} is no index of a channel: {type(error).__name__}: {error}", "run `ctk build` first"
        ) from None


def write_index(index: ChannelIndex, channel: Path, subdir: str, files: tuple[str, ...]) -> None:
    """Puts index files of one subdir in place, in the order given, each by one rename."""
    make_folder(channel / subdir)
    for name in files:
        replace_file(channel / subdir / name, _content(index, subdir, name))


def shows(channel: Path, index: ChannelIndex) -> bool:
    """Whether the index files of a channel are those of an index, byte for byte."""
    try:
        return all(
            (channel / s / name).read_bytes() == _content(index, s, name) for s in index.records for name in FILES
        )
    except FileNotFoundError:
        return False


def _content(index: ChannelIndex, subdir: str, name: str) -> bytes:
    content: dict[str, Any] = {"info": {"subdir": subdir}}
    if name == RUN_EXPORTS:
        content["info"]["version"] = 1
        content |= _by_format(index.run_exports.get(subdir, {}))
        return json.dumps(content, sort_keys=True).encode()
    content |= _by_format(index.records.get(subdir, {})) | {"repodata_version": 1}
    text = json.dumps(content, sort_keys=True).encode()
    return zstandard.ZstdCompressor(level=19).compress(text) if name == COMPRESSED else text


def _by_format(packages: Records) -> dict[str, Records]:
    modern = {file: value for file, value in sorted(packages.items()) if file.endswith(".conda")}
    return {"packages": {f: v for f, v in sorted(packages.items()) if f not in modern}, "packages.conda": modern}


def put_in_place(old: ChannelIndex, new: ChannelIndex, channel: Path) -> None:
    """Lets readers of a channel go from one index to another, whatever they read in between.

    Nothing but single files can be replaced, and a reader may hold the old file of one subdir and the new one of
    another. So when something leaves the index there are two steps: to the union of both, and from there to the new
    one. Any mixture then has all of the old index or all of the new one, and names only packages that are there.
    Entries of run_exports.json leave with a later step only: a build that took the old index asks for them afterwards.
    ``noarch`` comes first, and within a subdir run_exports.json before the repodata that need it; repodata.json, which
    every client can read, is last.

    Args:
        old: What readers see now, as far as it may be used.
        new: What they shall see; its run exports have those of `old`.
        channel: The channel; all packages of both are there.
    """
    union = new | old
    subdirs = sorted({*union.records, NOARCH}, key=lambda subdir: (subdir != NOARCH, subdir))
    for subdir in subdirs:
        write_index(union, channel, subdir, FILES)
    for subdir in subdirs:
        if union.records.get(subdir) != new.records.get(subdir):
            write_index(new, channel, subdir, (COMPRESSED, REPODATA))
