"""The large binaries of an artefact: what their stand-ins need to know of them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.memo import memo
from ctk.lock.model import Artefact
from ctk.package.binaries import ELF_MAGIC, Dynamic, ElfParts, UnreadableBinary

LARGE = 1 << 20
"""Bytes of a large binary, at least."""
HEAD = 4
"""Bytes of its start that a note has: they identify its format."""
_PIECE = 1 << 20  # bytes of one read
_REVISION = 7  # raise it when a note has something else
_TEXT = 1 << 10  # bytes at the start of a file; a text has no 0 in them


@dataclass(frozen=True)
class LargeBinary:
    """A binary of at least `LARGE` bytes in a wheel."""

    size: int  # bytes
    packed: int  # bytes in the wheel
    sha256: str
    head: bytes  # its first bytes
    elf: Dynamic | None  # for an ELF file


_NOTE = TypeAdapter(
    dict[str, LargeBinary], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


def large_binaries(
    artefact: Artefact, file: Path, workspace: Workspace
) -> Mapping[str, LargeBinary]:
    """The readable large binaries of an artefact by name; none of a source distribution.

    A note keeps them.
    """
    if artefact.file.endswith(".tar.gz"):
        return {}
    return memo(workspace.notes / "artefacts", [_REVISION, artefact.sha256], _NOTE).get(
        lambda: _read(file)
    )


def _read(file: Path) -> dict[str, LargeBinary]:
    with zipfile.ZipFile(file) as archive:
        large = {
            i.filename: _binary(archive, i) for i in archive.infolist() if i.file_size >= LARGE
        }
        return {name: binary for name, binary in large.items() if binary}


def _binary(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> LargeBinary | None:
    """A member, if it is a readable binary."""
    digest, start, parts = hashlib.sha256(), b"", ElfParts()
    with archive.open(item) as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
            start = start or piece
            parts.feed(piece)
    if b"\0" not in start[:_TEXT]:
        return None
    with suppress(UnreadableBinary):
        elf = parts.dynamic() if start.startswith(ELF_MAGIC) else None
        return LargeBinary(
            item.file_size, item.compress_size, digest.hexdigest(), start[:HEAD], elf
        )
    return None
