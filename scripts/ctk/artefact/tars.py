"""A source distribution: files and folders in one tar, compressed once, and nothing after it."""

from __future__ import annotations

import gzip
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from ctk.artefact import names
from ctk.artefact.zips import MEMBERS, Refused, most_expanded

_PIECE = 1 << 20
_EXPANDED = 1 << 30  # bytes; the largest source here has 0.8 MB packed
_SHORT = 1 << 16  # bytes
_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class ShortHeaders(tarfile.TarInfo):
    """Members whose long names are short enough: tarfile reads what holds one into memory whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _HEADERS and not 0 <= found.size <= _SHORT:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


@contextmanager
def expanded(packed: BinaryIO) -> Iterator[BinaryIO]:
    """The tar in a gzip, on disk without a name, as long as it unpacks to no more than it may.

    Raises:
        Refused: It cannot be read, or unpacks to too much.
    """
    most = min(_EXPANDED, most_expanded(packed.seek(0, 2)))
    packed.seek(0)
    with tempfile.TemporaryFile(prefix="ctk-tar-") as plain:
        size = 0
        try:
            with gzip.open(packed) as content:
                while piece := content.read(_PIECE):
                    size += len(piece)
                    if size > most:
                        raise Refused("", f"it unpacks to more than {most} bytes")
                    plain.write(piece)
        except (OSError, EOFError, zlib.error, struct.error) as error:
            raise Refused("", f"it is no gzip that can be read: {error}") from error
        plain.seek(0)
        yield plain


def wrong_with_tar(path: Path) -> Iterator[Refused]:
    """Everything that is wrong with a ``.tar.gz``.

    Raises:
        Refused: It cannot be read, or unpacks to too much.
    """
    with path.open("rb") as packed, expanded(packed) as plain:
        try:
            with tarfile.open(fileobj=plain, mode="r:", tarinfo=ShortHeaders) as tar:
                yield from _wrong_with_members(tar)
                plain.seek(tar.offset)
        except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError, IndexError) as error:
            raise Refused("", f"it is no tar that can be read: {error}") from error
        while piece := plain.read(_PIECE):
            if piece.strip(b"\0"):
                raise Refused("", "it has something after its end, or a member whose header is broken")


def _wrong_with_members(tar: tarfile.TarFile) -> Iterator[Refused]:
    found: list[str] = []
    for member in tar:
        if len(found) == MEMBERS:
            raise Refused("", f"it has more than {MEMBERS} members")
        found.append(f"{member.name}/" if member.isdir() else member.name)
        if reason := names.wrong_with(found[-1]) or _wrong_with_kind(member):
            yield Refused(found[-1], reason)
    for name, reason in names.clashes(found):
        yield Refused(name, reason)


def _wrong_with_kind(member: tarfile.TarInfo) -> str | None:
    if member.issym() or member.islnk():
        return "a link"
    if not (member.isreg() or member.isdir()) or member.issparse():
        return "neither a file nor a folder"
    return "it would run as another user" if member.mode & 0o6000 else None
