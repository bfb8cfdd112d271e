"""The last step of fetch: every artefact is looked through once before recipes, measuring or anyone else sees it.

A sha256 says that a file is the locked one, not that it is for the locked target, whole, or safe to unpack. What nobody
sees later is held to rules here: docs/security.md has the list, and who sees the rest.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ctk.core.checkout import Workspace
from ctk.core.errors import ArtefactRefused
from ctk.core.files import make_folder, replace_file
from ctk.core.platforms import targets
from ctk.lock.lock import Artefact
from ctk.package.archives import EXPANDED, LONGEST, PIECE, Refused, open_tar, open_zip, readable, shown
from ctk.package.binaries import ELF_MAGIC, Dynamic, ElfParts, UnreadableBinary

LARGE = 1 << 20
"""Bytes from which on a binary is noted."""
HEAD = 4
"""Bytes of its start that are noted: they say what it is."""
_REVISION = 3  # raise it when a rule is added: what passed is looked through again
_WHEEL = 1 << 12  # bytes of WHEEL
_TEXT = 1 << 10  # bytes at the start of a file, of which none is 0 in a text
_TAGS = 1000  # that a line of WHEEL may stand for
_UNSIGNED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_STEP = "nothing of it was unpacked; if the index is right, it is its publisher who has to mend it"


@dataclass(frozen=True)
class LargeBinary:
    """A binary of at least `LARGE` bytes in a wheel."""

    size: int  # bytes
    packed: int  # bytes that it takes in the wheel
    sha256: str
    head: bytes  # its first bytes
    elf: Dynamic | None  # for an ELF file


_NOTE = TypeAdapter(dict[str, LargeBinary], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64"))


def admit(artefacts: Iterable[Artefact], files: Iterable[Path], workspace: Workspace) -> None:
    """Looks through the files of artefacts that no earlier run admitted; ArtefactRefused with the member and reason."""
    once = {note_of(a, workspace): (a, f) for a, f in zip(artefacts, files, strict=True)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib and sha256 do not hold the interpreter's lock
        list(pool.map(lambda pair: admit_one(pair[0], pair[1], workspace), once.values()))


def admit_one(artefact: Artefact, file: Path, workspace: Workspace) -> Mapping[str, LargeBinary]:
    """The same for one artefact, in this thread; returns its large binaries by name, but those it cannot read."""
    note = note_of(artefact, workspace)
    with suppress(OSError, ValidationError):
        return _NOTE.validate_json(note.read_bytes())
    found = check(artefact, file)
    make_folder(note.parent)
    replace_file(note, _NOTE.dump_json(found))
    return found


def check(artefact: Artefact, file: Path) -> dict[str, LargeBinary]:
    """Looks through one artefact, unpacking it into memory piece by piece; returns its large binaries."""
    try:
        with file.open("rb") as content:
            if artefact.file.endswith(".tar.gz"):
                with open_tar(content):
                    return {}
            large: dict[str, LargeBinary] = {}
            with open_zip(content) as archive:
                found = {item.filename: _hash(archive, item, large) for item in archive.infolist() if not item.is_dir()}
                if artefact.file.endswith(".whl"):
                    _hold_wheel(artefact, archive, found)
            return large
    except Refused as refused:
        raise ArtefactRefused(f"{shown(artefact.file)}: {refused}", _STEP) from refused


def note_of(artefact: Artefact, workspace: Workspace) -> Path:
    """The file that says that an artefact is admitted, and which large binaries it has."""
    parts = (str(_REVISION), artefact.distribution, artefact.version, artefact.target, artefact.file, artefact.sha256)
    return workspace.admitted / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _hash(archive: zipfile.ZipFile, item: zipfile.ZipInfo, large: dict[str, LargeBinary]) -> str:
    """The hash of a member, as RECORD states it; notes the member if it is a large binary."""
    whole = copy(item)
    whole.file_size = EXPANDED  # zipfile would stop at the size that is stated; rattler-build writes all that comes
    digest, size, start, parts = hashlib.sha256(), 0, b"", ElfParts()
    with readable(item.filename), archive.open(whole) as content:
        while size <= item.file_size and (piece := content.read(PIECE)):
            size += len(piece)
            digest.update(piece)
            start = start or piece
            if item.file_size >= LARGE:
                parts.feed(piece)
    if size != item.file_size:
        raise Refused(item.filename, f"does not have the {item.file_size} bytes that it says")
    if item.file_size >= LARGE and b"\0" in start[:_TEXT]:
        with suppress(UnreadableBinary):
            elf = parts.dynamic() if start.startswith(ELF_MAGIC) else None
            large[item.filename] = LargeBinary(size, item.compress_size, digest.hexdigest(), start[:HEAD], elf)
    return f"sha256={base64.urlsafe_b64encode(digest.digest()).decode().rstrip('=')}"


def _hold_wheel(artefact: Artefact, archive: zipfile.ZipFile, found: Mapping[str, str]) -> None:
    """Refuses a wheel that is not the artefact's, or whose RECORD does not have these files with these hashes."""
    title = f"{artefact.distribution} {artefact.version}"
    folders = {folder for folder, slash, _ in (name.partition("/") for name in found) if slash}
    info, *others = sorted(name for name in folders if name.endswith(".dist-info")) or [""]
    name, _, version = info.removesuffix(".dist-info").partition("-")
    # Scripts of recipes use the folder's name.
    if others or not re.fullmatch(r"[A-Za-z0-9._+!-]+", info) or not _is_of(artefact, [name], [version]):
        raise Refused(info, f"a wheel has one .dist-info folder, which is that of {title}")
    metadata = _headers(archive, f"{info}/METADATA", LONGEST)
    if not _is_of(artefact, metadata.get_all("Name", ()), metadata.get_all("Version", ())):
        raise Refused(f"{info}/METADATA", f"is not that of {title}")
    tags = [str(tag) for tag in _headers(archive, f"{info}/WHEEL", _WHEEL).get_all("Tag", ())]
    if artefact.target not in targets(tag for text in tags for tag in parse_tag(text, limit=_TAGS)):
        said = shown(", ".join(tags)) or "nothing"
        raise Refused(f"{info}/WHEEL", f"its tags are for {said}, and it is locked for {artefact.target}")
    text = _text(archive, f"{info}/RECORD", LONGEST)
    try:
        rows = csv.reader(io.StringIO(text.decode()), strict=True)
        stated = {path: digest.rstrip("=") for path, digest, _ in filter(None, rows)}
    except (csv.Error, ValueError) as error:
        raise Refused(f"{info}/RECORD", f"cannot be read: {error}") from error
    for path in sorted({*found, *stated} - {f"{info}/{name}" for name in _UNSIGNED}):
        if found.get(path) != stated.get(path):
            said, is_ = shown(stated.get(path, "nothing")), found.get(path, "not there")
            raise Refused(path, f"RECORD says {said!r} of it, and it is {is_}")


def _is_of(artefact: Artefact, names: Iterable[object], versions: Iterable[object]) -> bool:
    """Whether these are one name and one version, those of the artefact, however they are spelt."""
    same_name = [canonicalize_name(str(name)) for name in names] == [canonicalize_name(artefact.distribution)]
    return same_name and [Version(str(version)) for version in versions] == [Version(artefact.version)]


def _headers(archive: zipfile.ZipFile, name: str, most: int) -> Message:
    return BytesParser().parsebytes(_text(archive, name, most), headersonly=True)


def _text(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    if name not in archive.namelist():
        raise Refused(name, "is missing")
    if archive.getinfo(name).file_size > most:
        raise Refused(name, f"has more than {most} bytes")
    return archive.read(name)
