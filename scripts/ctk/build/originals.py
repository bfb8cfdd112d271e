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
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from ctk.index.inside import members
from ctk.lock.model import Artefact
from ctk.lock.redistribution import NVIDIA_INSIDE, Reading, Word, read_text
from ctk.lock.wheels import licence_in

_OWN_TEXT = re.compile(r"licen[cs]e(\.(txt|md|rst))?", re.I)
EDITED = "edited"
"""Why a file that is no ELF file is changed: the recipe's script wrote other text into it."""


@dataclass(frozen=True)
class Changed:
    """A file that is not as its wheel has it: why not, its sha256 in the package, what its licence
    text says of it.
    """

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
        members: Name -> sha256, by its RECORD.
        readings: Name of a folder with a licence text of its own -> the reading of this; "" for all
            other files. The text in ``cccl`` is for ``include/cccl`` too.
        distribution: Its name.
    """

    subdir: str
    members: Mapping[str, str]
    readings: Mapping[str, Reading]
    distribution: str = ""

    def reading(self, member: str) -> Reading:
        """That of the nearest folder above a member that has one.

        None for a file of NVIDIA in a wheel of others.
        """
        if (nvidias := NVIDIA_INSIDE.get(self.distribution)) and nvidias.match(member):
            return Reading("not known")
        return next(
            self.readings[f] for f in (*reversed(member.split("/")[:-1]), "") if f in self.readings
        )


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
                    readings[posixpath.basename(folder)] = read_text(
                        member.content().decode("utf-8", "replace")
                    )
    rows = (row for row in csv.reader(io.StringIO(record)) if row[1].startswith("sha256="))
    return Wheel(
        artefact.subdir, {row[0]: _sha256(row[1]) for row in rows}, readings, artefact.distribution
    )


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
    changed: list[Changed] = []
    licences: set[str] = set()
    words: dict[str, Word] = {}
    for path, sha256 in sorted(
        (e["_path"], e["sha256"]) for e in entries if e["path_type"] == "hardlink"
    ):
        if origin := _nearest(path, known.get(sha256, ()), 0) or _nearest(
            path, by_name.get(_stem(path), ()), 1
        ):
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


_Member = tuple[Wheel, str]


def _nearest(path: str, members: Sequence[_Member], least: int) -> _Member | None:
    """The member with the most folders above its name in common.

    Of several, it must have so many.
    """

    def common(member: _Member) -> int:
        pairs = zip(path.split("/")[-2::-1], member[1].split("/")[-2::-1], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    best = max(members, key=common, default=None)
    return best if best is None or len(members) == 1 or common(best) >= least else None


def _stem(path: str) -> str:
    """``libcudart.so`` of ``lib/libcudart.so.13.4.92``."""
    name, so, _ = posixpath.basename(path).partition(".so")
    return name + so
