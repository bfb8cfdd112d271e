"""The index files of a channel: readable, equal to each other, and about the files that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from ctk.channel.check_package import differences
from ctk.channel.history import STATES
from ctk.channel.publish import HISTORY, SIDECAR, TIMES, UNUSED, Folder, moments
from ctk.channel.repodata import (
    COMPRESSED,
    FILES,
    RUN_EXPORTS,
    SHARDED,
    SHARDS,
    TIME,
    ChannelIndex,
    Records,
    about,
    milliseconds,
    named_shards,
    shards_of,
    unpacked,
)
from ctk.core.errors import ChannelBroken
from ctk.core.files import file_sha256
from ctk.core.platforms import NOARCH
from ctk.package.records import REPODATA
from ctk.rules import Finding, check

_SIDECAR = re.compile(rf"(.+\.conda){re.escape(SIDECAR)}(\.[0-9a-f]{{64}})?")
_SECTION = "packages.conda"


@dataclass
class IndexFiles:
    """The index of a channel as far as it can be read: entries by ``subdir/file``, and what is wrong."""

    channel: Path
    subdirs: list[Path] = field(init=False)
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    run_exports: dict[str, Any] = field(default_factory=dict)
    faults: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.subdirs = [p for p in sorted(self.channel.iterdir()) if p.is_dir() and not p.name.startswith(".")]
        for folder in self.subdirs:
            empty = {"packages": {}, "repodata_version": 1, "removed": [], "v3": {}}
            self._read(folder / REPODATA, {}, empty, self.records)
            self._read(folder / RUN_EXPORTS, {"version": 1}, {"packages": {}}, self.run_exports)

    def _read(self, file: Path, about: Mapping[str, Any], empty: Mapping[str, Any], entries: dict[str, Any]) -> None:
        """Reads an index file, whose ``info`` and other keys have to be as stated, into the entries."""
        subdir, faults = file.parent.name, []
        try:
            content = json.loads(file.read_bytes())
            info, packages = content.pop("info", None), content.pop(_SECTION, None)
            if not isinstance(info, dict) or not isinstance(packages, dict):
                raise ValueError("is not shaped like an index")
            for key, said, wanted in (*differences(info, {"subdir": subdir, **about}), *differences(content, empty)):
                faults.append(f"has {said} as {key}, and should have {wanted}")
            for name, value in packages.items():
                if not isinstance(value, dict) or "/" in name or not name.endswith(".conda"):
                    faults.append(f"has an entry for {name!r} that cannot be read")
                else:
                    entries[f"{subdir}/{name}"] = value
        except FileNotFoundError:
            faults.append("is not there")
        except PermissionError:  # of what may be sound
            raise
        except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
            faults.append(f"cannot be read: {type(error).__name__}: {error}")
        self.faults += [Finding(f"{subdir}/{file.name}", fault) for fault in faults]


@check(IndexFiles, "index")
def IndexIsConsistent(index: IndexFiles) -> Iterator[Finding]:
    """The index files can be read by every client, say the same, and are those of the state in the history."""
    yield from index.faults
    for folder in index.subdirs:
        if not (folder / REPODATA).is_file():
            continue  # it is said already, and the other forms have nothing to be compared with
        if message := _compressed(folder):
            yield Finding(f"{folder.name}/{COMPRESSED}", message)
        for file, message in _sharded(folder, index.records):
            yield Finding(f"{folder.name}/{file}", f"{message}; publish or build the channel again")
    if not any(folder.name == NOARCH for folder in index.subdirs):
        yield Finding(f"{NOARCH}/{REPODATA}", "is not there; clients refuse a channel without it")
    yield from _times(index)
    yield from _history(index)


def _compressed(folder: Path) -> str:
    """What is wrong with the compressed repodata of a subdir, "" for nothing."""
    plain, packed = folder / REPODATA, folder / COMPRESSED
    try:
        wanted = plain.read_bytes()
        with packed.open("rb") as stream:
            # One byte more than there should be is enough to see that they differ, whatever it unpacks to.
            found = zstandard.ZstdDecompressor().stream_reader(stream).read(len(wanted) + 1)
    except (zstandard.ZstdError, OSError) as error:
        return f"cannot be read: {_why(error)}"
    return "" if found == wanted else f"does not unpack to {REPODATA}"


def _sharded(folder: Path, records: Records) -> Iterator[tuple[str, str]]:
    """Files of the sharded index of a subdir, and in what they are not what repodata.json says."""
    try:
        wanted, index = shards_of(records, folder.name), unpacked(folder / SHARDED)
        named = index.pop("shards").keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield SHARDED, f"cannot be compared with {REPODATA}: {_why(error)}"
        return
    if index != about(folder.name):
        yield SHARDED, f"says {index} of itself, and should say {about(folder.name)}"
    if differing := named ^ wanted.keys():
        yield SHARDED, f"is not about the same packages as {REPODATA}: {', '.join(sorted(map(str, differing)))}"
    for name, file in named_shards(folder).items():
        try:
            if file_sha256(folder / file) != Path(file).name.partition(".")[0]:
                yield file, f"has another sha256 than its name says, which {SHARDED} has for {name}"
            if name in wanted and unpacked(folder / file) != wanted[name]:
                yield file, f"does not say of {name} what {REPODATA} says"
        except (OSError, ValueError) as error:
            yield file, f"cannot be read: {_why(error)}"


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def _times(index: IndexFiles) -> Iterator[Finding]:
    """Times of publication (CEP 47) that are none, or not what the history of a published folder says."""
    noted = moments(index.channel / HISTORY / TIMES)
    for name, record in index.records.items():
        stated, made = record.get(TIME), record.get("timestamp")
        if stated is not None and type(stated) is not int:
            yield Finding(name, f"its {TIME} is {stated!r}, and no number of milliseconds")
        elif name in noted and stated != milliseconds(noted[name]):
            said = "has no" if stated is None else f"says {stated} as its"
            yield Finding(name, f"repodata {said} {TIME}, and it was published first at {noted[name]}")
        elif stated is not None and type(made) is int and stated < made:
            yield Finding(name, f"its {TIME} is {stated}, before the package was made ({made})")


def _history(index: IndexFiles) -> Iterator[Finding]:
    """An index of a published folder that is not that of the state which its history says is shown."""
    file, channel = f"{HISTORY}/{STATES}", index.channel
    if not (channel / HISTORY).is_dir():
        return
    if not (channel / file).is_file():
        yield Finding(file, "is not there; publish again")
        return
    try:
        folder = Folder(channel, channel)
        state = folder.history().shown
        wanted = folder.state_index(state).undated() if state else {}
    except ChannelBroken as error:
        yield Finding(file, f"{error.cause}; {error.step}")
        return
    seen = ChannelIndex(index.records).undated()
    differing = {name.partition("/")[0] for name in seen.keys() | wanted.keys() if seen.get(name) != wanted.get(name)}
    number = state.number if state else "none"
    for subdir in sorted(differing):
        message = f"is not that of state {number}, which {file} says is shown: an older one, or a run was killed"
        yield Finding(f"{subdir}/{REPODATA}", f"{message}; publish again")


@check(IndexFiles, "orphan")
def Orphans(index: IndexFiles) -> Iterator[Finding]:
    """The index explains each file, and each entry of run_exports.json has a package."""
    channel, waiting = index.channel, _waiting(index.channel)
    leftovers = {*Folder(channel, channel).leftovers()}
    for name in sorted(index.run_exports.keys() - index.records.keys()):
        if not (channel / name).is_file():
            yield Finding(name, f"{RUN_EXPORTS} names it, and there is no such package")
    for path in sorted(channel.iterdir()):
        if not path.is_dir() or (path.name.startswith(".") and path.name != HISTORY):
            yield Finding(path.name, "no channel of ours has it")
    known = {*index.records, *waiting, *(f"{f.name}/{name}" for f in index.subdirs for name in (*FILES, SHARDS))}
    known |= {f"{folder.name}/{name}" for folder in index.subdirs for name in named_shards(folder).values()}
    # Of what an unreadable index names, each would be a line: that it cannot be read is one already.
    readable = [folder / SHARDS for folder in index.subdirs if named_shards(folder)]
    places = [place for place in (*index.subdirs, *readable) if place.is_dir()]
    for path in (path for place in places for path in sorted(place.iterdir())):
        name, sidecar = path.relative_to(channel).as_posix(), _SIDECAR.fullmatch(path.name)
        if path in leftovers:
            yield Finding(name, "a killed run left it; the next one removes it")
        elif sidecar:
            if not (path.parent / sidecar[1]).is_file():
                yield Finding(name, "the package that it attests is not there")
        elif name not in known:
            yield Finding(name, "the index does not name it")


def _waiting(channel: Path) -> set[str]:
    """Packages of a published folder that left its index and stay for a while: its history names them."""
    folder = Folder(channel, channel)
    waiting = set(moments(folder.notes / UNUSED))
    with suppress(ChannelBroken):
        for state in folder.history().states:
            waiting |= folder.state_index(state).names().keys()
    return waiting
