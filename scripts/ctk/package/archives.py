"""Opens zips and tars of other people, in bounded memory, if all stays in its folder."""

from __future__ import annotations

import io
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Self

from ctk.core.disk import FULL
from ctk.core.inside import wrong_with

EXPANDED = 16 << 30
"""Bytes that all members may have together."""
LONGEST = 16 << 20
"""Bytes that a METADATA may have."""
_MEMBERS = 50_000  # the largest of NVIDIA's wheels has 2,724
_RATIO = 100  # a zip may unpack to its own size times this; NVIDIA's wheels reach 7.6
_SMALL = 16 << 20  # bytes that any zip may unpack to
_DIRECTORY = 8 << 20  # bytes of a zip's directory, which zipfile reads at once
_END = struct.Struct("<4s8xL6x")  # of a zip: signature, bytes of the directory
_LOCATOR = 20  # bytes before the end, of a zip64 that has its directory elsewhere
_HEADER = 1 << 16  # bytes of a tar header that has a long name
_PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)
_OUTSIDE = "it is not a plain file inside its folder, and no folder"
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
)
"""What zipfile, tarfile and zlib raise for an archive that is damaged, encrypted, or of another
form.
"""


class Refused(Exception):
    """The error of an archive that is not read: of a member, or, without a name, of all."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{shown(member)}: {reason}" if member else reason)


def shown(text: str) -> str:
    """Text of an archive for a message: shortened, and on one line."""
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return text if text.isprintable() else ascii(text)


class Limited(io.RawIOBase):
    """An unpacked stream of `most` bytes at most."""

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
    """Refuses headers with too long names, as tarfile reads such a header into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type not in tarfile.REGULAR_TYPES and not 0 <= found.size <= _HEADER:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


@contextmanager
def open_zip(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """A zip of files and folders; its content is not read.

    Raises:
        Refused: It is something else, too large, or leads out of its folder; reads inside the block
            raise it, too.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _LOCATOR - _END.size))
    with readable():
        tail = file.read()
        if len(tail) < _END.size:
            raise Refused("", "it is not a zip, or is truncated")
        signature, length = _END.unpack(tail[-_END.size :])
        if signature != b"PK\5\6" or tail.startswith(b"PK\6\7"):
            raise Refused("", "it is not a zip, or is truncated")
        if length > _DIRECTORY:
            raise Refused("", f"its directory has {length} bytes, and {_DIRECTORY} are the most")
        with zipfile.ZipFile(file) as archive:
            items = archive.infolist()
            for item in items:
                if wrong_with(item.filename) or stat.S_IFMT(item.external_attr >> 16) not in _PLAIN:
                    raise Refused(item.filename, _OUTSIDE)
                if item.compress_type not in (
                    zipfile.ZIP_STORED,
                    zipfile.ZIP_DEFLATED,
                ):  # zipfile unpacks others in one piece
                    raise Refused(item.filename, "compressed in a way that wheels are not")
            expanded, most = (
                sum(item.file_size for item in items),
                min(EXPANDED, max(_SMALL, _RATIO * size)),
            )
            if len(items) > _MEMBERS or expanded > most:
                raise Refused(
                    "",
                    f"it has {len(items)} members that unpack to {expanded} bytes, which is too"
                    " much",
                )
            yield archive


@contextmanager
def open_tar(packed: BinaryIO) -> Iterator[tarfile.TarFile]:
    """Opens a source distribution.

    Raises:
        Refused: It cannot be read, or leads out of its folder.
    """
    packed.seek(0)
    with readable(), tarfile.open(fileobj=packed, mode="r:gz") as tar:
        members = tar.getmembers()
        files = {member.name for member in members if member.isreg()}
        for member in members:
            # Links to files of the archive are allowed: nothing is unpacked through them.
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(member.name), member.linkname)
            )
            plain = member.isreg() or member.isdir() or (member.issym() and target in files)
            is_root = member.isdir() and posixpath.normpath(member.name) == "."
            if not plain or (wrong_with(member.name) and not is_root):
                raise Refused(member.name, _OUTSIDE)
        yield tar


@contextmanager
def readable() -> Iterator[None]:
    """Turns all errors of reading an archive into `Refused`, except a full disk."""
    try:
        yield
    except (*BROKEN, ValueError, OverflowError, LookupError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise Refused("", f"it cannot be read: {shown(str(error))}") from error
