"""A source distribution: files and folders in one tar, compressed once, and nothing after it."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ctk.artefact import names
from ctk.artefact.zips import MEMBERS, Refused, most_expanded

_PIECE = 1 << 20
_EXPANDED = 1 << 30  # bytes; cufinufft, the largest source here, has 1.5 MB
_SHORT = 1 << 16  # bytes; headers before a member that hold its long name are read whole


def wrong_with_tar(path: Path) -> Iterator[Refused]:
    """Everything that is wrong with a ``.tar.gz``.

    Raises:
        Refused: It cannot be read, or unpacks to too much.
    """
    with tempfile.TemporaryFile(prefix="ctk-tar-") as plain:
        size, most = 0, min(_EXPANDED, most_expanded(path.stat().st_size))
        try:
            with gzip.open(path) as packed:
                while piece := packed.read(_PIECE):
                    size += len(piece)
                    if size > most:
                        raise Refused("", f"it unpacks to more than {most} bytes")
                    plain.write(piece)
        except (OSError, EOFError, zlib.error) as error:
            raise Refused("", f"it is no gzip that can be read: {error}") from error
        _refuse_long_headers(plain)
        plain.seek(0)
        try:
            with tarfile.open(fileobj=plain, mode="r:", errors="surrogateescape") as tar:
                yield from _wrong_with_members(tar)
                plain.seek(tar.offset)
        except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError, IndexError) as error:
            raise Refused("", f"it is no tar that can be read: {error}") from error
        while piece := plain.read(_PIECE):
            if piece.strip(b"\0"):
                raise Refused("", "it has something after its end, or a member whose header is broken")


def _refuse_long_headers(plain: tempfile._TemporaryFileWrapper[bytes]) -> None:
    """Long names come in members of their own, which tarfile reads into memory whole."""
    position = plain.seek(0)
    while len(block := plain.read(tarfile.BLOCKSIZE)) == tarfile.BLOCKSIZE and block.strip(b"\0"):
        try:
            size = tarfile.nti(block[124:136])  # type: ignore[attr-defined]
        except tarfile.HeaderError:  # type: ignore[attr-defined]
            return  # tarfile says what is wrong with it
        if size < 0 or (block[156:157] in b"xgXLKN" and size > _SHORT):
            raise Refused("", f"it has a header of {size} bytes")
        position += tarfile.BLOCKSIZE * (1 + -(-size // tarfile.BLOCKSIZE))
        plain.seek(position)


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
