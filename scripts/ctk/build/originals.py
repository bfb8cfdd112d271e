"""The files of a package compared with those of its wheels: as published, or changed, and why; and their licences."""

from __future__ import annotations

import base64
import csv
import io
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctk.index.inside import members
from ctk.lock.model import Artefact
from ctk.lock.redistribution import Reading, Word, read_text
from ctk.lock.wheels import licence_in

_OWN_TEXT = re.compile(r"licen[cs]e(\.(txt|md|rst))?", re.I)
EDITED = "edited"
"""Why a file that is no ELF file is changed: the recipe's script wrote other text into it."""


@dataclass(frozen=True)
class Changed:
    """A file that is not as its wheel has it: why not, its sha256 in the package, what its licence text says of it."""

    path: str
    why: str
    sha256: str
    word: Word


@dataclass(frozen=True)
class PackageFiles:
    """The files of a package that come from wheels.

    Attributes:
        published: How many have the sha256 that a wheel's RECORD states.
        licences: The kinds of their licence texts.
        words: Number of files by what their licence text says of distribution.
        not_named: Those whose distribution no text allows by a name or a clause.
    """

    published: int = 0
    changed: tuple[Changed, ...] = ()
    licences: tuple[str, ...] = ()
    words: Mapping[Word, int] = field(default_factory=dict)
    not_named: tuple[str, ...] = ()


NO_FILES = PackageFiles()


@dataclass(frozen=True)
class Wheel:
    """A wheel.

    Attributes:
        members: sha256 -> name, by its RECORD.
        readings: Name of a folder with a licence text of its own -> the reading of this; "" for all other files. The
            text in ``cccl`` is for ``include/cccl`` too.
    """

    subdir: str
    members: Mapping[str, str]
    readings: Mapping[str, Reading]

    def reading(self, member: str) -> Reading:
        """That of the nearest folder above a member that has one."""
        return next(self.readings[f] for f in (*reversed(member.split("/")[:-1]), "") if f in self.readings)


def read_wheel(artefact: Artefact, path: Path) -> Wheel:
    """The RECORD and the licence texts of an artefact; without members, if it is no wheel."""
    if not artefact.file.endswith(".whl"):
        return Wheel(artefact.subdir, {}, {})
    with path.open("rb") as stream:
        whole = licence_in(stream, artefact.file)
        readings, record = {"": read_text(whole.content, whole.declared)}, ""
        with members(stream, artefact.file) as found:
            for member in found:
                folder, name = posixpath.split(member.name)
                if folder.endswith(".dist-info"):
                    record = member.content().decode() if name == "RECORD" else record
                elif _OWN_TEXT.fullmatch(name):
                    readings[posixpath.basename(folder)] = read_text(member.content().decode("utf-8", "replace"))
    rows = (row for row in csv.reader(io.StringIO(record)) if row[1].startswith("sha256="))
    return Wheel(artefact.subdir, {_sha256(row[1]): row[0] for row in rows}, readings)


def _sha256(stated: str) -> str:
    return base64.urlsafe_b64decode(stated.removeprefix("sha256=") + "=").hex()


def compare(entries: Iterable[Mapping[str, Any]], wheels: Sequence[Wheel], edits: Mapping[str, str]) -> PackageFiles:
    """Compares the entries of a package's paths.json with wheels; `edits` has what patchelf changed, by path.

    A file of another sha256 with a name of a wheel's member is that member, changed: libraries get their full version,
    so names are compared up to ``.so``. Other files are the recipe's own.
    """
    known = {sha256: (wheel, member) for wheel in wheels for sha256, member in wheel.members.items()}
    by_name = {_stem(member): (wheel, member) for wheel, member in known.values()}
    changed: list[Changed] = []
    licences: set[str] = set()
    words: dict[str, Word] = {}
    for path, sha256 in sorted((e["_path"], e["sha256"]) for e in entries if e["path_type"] == "hardlink"):
        if origin := known.get(sha256) or by_name.get(_stem(path)):
            wheel, member = origin
            reading = wheel.reading(member)
            licences.add(reading.kind)
            words[path] = reading.of(path, wheel.subdir, sha256 in known)
            if sha256 not in known:
                changed.append(Changed(path, edits.get(path, EDITED), sha256, words[path]))
    return PackageFiles(
        len(words) - len(changed),
        tuple(changed),
        tuple(sorted(licences)),
        dict(sorted(Counter(words.values()).items())),
        tuple(path for path, word in words.items() if word == "not-named"),
    )


def _stem(path: str) -> str:
    """``libcudart.so`` of ``lib/libcudart.so.13.4.92``."""
    name, so, _ = posixpath.basename(path).partition(".so")
    return name + so
