"""The files of a package compared with those of its wheels: as published, or changed, and why.

And their licences.
"""

from __future__ import annotations

import base64
import csv
import io
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from ctk.build import bundled
from ctk.build.bundled import Bundled
from ctk.index.inside import members
from ctk.lock.model import Artefact
from ctk.lock.redistribution import NVIDIA_INSIDE, Reading, Readings, Word, reading_of, text_key
from ctk.lock.wheels import licence_in

_OWN_TEXT = re.compile(r"licen[cs]e(\.(txt|md|rst))?", re.I)
UNREAD = "unread-text"
"""The name by which an SBOM has `PackageFiles.unread`."""
EDITED = "edited"
"""Why a file that is not an ELF file is changed: the recipe's script wrote other text into it."""


@dataclass(frozen=True)
class Changed:
    """A file that is not as its wheel has it."""

    path: str
    why: str  # it is not
    sha256: str  # in the package
    word: Word  # what its licence text says of it


@dataclass(frozen=True)
class PackageFiles:
    """The files of a package that come from wheels.

    Attributes:
        published: How many have the sha256 that a wheel's RECORD states.
        licences: The kinds of their licence texts.
        words: Number of files by what their licence text says of distribution.
        not_named: Those whose distribution no text allows by a name or a clause.
        unread: The keys of their licence texts that nobody has read.
        bundled: Libraries of other projects among them.
    """

    published: int = 0
    changed: tuple[Changed, ...] = ()
    licences: tuple[str, ...] = ()
    words: Mapping[Word, int] = field(default_factory=dict)
    not_named: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    bundled: tuple[Bundled, ...] = ()


NO_FILES = PackageFiles()


@dataclass(frozen=True)
class Wheel:
    """A wheel.

    Attributes:
        members: Name -> sha256, by its RECORD.
        readings: Name of a folder with a licence text of its own -> the reading of this; "" for all
            other files. The text in ``cccl`` is for ``include/cccl`` too.
        distribution: Its name.
        bundled: Name of a member -> the library of another project that it is.
    """

    subdir: str
    members: Mapping[str, str]
    readings: Mapping[str, Reading]
    distribution: str = ""
    bundled: Mapping[str, Bundled] = field(default_factory=dict)

    @property
    def unread(self) -> set[str]:
        """The keys of its licence texts that nobody has read."""
        return {reading.unread for reading in self.readings.values()} - {""}

    def reading(self, member: str) -> Reading:
        """That of the nearest folder above a member that has one.

        None for a file of NVIDIA in a wheel of others.
        """
        of_nvidia = NVIDIA_INSIDE.get(self.distribution)
        if of_nvidia and of_nvidia.match(member):
            return Reading("not known")
        folders = member.split("/")[:-1]
        for folder in reversed(folders):
            if folder in self.readings:
                return self.readings[folder]
        return self.readings[""]


def read_wheel(artefact: Artefact, path: Path, known: Readings) -> Wheel:
    """The RECORD and the licence texts of an artefact; without members, if it is not a wheel.

    A text below ``.dist-info`` is part of the wheel's whole text, and needs no reading of its own.
    """
    if not artefact.file.endswith(".whl"):
        return Wheel(artefact.subdir, {}, {})
    with path.open("rb") as stream:
        whole = licence_in(stream, artefact.file)
        readings = {"": reading_of(whole.text or whole.declared, known)}
        record = ""
        with members(stream, artefact.file) as found:
            libraries = bundled.find(found)
            for member in found:
                folder, name = posixpath.split(member.name)
                if folder.endswith(".dist-info"):
                    if name == "RECORD":
                        record = member.content().decode()
                elif _OWN_TEXT.fullmatch(name):
                    key = text_key(member.content())
                    if key in known or ".dist-info/" not in folder:
                        readings[posixpath.basename(folder)] = reading_of(key, known)
    rows = (row for row in csv.reader(io.StringIO(record)) if row[1].startswith("sha256="))
    hashes = {row[0]: _sha256(row[1]) for row in rows}
    return Wheel(artefact.subdir, hashes, readings, artefact.distribution, libraries)


def _sha256(stated: str) -> str:
    return base64.urlsafe_b64decode(stated.removeprefix("sha256=") + "=").hex()


def compare(
    entries: Iterable[Mapping[str, Any]], wheels: Sequence[Wheel], edits: Mapping[str, str]
) -> PackageFiles:
    """Compares the entries of a package's paths.json with wheels.

    `edits` has what patchelf changed, by path. A file of another sha256 with a name of a wheel's
    member is that member, changed: libraries get their full version, so names are compared up to
    ``.so``. If several have the name, it is the one with the most folders in common, and must have
    one. Other files are the recipe's own.
    """
    known: dict[str, list[_Member]] = defaultdict(list)
    by_name: dict[str, list[_Member]] = defaultdict(list)
    for wheel in wheels:
        for member, sha256 in wheel.members.items():
            known[sha256].append((wheel, member))
            by_name[_stem(member)].append((wheel, member))
    files = [entry for entry in entries if entry["path_type"] == "hardlink"]
    changed: list[Changed] = []
    readings: list[Reading] = []
    words: dict[str, Word] = {}
    libraries: list[Bundled] = []
    for entry in sorted(files, key=lambda entry: entry["_path"]):
        path, sha256 = entry["_path"], entry["sha256"]
        same = _nearest(path, known.get(sha256, ()), 0)
        origin = same or _nearest(path, by_name.get(_stem(path), ()), 1)
        if origin is None:
            continue
        wheel, member = origin
        if member in wheel.bundled:
            libraries.append(replace(wheel.bundled[member], path=path))
        reading = wheel.reading(member)
        readings.append(reading)
        words[path] = reading.of(path, wheel.subdir, sha256 in known)
        if sha256 not in known:
            changed.append(Changed(path, edits.get(path, EDITED), sha256, words[path]))
    return PackageFiles(
        published=len(words) - len(changed),
        changed=tuple(changed),
        licences=tuple(sorted({reading.kind for reading in readings})),
        words=dict(sorted(Counter(words.values()).items())),
        not_named=tuple(path for path, word in words.items() if word == "not-named"),
        unread=tuple(sorted({reading.unread for reading in readings} - {""})),
        bundled=tuple(libraries),
    )


_Member = tuple[Wheel, str]


def _nearest(path: str, members: Sequence[_Member], least: int) -> _Member | None:
    """The member with the most folders above its name in common.

    Of several, it must have so many.
    """

    def common(member: _Member) -> int:
        pairs = zip(path.split("/")[-2::-1], member[1].split("/")[-2::-1], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    best = max(members, key=common, default=None)
    if best is None or len(members) == 1 or common(best) >= least:
        return best
    return None


def _stem(path: str) -> str:
    """``libcudart.so`` of ``lib/libcudart.so.13.4.92``."""
    name, so, _ = posixpath.basename(path).partition(".so")
    return name + so
