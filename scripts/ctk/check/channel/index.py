"""The index files of a channel: readable, equal to each other, and about the files that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from ctk.channel.attesting import SIDECAR
from ctk.channel.cleaning import HISTORY, STATES, TIMES, UNUSED, moments, read_state
from ctk.channel.folder import Folder
from ctk.channel.index_files import COMPRESSED, FILES, REPODATA, RUN_EXPORTS, TIME, milliseconds
from ctk.check.channel.archive import is_one_frame
from ctk.check.channel.problem import Problem
from ctk.check.channel.strict import differences, loads
from ctk.core.errors import ChannelBroken
from ctk.core.platforms import NOARCH

_LARGEST = 1 << 30  # bytes; no index is as large
_SIDECAR = re.compile(rf"(.+\.conda){re.escape(SIDECAR)}(\.[0-9a-f]{{64}})?")
_SECTION = "packages.conda"


@dataclass(frozen=True)
class Seen:
    """The index of one channel as far as it can be read.

    Attributes:
        records: ``subdir/file`` -> what repodata says of the package.
        run_exports: The same of run_exports.json.
    """

    records: Mapping[str, Mapping[str, Any]]
    run_exports: Mapping[str, Any]
    problems: tuple[Problem, ...] = field(repr=False, default=())


def look(channel: Path) -> Seen:
    """Reads the index files of a channel and holds them to each other and to the files beside them."""
    records: dict[str, Mapping[str, Any]] = {}
    exports: dict[str, Any] = {}
    problems: list[Problem] = []
    subdirs = [p for p in sorted(channel.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    for folder in subdirs:
        reader = _Reader(folder)
        records |= reader.packages(REPODATA)
        exports |= reader.packages(RUN_EXPORTS)
        reader.compare_compressed()
        problems += reader.problems
    if not any(folder.name == NOARCH for folder in subdirs):
        problems.append(Problem(f"{NOARCH}/{REPODATA}", "index", "is not there; clients refuse a channel without it"))
    problems += _times(channel, records)
    problems += _strays(channel, subdirs, records, exports)
    problems += _history(channel, records)
    return Seen(records, exports, tuple(problems))


class _Reader:
    """Reads the index files of one subdir and notes what is wrong with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.problems: list[Problem] = []

    def packages(self, name: str) -> dict[str, Any]:
        content = self._json(name)
        if content is None:
            return {}
        records = content.pop(_SECTION, {})
        about = {"subdir": self._folder.name, **({"version": 1} if name == RUN_EXPORTS else {})}
        empty = {"packages": {}, **({"repodata_version": 1, "removed": [], "v3": {}} if name == REPODATA else {})}
        for key, said, wanted in (*differences(content.pop("info", {}), about), *differences(content, empty)):
            self._note(name, f"has {said} as {key}, and should have {wanted}")
        found = {}
        for file, value in records.items():
            if not isinstance(value, dict) or "/" in file:
                self._note(name, f"has an entry for {file!r} that cannot be read")
            else:
                found[f"{self._folder.name}/{file}"] = value
        return found

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            path = self._folder / name
            if path.stat().st_size > _LARGEST:
                raise ValueError(f"has {path.stat().st_size} bytes")
            content = loads(path.read_bytes())
            if not all(isinstance(part, dict) for part in (content, content.get("info"), content.get(_SECTION))):
                raise ValueError("is not shaped like an index")
            return dict(content)
        except FileNotFoundError:
            self._note(name, "is not there")
        except (ValueError, AttributeError, RecursionError, OSError) as error:
            self._note(name, f"cannot be read: {type(error).__name__}: {error}")
        return None

    def compare_compressed(self) -> None:
        plain, packed = self._folder / REPODATA, self._folder / COMPRESSED
        if not plain.is_file():
            return
        try:
            wanted = plain.read_bytes()
            with packed.open("rb") as stream:
                # One byte more than there should be is enough to see that they differ, whatever it unpacks to.
                found = zstandard.ZstdDecompressor().stream_reader(stream).read(len(wanted) + 1)
                whole = is_one_frame(stream, 0, packed.stat().st_size)
            if found != wanted:
                self._note(COMPRESSED, f"does not unpack to {REPODATA}")
            elif not whole:
                self._note(COMPRESSED, "is something else than one frame of zstd")
        except FileNotFoundError:
            self._note(COMPRESSED, "is not there")
        except (zstandard.ZstdError, OSError) as error:
            self._note(COMPRESSED, f"cannot be read: {error}")

    def _note(self, name: str, what: str) -> None:
        self.problems.append(Problem(f"{self._folder.name}/{name}", "index", what))


def _times(channel: Path, records: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Times of publication (CEP 47) that are none, or not what the history of a published folder says."""
    noted = moments(channel / HISTORY / TIMES)
    for name, record in records.items():
        stated, made = record.get(TIME), record.get("timestamp")
        if stated is not None and type(stated) is not int:
            yield Problem(name, "index", f"its {TIME} is {stated!r}, and no number of milliseconds")
        elif name in noted and stated != milliseconds(noted[name]):
            said = "has no" if stated is None else f"says {stated} as its"
            yield Problem(name, "index", f"repodata {said} {TIME}, and it was published first at {noted[name]}")
        elif stated is not None and type(made) is int and stated < made:
            yield Problem(name, "index", f"its {TIME} is {stated}, before the package was made ({made})")


def _strays(
    channel: Path, subdirs: list[Path], records: Mapping[str, Any], exports: Mapping[str, Any]
) -> Iterator[Problem]:
    """Files that the index does not explain, and entries without a file."""
    waiting = _waiting(channel)
    for name in sorted(exports.keys() - records.keys()):
        if not (channel / name).is_file():
            yield Problem(name, "orphan", f"{RUN_EXPORTS} names it, and there is no such package")
    for path in sorted(channel.iterdir()):
        if not path.is_dir() or (path.name.startswith(".") and path.name != HISTORY):
            yield Problem(path.name, "orphan", "no channel of ours has it")
    for folder in subdirs:
        for path in sorted(folder.iterdir()):
            name = f"{folder.name}/{path.name}"
            sidecar = _SIDECAR.fullmatch(path.name)
            if path.name.startswith("."):
                yield Problem(name, "orphan", "a killed run left it; the next one removes it")
            elif sidecar and (folder / sidecar[1]).is_file():
                continue
            elif sidecar:
                yield Problem(name, "orphan", "the package that it attests is not there")
            elif path.name not in FILES and name not in records and name not in waiting:
                yield Problem(name, "orphan", "the index does not name it")


def _waiting(channel: Path) -> set[str]:
    """Packages of a published folder that left its index and stay for a while: its history names them."""
    found = set(moments(channel / HISTORY / UNUSED))
    with suppress(ChannelBroken):
        for state in Folder(channel, channel).history().states:
            found |= read_state(channel, state).names().keys()
    return found


def _history(channel: Path, records: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """An index of a published folder that is not that of the state which its history says is shown."""
    file = f"{HISTORY}/{STATES}"
    if not (channel / HISTORY).is_dir():
        return
    if not (channel / file).is_file():
        yield Problem(file, "index", "is not there; publish again, which lists the states anew")
        return
    try:
        state = Folder(channel, channel).history().shown
        wanted = read_state(channel, state).undated() if state else {}
    except ChannelBroken as error:
        yield Problem(file, "index", f"{error.cause}; {error.step}")
        return
    seen: dict[str, dict[str, Any]] = {}
    for name, record in records.items():
        subdir, _, package = name.partition("/")
        seen.setdefault(subdir, {})[package] = {key: value for key, value in record.items() if key != TIME}
    for subdir in sorted(seen.keys() | wanted.keys()):
        if seen.get(subdir) != wanted.get(subdir):
            number = state.number if state else "none"
            what = f"is not that of state {number}, which {file} says is shown: an older one, or a run was killed"
            yield Problem(f"{subdir}/{REPODATA}", "index", f"{what}; publish again")
