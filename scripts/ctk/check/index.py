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

from ctk.check.problem import Problem
from ctk.platforms import NOARCH
from ctk.publishing.attesting import SIDECAR
from ctk.publishing.cleaning import HISTORY, UNUSED, times
from ctk.publishing.index_files import COMPRESSED, FILES, REPODATA, RUN_EXPORTS, TIME, milliseconds

_LARGEST = 1 << 30  # bytes; no index is as large
_SIDECAR = re.compile(rf"(.+\.conda){re.escape(SIDECAR)}(\.[0-9a-f]{{64}})?")
_SECTIONS = ("packages", "packages.conda")


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
        if content.get("info", {}).get("subdir") != self._folder.name:
            self._note(name, f"is about {content.get('info', {}).get('subdir')!r}, not this subdir")
        found = {}
        for section in _SECTIONS:
            for file, value in content.get(section, {}).items():
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
            content = json.loads(path.read_bytes())
            parts = [content, content.get("info", {}), *(content.get(section, {}) for section in _SECTIONS)]
            if not all(isinstance(part, dict) for part in parts):
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
            if found != wanted:
                self._note(COMPRESSED, f"does not unpack to {REPODATA}")
        except FileNotFoundError:
            self._note(COMPRESSED, "is not there")
        except (zstandard.ZstdError, OSError) as error:
            self._note(COMPRESSED, f"cannot be read: {error}")

    def _note(self, name: str, what: str) -> None:
        self.problems.append(Problem(f"{self._folder.name}/{name}", "index", what))


def _times(channel: Path, records: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Times of publication (CEP 47) that are none, or not what the history of a published folder says."""
    noted = times(channel)
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
    found: set[str] = set()
    for file in (channel / HISTORY).glob(f"*/*/{REPODATA}"):
        try:
            content = json.loads(file.read_bytes())
            found |= {f"{file.parent.name}/{name}" for section in _SECTIONS for name in content.get(section, {})}
        except (ValueError, AttributeError, OSError):
            continue
    with suppress(ValueError, TypeError, OSError):
        found |= set(json.loads((channel / HISTORY / UNUSED).read_bytes()))
    return found
