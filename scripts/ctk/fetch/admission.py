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
from copy import copy
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.core.errors import ArtefactRefused
from ctk.core.platforms import targets
from ctk.lock.lock import Artefact
from ctk.package.archives import EXPANDED, LONGEST, PIECE, Refused, open_tar, open_zip, readable, shown

_REVISION = 2  # raise it when a rule is added: what passed is looked through again
_WHEEL = 1 << 12  # bytes of WHEEL
_TAGS = 1000  # that a line of WHEEL may stand for
_UNSIGNED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_STEP = "nothing of it was unpacked; if the index is right, it is its publisher who has to mend it"


def admit(artefacts: Iterable[Artefact], files: Iterable[Path], workspace: Workspace) -> None:
    """Looks through the files of artefacts that no earlier run admitted; ArtefactRefused with the member and reason."""
    once = {_note(a, workspace): (a, f) for a, f in zip(artefacts, files, strict=True)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib and sha256 do not hold the interpreter's lock
        list(pool.map(lambda pair: admit_one(pair[0], pair[1], workspace), once.values()))


def admit_one(artefact: Artefact, file: Path, workspace: Workspace) -> None:
    """The same for one artefact, in this thread."""
    note = _note(artefact, workspace)
    if not note.exists():
        check(artefact, file)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def check(artefact: Artefact, file: Path) -> None:
    """Looks through one artefact, at the cost of unpacking it into memory piece by piece."""
    try:
        with file.open("rb") as content:
            if artefact.file.endswith(".tar.gz"):
                with open_tar(content):
                    return
            with open_zip(content) as archive:
                found = {item.filename: _hash(archive, item) for item in archive.infolist() if not item.is_dir()}
                if artefact.file.endswith(".whl"):
                    _hold_wheel(artefact, archive, found)
    except Refused as refused:
        raise ArtefactRefused(f"{shown(artefact.file)}: {refused}", _STEP) from refused


def _note(artefact: Artefact, workspace: Workspace) -> Path:
    parts = (str(_REVISION), artefact.distribution, artefact.version, artefact.target, artefact.file, artefact.sha256)
    return workspace.cache / "admitted" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _hash(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> str:
    """The hash of a member, as RECORD states it."""
    whole = copy(item)
    whole.file_size = EXPANDED  # zipfile would stop at the size that is stated; rattler-build writes all that comes
    digest, size = hashlib.sha256(), 0
    with readable(item.filename), archive.open(whole) as content:
        while size <= item.file_size and (piece := content.read(PIECE)):
            size += len(piece)
            digest.update(piece)
    if size != item.file_size:
        raise Refused(item.filename, f"does not have the {item.file_size} bytes that it says")
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
