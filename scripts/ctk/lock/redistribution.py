"""What licence texts say of distribution: the table ``licences.yaml`` beside this module.

The table is kept by hand, and has a text by its sha256. What nobody has read is a finding, and
counts as naming no file. The readings are not legal advice.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ctk.core.document import parse_by_hand, read
from ctk.core.errors import LockError, problems
from ctk.lock.model import ReleaseLock, Sha256

FILE = Path(__file__).with_name("licences.yaml")
NEXT_STEP = f"read the text, and write what it says into scripts/ctk/lock/{FILE.name}"
Kind = Literal["CUDA EULA", "SDK licence", "open source", "not known"]
System = Literal["All", "Linux", "Windows"]
Word = Literal["attachment-a", "clause-2.3", "sdk-licence", "open-source", "not-named"]
WORDS: Mapping[Word, str] = {
    "attachment-a": "named in Attachment A",
    "clause-2.3": "clause 2.3: for Linux, unmodified",
    "sdk-licence": "named in its SDK licence",
    "open-source": "open source",
    "not-named": "not named",
}
"""What a text says of a file, in a word and in words."""
NVIDIA_INSIDE: Mapping[str, re.Pattern[str]] = {
    # Its programs state release 12.8, 12.9, 13.1, 13.3 or 13.4 of NVIDIA's tools. ptxas, CUPTI and
    # most headers equal files of NVIDIA's wheels; cuobjdump and nvdisasm equal none that is locked.
    "triton": re.compile(r"triton/backends/nvidia/(bin|include|lib)/"),
    # NVPL, on ARM.
    "torch": re.compile(r"torch/lib/libnvpl_"),
}
"""Distribution -> the files of NVIDIA in its wheels, though its text is that of others.

They fall under no text.
"""


@dataclass(frozen=True)
class Reading:
    """What a licence text says of distribution.

    Attributes:
        linux: Whether files for Linux alone may be redistributed if they are not modified (clause
            2.3 of the EULA).
        named: System -> the files that are named for distribution; ``*.so`` is an ending.
        unread: The key of a text that the table lacks; "" for one that it has.
    """

    kind: Kind
    linux: bool = False
    named: Mapping[System, tuple[str, ...]] = field(default_factory=dict)
    unread: str = ""

    def of(self, path: str, subdir: str, published: bool) -> Word:
        """What it says of a file of a wheel for this platform, which is as published or changed.

        All files of a wheel for Linux count as designed for Linux alone.
        """
        if self.kind == "open source":
            return "open-source"
        is_linux = subdir.startswith("linux-")
        names = list(self.named.get("All", ()))
        if is_linux:
            names += self.named.get("Linux", ())
        elif subdir.startswith("win-"):
            names += self.named.get("Windows", ())
        if any(_is_named(path, name) for name in names):
            return "attachment-a" if self.kind == "CUDA EULA" else "sdk-licence"
        return "clause-2.3" if self.linux and is_linux and published else "not-named"


def _is_named(path: str, name: str) -> bool:
    plain = _without_version(path)
    if name.startswith("*"):
        return plain.endswith(name[1:])
    return f"/{plain}".endswith(f"/{_without_version(name)}")


def _without_version(path: str) -> str:
    """A path without the version, the ``64`` and the ``lib`` in a file's name.

    Attachment A names ``cudart.dll``, for "certain variations of these files that have version
    number or architecture specific information embedded in the file name"; and
    ``libnvJitLink.dll``, whose file has no ``lib``.
    """
    folder, name = posixpath.split(path)
    name = re.sub(r"(?<=\.so)[.\d]+$|(64)?([_.]\d+)*(?=\.dll$)", "", name)
    return posixpath.join(folder, name.removeprefix("lib"))


# ---- the table

Readings = Mapping[str, Reading]
"""Key of a text (`text_key`), or the licence that a wheel without a text declares -> its reading.
"""


@dataclass(frozen=True)
class Entry:
    """An entry of the table: texts that say the same.

    Attributes:
        texts: Key of each -> whose text it is, for people.
        declared: Licences that wheels without a text declare.
    """

    kind: Kind
    texts: Mapping[Sha256, Annotated[str, Field(min_length=1)]]
    declared: tuple[str, ...] = ()
    linux: bool = False
    named: Mapping[System, tuple[str, ...]] = field(default_factory=dict)


@cache
def load() -> Readings:
    """The readings of the table; LockError lists all that is wrong with it."""
    return parse(read(FILE))


def parse(text: str) -> Readings:
    """The readings of a table; LockError lists all that is wrong with it."""
    readings: dict[str, Reading] = {}
    twice = []
    table = TypeAdapter(tuple[Entry, ...])
    for entry in parse_by_hand(text, table, FILE.name, NEXT_STEP):
        reading = Reading(entry.kind, entry.linux, entry.named)
        for key in (*entry.texts, *entry.declared):
            if key in readings:
                twice.append(f"{key} is there twice")
            readings[key] = reading
    if twice:
        raise problems(LockError, FILE.name, twice, "leave one of them out")
    return readings


def text_key(content: bytes) -> str:
    """The sha256 of a text by which the table has it: wheels differ by system in line ends."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def reading_of(key: str, readings: Readings) -> Reading:
    """The reading of a text; of one that nobody has read, that it does not name a file."""
    return readings.get(key) or Reading("not known", unread=key)


# ---- texts that nobody has read


@dataclass(frozen=True)
class UnreadText:
    """A licence text of a lock that the table lacks."""

    release: str
    component: str
    version: str
    text: str  # its key

    def __str__(self) -> str:
        whose = f"{self.component} {self.version}"
        return f"{self.release}: nobody has read the licence text of {whose}, {self.text}"


def unread(readings: Readings, locks: Iterable[ReleaseLock]) -> Iterator[UnreadText]:
    """The texts of some locks that the table lacks, each once."""
    seen: set[str] = set()
    for lock in locks:
        for component in lock.components.values():
            new = set(component.license_texts) - readings.keys() - seen
            seen |= new
            for text in sorted(new):
                yield UnreadText(lock.name, component.name, component.version, text)
