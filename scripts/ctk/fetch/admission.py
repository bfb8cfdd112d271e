"""The last step of fetch: each artefact is checked once, before recipes or anything else can read it.

A sha256 proves that a file is the locked file, not that it is for the locked project and target, or that it unpacks
inside its folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ConfigDict, TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.errors import ArtefactRefused
from ctk.core.memo import Memo, memo
from ctk.core.platforms import targets
from ctk.lock.model import Artefact
from ctk.package.archives import Refused, open_tar, open_zip, shown
from ctk.package.binaries import ELF_MAGIC, Dynamic, ElfParts, UnreadableBinary

LARGE = 1 << 20
"""Bytes of a large binary, at least."""
HEAD = 4
"""Bytes of its start that a note has: they identify its format."""
_PIECE = 1 << 20  # bytes of one read
_REVISION = 3  # raise it when a rule is added, so that all artefacts are checked again
_TEXT = 1 << 10  # bytes at the start of a file; a text has no 0 in them
_STEP = "nothing of it was unpacked; if the index is right, its publisher has to fix it"


@dataclass(frozen=True)
class LargeBinary:
    """A binary of at least `LARGE` bytes in a wheel."""

    size: int  # bytes
    packed: int  # bytes in the wheel
    sha256: str
    head: bytes  # its first bytes
    elf: Dynamic | None  # for an ELF file


_NOTE = TypeAdapter(dict[str, LargeBinary], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


def check_all(artefacts: Iterable[Artefact], files: Iterable[Path], workspace: Workspace) -> None:
    """Checks the files of artefacts, unless an earlier run did; ArtefactRefused names the member and the reason."""
    once = {note_of(a, workspace).file: (a, f) for a, f in zip(artefacts, files, strict=True)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib and sha256 do not hold the interpreter's lock
        list(pool.map(lambda pair: large_binaries(pair[0], pair[1], workspace), once.values()))


def large_binaries(artefact: Artefact, file: Path, workspace: Workspace) -> Mapping[str, LargeBinary]:
    """Checks one artefact, unless an earlier run did; returns its readable large binaries by name."""
    return note_of(artefact, workspace).get(lambda: check(artefact, file))


def check(artefact: Artefact, file: Path) -> dict[str, LargeBinary]:
    """Checks one artefact; returns its readable large binaries by name."""
    try:
        with file.open("rb") as content:
            if artefact.file.endswith(".tar.gz"):
                with open_tar(content):
                    return {}
            with open_zip(content) as archive:
                if artefact.file.endswith(".whl"):
                    _check_wheel(artefact, archive)
                large = {i.filename: _binary(archive, i) for i in archive.infolist() if i.file_size >= LARGE}
                return {name: binary for name, binary in large.items() if binary}
    except Refused as refused:
        raise ArtefactRefused(f"{shown(artefact.file)}: {refused}", _STEP) from refused


def note_of(artefact: Artefact, workspace: Workspace) -> Memo[dict[str, LargeBinary]]:
    """The note that an artefact was checked, with its large binaries."""
    key = [_REVISION, artefact.distribution, artefact.version, artefact.target, artefact.file, artefact.sha256]
    return memo(workspace.notes / "artefacts", key, _NOTE)


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
        return LargeBinary(item.file_size, item.compress_size, digest.hexdigest(), start[:HEAD], elf)
    return None


def _check_wheel(artefact: Artefact, archive: zipfile.ZipFile) -> None:
    """Refuses a wheel of another project, version or target than the artefact's."""
    found = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
    if len(found) != 1:
        raise Refused("", f"a wheel has one METADATA, not {len(found)}")
    metadata = _headers(archive, found[0])
    name, version = canonicalize_name(str(metadata["Name"])), Version(str(metadata["Version"]))
    if (name, version) != (canonicalize_name(artefact.distribution), Version(artefact.version)):
        raise Refused(found[0], f"is not that of {artefact.distribution} {artefact.version}")
    wheel = found[0].replace("/METADATA", "/WHEEL")
    tags = [str(tag) for tag in _headers(archive, wheel).get_all("Tag", ())]
    if artefact.target not in targets(tag for text in tags for tag in parse_tag(text)):
        said = shown(", ".join(tags)) or "nothing"
        raise Refused(wheel, f"its tags are for {said}, and it is locked for {artefact.target}")


def _headers(archive: zipfile.ZipFile, name: str) -> Message:
    return BytesParser().parsebytes(archive.read(name), headersonly=True)
