"""Zips and tars that others wrote, opened in bounded memory, and only when every name in them is a safe one.

Files that are still on the index are read through it too, before anyone can check a sha256.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, BinaryIO, Self

from ctk.core.files import FULL

MEMBERS = 50_000
"""Members at most; the largest of NVIDIA's wheels has 2,724."""
EXPANDED = 16 << 30
"""Bytes of all members at most."""
PIECE = 1 << 20
"""Bytes that are read at once."""
LONGEST = 16 << 20
"""Bytes of a RECORD or METADATA."""
_RATIO = 100  # how many times its own size an archive may unpack to; NVIDIA's wheels reach 7.6
_SMALL = 16 << 20  # bytes that any archive may unpack to
_SOURCES = 1 << 30  # bytes that a source distribution may unpack to; the largest here has 0.8 MB packed
_DIRECTORY = 8 << 20  # bytes of a zip's directory, which zipfile reads at once
_END = struct.Struct("<4s6xH2LH")  # of a zip: signature, number of members, bytes and place of the directory, comment
_LOCATOR = 20  # bytes before the end that say that another record counts instead (zip64)
_SECOND_NAME = 0x7075  # a field of a member: rattler-build and Python from 3.13 on take it for the name
_HEADER = 1 << 16  # bytes of what says in a tar that a name is long
_LONGEST_NAME = 256  # bytes of a path: Windows has no room for more; the longest one in the artefacts here has 133
_DEEPEST = 32  # the artefacts here have 12
_PART = re.compile(r'[^"*/:<>?\\|]*[^"*/:<>?\\|. ]')  # Windows drops a dot or a space at the end
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError, RuntimeError)
"""What zipfile, tarfile and zlib raise for an archive that is damaged, encrypted, or of another form."""


class Refused(Exception):
    """What is wrong with a member of an archive, or with the archive as a whole, for which its name is empty."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{shown(member)}: {reason}" if member else reason)


def shown(text: str) -> str:
    """What an archive says, for a message: of any length and content, it stays on its line."""
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return text if text.isprintable() else ascii(text)


class Limited(io.RawIOBase):
    """An unpacked stream that may not become larger than it should, `most` bytes."""

    def __init__(self, plain: Any, most: int) -> None:
        self._plain, self._left, self._most = plain, most, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size: int = self._plain.readinto(buffer)
        self._left -= size
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to more than {self._most} bytes")
        return size


class ShortHeaders(tarfile.TarInfo):
    """Members whose long names are short enough: tarfile reads what holds one into memory whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type not in tarfile.REGULAR_TYPES and not 0 <= found.size <= _HEADER:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


@contextmanager
def open_zip(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """A zip with one directory, at its end, over files and folders; its content is not read.

    Raises:
        Refused: It is something else, or a member breaks a rule; from what is read inside the block, too.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LOCATOR - _END.size))
    with readable():
        tail = file.read()
    if len(tail) < _END.size:
        raise Refused("", "it is no zip")
    signature, count, length, place, comment = _END.unpack(tail[-_END.size :])
    if signature != b"PK\5\6" or comment or place + length + _END.size != size or tail.startswith(b"PK\6\7"):
        raise Refused("", "it is no zip, is cut short, or has something before or after it")
    if length > _DIRECTORY:
        raise Refused("", f"its directory has {length} bytes, and {_DIRECTORY} are the most")
    with readable(), zipfile.ZipFile(file) as archive:
        items = archive.infolist()
        if len(items) != count:
            raise Refused("", f"its directory has {len(items)} members and says {count}")
        hold_names([item.orig_filename for item in items])
        for item in items:
            mode = item.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or mode & 0o6000:
                raise Refused(item.filename, "neither a plain file nor a folder")
            if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack in one piece
                raise Refused(item.filename, "compressed in a way that wheels are not")
            if _SECOND_NAME in _fields(item.extra):
                raise Refused(item.filename, "a second name")
        expanded, most = sum(item.file_size for item in items), _most_expanded(size)
        if expanded > most:
            raise Refused("", f"it says that it unpacks to {expanded} bytes, and {most} are the most")
        yield archive


@contextmanager
def open_tar(packed: BinaryIO) -> Iterator[tarfile.TarFile]:
    """A source distribution, unpacked to a file on disk that has no name.

    Raises:
        Refused: It cannot be read, unpacks to too much, or a member breaks a rule.
    """
    most = min(_SOURCES, _most_expanded(packed.seek(0, 2)))
    packed.seek(0)
    with readable(), tempfile.TemporaryFile(prefix="ctk-tar-") as plain:
        with gzip.open(packed) as content:
            shutil.copyfileobj(Limited(content, most), plain, PIECE)
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:", tarinfo=ShortHeaders) as tar:
            names: list[str] = []
            links: list[tarfile.TarInfo] = []
            for member in tar:
                if len(names) == MEMBERS:
                    raise Refused("", f"it has more than {MEMBERS} members")
                names.append(f"{member.name}/" if member.isdir() else member.name)
                if member.issym():
                    links.append(member)
                elif not (member.isreg() or member.isdir()) or member.issparse() or member.mode & 0o6000:
                    raise Refused(member.name, "neither a plain file nor a folder")
            hold_names(names)
            _hold_links(links, {member.name for member in tar.getmembers() if member.isreg()})
            yield tar


def _hold_links(links: Sequence[tarfile.TarInfo], files: Set[str]) -> None:
    """A link is another name of a plain file in the same archive: nothing is unpacked through it, or outside by it."""
    for link in links:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(link.name), link.linkname))
        if posixpath.isabs(link.linkname) or target not in files:
            raise Refused(link.name, "neither a plain file nor a folder, nor a link to such a file in the archive")


@contextmanager
def readable(member: str = "") -> Iterator[None]:
    """Whatever breaks while an archive, or a member of it, is read is a `Refused`."""
    try:
        yield
    except (*BROKEN, ValueError, OverflowError, IndexError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise Refused(member, f"it cannot be read: {shown(str(error))}") from error


def _fields(extra: bytes) -> Iterator[int]:
    """The kinds of a member's extra fields."""
    rest = memoryview(extra)
    while len(rest) >= 4:
        kind, length = struct.unpack("<2H", rest[:4])
        yield kind
        rest = rest[4 + length :]


def _most_expanded(size: int) -> int:
    """How many bytes an archive of a size may unpack to."""
    return min(EXPANDED, max(_SMALL, _RATIO * size))


def hold_names(names: Sequence[str]) -> None:
    """Refuses names that are not each one file, inside the folder, on every system; those of folders end in a slash."""
    if len(names) > MEMBERS:
        raise Refused("", f"it has {len(names)} members, and {MEMBERS} are the most")
    for name in names:
        if not _is_plain(name):
            raise Refused(name, "a name that some system cannot have, or that leaves its folder")
    folders = dict.fromkeys(name[:end] for name in names for end, letter in enumerate(name) if letter == "/")
    seen: set[str] = set()
    for path in (*folders, *(name for name in names if not name.endswith("/"))):
        if path.lower() in seen:
            raise Refused(path, "occurs twice, at least where upper and lower case are the same")
        seen.add(path.lower())


def _is_plain(name: str) -> bool:
    parts = name.removesuffix("/").split("/")
    fits = name.isascii() and name.isprintable() and len(name) <= _LONGEST_NAME and len(parts) <= _DEEPEST
    return fits and all(_PART.fullmatch(part) and not _DEVICE.fullmatch(part) for part in parts)
