"""The index of a channel: as data, and as the files that clients read.

`ctk.package.records` reads repodata alone, for rooms that need no other index file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack
import zstandard

from ctk.core.errors import ChannelBroken, ChannelMissing, PublishFailed
from ctk.core.files import disk_errors, make_folder, replace_file
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.package.records import REMAKE, REPODATA, entries, records

COMPRESSED, RUN_EXPORTS = "repodata.json.zst", "run_exports.json"
SHARDED, SHARDS = "repodata_shards.msgpack.zst", "shards"
"""The sharded index of a subdir (CEP 16), and the folder beside it with a shard for each package name."""
SHARD = re.compile(r"[0-9a-f]{64}\.msgpack\.zst")
FILES = (RUN_EXPORTS, SHARDED, COMPRESSED, REPODATA)
STATED = (RUN_EXPORTS, REPODATA)
"""The index files from which the others follow; a state in a history has only these."""
TIME = "indexed_timestamp"
"""Key of a record: the time at which the package was first indexed, in milliseconds since 1970 (CEP 47)."""
FIRST = 1_325_376_000_000  # 2012, the first year of conda, in milliseconds: no package is older
_DIGESTS = ("md5", "sha256")  # bytes in a shard, and hexadecimal in repodata
_MAX_UNPACKED = 16 << 20  # bytes of an unpacked file of a sharded index; conda-forge's have a tenth of that
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
        return replace(self, records={name: record for name, record in self.records.items() if name not in names})

    def times(self) -> dict[str, str]:
        """``subdir/file`` -> when it came into the index first, where its record says so (CEP 47), as ISO 8601."""
        known = {name: record[TIME] / 1000 for name, record in self.records.items() if record.get(TIME)}
        return {n: datetime.fromtimestamp(t, UTC).isoformat(timespec="milliseconds") for n, t in known.items()}

    def dated(self, times: Mapping[str, str]) -> ChannelIndex:
        """The index with the times of publication in `times`; records of other packages stay."""
        dated = {n: {**self.records[n], TIME: milliseconds(times[n])} for n in self.records.keys() & times.keys()}
        return replace(self, records={**self.records, **dated})

    def undated(self) -> dict[str, dict[str, Any]]:
        """The records without times of publication, which differ between indexes of the same state."""
        return {name: {k: v for k, v in record.items() if k != TIME} for name, record in self.records.items()}

    def __or__(self, newer: ChannelIndex) -> ChannelIndex:
        """The union; `self` wins, since its records may name attestations that the other index lacks."""
        exports = {**newer.run_exports, **self.run_exports}
        return ChannelIndex({**newer.records, **self.records}, exports, self.subdirs | newer.subdirs)

    def __len__(self) -> int:
        return len(self.records)


def made_at(record: Mapping[str, Any]) -> int:
    """The timestamp of a record in milliseconds since 1970; `FIRST` if it has none or an older one."""
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
    run_exports = {name: entry for folder in folders for name, entry in entries(folder / RUN_EXPORTS).items()}
    for name, record in found.items():
        try:
            record["name"], bytes.fromhex(record["sha256"] + record.get("md5", ""))
        except (ValueError, KeyError, TypeError):
            raise ChannelBroken(f"the index of {channel} has no name or no hash of {name}", REMAKE) from None
    return ChannelIndex(found, run_exports, frozenset(folder.name for folder in folders))


def write_index(index: ChannelIndex, channel: Path, subdir: str, files: Iterable[str]) -> None:
    """Writes index files of a subdir, in the given order, each with one rename.

    Shards are written before the sharded index; an existing shard stays, since its name is its hash.
    """
    for name in files:
        for file, content in _contents(index, subdir, name).items():
            path = channel / subdir / file
            if not SHARD.fullmatch(path.name) or not _has(path, content):
                make_folder(path.parent)
                replace_file(path, content)


def shows(channel: Path, index: ChannelIndex) -> bool:
    """Whether the index files of a channel, including shards, are exactly those of `index`."""
    files = ((subdir, name) for subdir in index.subdirs for name in FILES)
    return all(_has(channel / s / f, c) for s, name in files for f, c in _contents(index, s, name).items())


def _has(file: Path, content: bytes) -> bool:
    return file.is_file() and file.read_bytes() == content


def _contents(index: ChannelIndex, subdir: str, name: str) -> dict[str, bytes]:
    """Path below the subdir -> content of an index file and, before it, the shards that it names."""
    return _sharded(index, subdir) if name == SHARDED else {name: _content(index, subdir, name)}


def _sharded(index: ChannelIndex, subdir: str) -> dict[str, bytes]:
    # rattler's own writer reads the packages again, and writes the current time into records and index.
    contents = {name: _packed(shard) for name, shard in sorted(shards_of(index.records, subdir).items())}
    digests = {name: hashlib.sha256(content) for name, content in contents.items()}
    files = {f"{SHARDS}/{digest.hexdigest()}.msgpack.zst": contents[name] for name, digest in digests.items()}
    content = {**about(subdir), "shards": {name: digest.digest() for name, digest in digests.items()}}
    return {**files, SHARDED: _packed(content)}


def shards_of(records: Records, subdir: str) -> dict[str, dict[str, Any]]:
    """Package name -> content of its shard, for a subdir."""
    shards: dict[str, dict[str, Any]] = {}
    for file, record in sorted(_of_subdir(records, subdir).items()):
        shard = shards.setdefault(record["name"], {"packages": {}, "packages.conda": {}, "removed": []})
        shard["packages.conda" if file.endswith(".conda") else "packages"][file] = _in_shard(record)
    return shards


def about(subdir: str) -> dict[str, Any]:
    """The fields of a sharded index besides its shards, without the time `created_at`, which no client needs."""
    # rattler and conda require both URLs; packages are relative to the subdir.
    return {"version": 1, "info": {"base_url": "", "shards_base_url": f"./{SHARDS}/", "subdir": subdir}}


def _in_shard(record: Mapping[str, Any]) -> dict[str, Any]:
    ordered = json.loads(json.dumps(record, sort_keys=True))
    return {key: bytes.fromhex(value) if key in _DIGESTS else value for key, value in ordered.items()}


def _packed(content: Mapping[str, Any]) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(msgpack.packb(content))


def unpacked(file: Path) -> Any:
    """The content of a shard or a sharded index.

    Raises:
        ValueError: The file is damaged, or too large.
        OSError: The file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            text = zstandard.ZstdDecompressor().stream_reader(stream).read(_MAX_UNPACKED + 1)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if len(text) > _MAX_UNPACKED:
        raise ValueError(f"it unpacks to more than {_MAX_UNPACKED} bytes")
    return msgpack.unpackb(text)


def named_shards(folder: Path) -> dict[str, str]:
    """Package name -> path of its shard below the subdir's folder; empty if the sharded index cannot be read."""
    try:
        digests = unpacked(folder / SHARDED)["shards"].items()
        named = {name: f"{digest.hex()}.msgpack.zst" for name, digest in digests if isinstance(name, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {name: f"{SHARDS}/{file}" for name, file in named.items() if SHARD.fullmatch(file)}


def unnamed_shards(channel: Path) -> set[str]:
    """``subdir/shards/file`` of each shard that no sharded index of the channel names."""
    found: set[str] = set()
    for folder in (channel / subdir for subdir in (*PLATFORMS, NOARCH)):
        files = {f"{SHARDS}/{f.name}" for f in (folder / SHARDS).glob("*") if SHARD.fullmatch(f.name) and f.is_file()}
        found |= {f"{folder.name}/{file}" for file in files.difference(named_shards(folder).values())}
    return found


def _content(index: ChannelIndex, subdir: str, name: str) -> bytes:
    is_exports = name == RUN_EXPORTS
    content: dict[str, Any] = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": {}}
    for file, entry in _of_subdir(index.run_exports if is_exports else index.records, subdir).items():
        content["packages.conda" if file.endswith(".conda") else "packages"][file] = entry
    if is_exports:
        content["info"]["version"] = 1
    else:
        content |= {"repodata_version": 1, "v3": {}}
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return zstandard.ZstdCompressor(level=19).compress(text) if name == COMPRESSED else text


def _of_subdir(entries: Records, subdir: str) -> dict[str, Any]:
    return {name.partition("/")[2]: entry for name, entry in entries.items() if name.startswith(f"{subdir}/")}


def put_in_place(old: ChannelIndex, new: ChannelIndex, channel: Path) -> None:
    """Replaces the index files of a channel, so that readers see a consistent index at any moment.

    Only single files can be replaced atomically, and a reader may combine the old file of one subdir with the new file
    of another. So packages leave the index in two steps: first to the union of both indexes, then to the new index. Any
    mixture then contains all of the old index or all of the new index, and names only packages that exist.
    Entries of run_exports.json stay, since a build that has read the old index asks for them later. ``noarch`` is
    written first; in a subdir, run_exports.json before the repodata that needs it, and shards before the index that
    names them; repodata.json, which every client can read, is last. Old shards stay.

    The folder has the packages of both indexes, and the run exports of `new` include those of `old`.
    """
    union = new | old
    subdirs = sorted({*union.subdirs, NOARCH}, key=lambda subdir: (subdir != NOARCH, subdir))
    for subdir in subdirs:
        write_index(union, channel, subdir, FILES)
    for subdir in subdirs:
        if _of_subdir(union.records, subdir) != _of_subdir(new.records, subdir):
            write_index(new, channel, subdir, (SHARDED, COMPRESSED, REPODATA))


def add(source: Path, channel: Path) -> None:
    """Adds the packages of one channel folder to another, replacing packages of the same file name."""
    found = read_index(source)
    exports = {name: {"run_exports": record.get("run_exports", {})} for name, record in found.records.items()}
    with disk_errors(channel):
        for name in found.records:
            make_folder((channel / name).parent)
            shutil.copyfile(source / name, channel / name)
        old = read_index(channel)
        new = replace(found, run_exports=exports)
        put_in_place(old, new | old, channel)
        for name in unnamed_shards(channel):
            (channel / name).unlink()


def in_order(channel: Path) -> list[Path]:
    """The packages of a channel folder, each after its dependencies; packages in a cycle are sorted by name.

    Raises:
        ChannelMissing: The folder does not exist.
        PublishFailed: It is not a channel, or has no packages.
    """
    if not channel.is_dir():
        raise ChannelMissing.of(channel)
    needs: dict[str, list[str]] = {}
    providers: dict[str, list[str]] = {}
    for file, record in sorted(read_index(channel).records.items()):
        needs[file] = [spec.split()[0] for spec in record["depends"]]
        providers.setdefault(record["name"], []).append(file)
    if not needs:
        raise PublishFailed(f"there is no channel with packages in {channel}", "run `ctk build` first")
    done: dict[str, None] = {}
    entered: set[str] = set()
    stack = sorted(needs, reverse=True)
    while stack:  # depth first, without recursion: a cycle may have thousands of files
        file = stack[-1]
        needed = [] if file in entered else [other for name in needs[file] for other in providers.get(name, [])]
        entered.add(file)
        if fresh := [other for other in needed if other not in entered]:
            stack += reversed(fresh)
        else:
            done.setdefault(stack.pop())
    return [channel / file for file in done]
