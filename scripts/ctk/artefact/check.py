"""The last step of fetch: every artefact is looked through once before recipes, measuring or anyone else sees it.

A sha256 says that a file is the locked one. It does not say that whoever published it meant well, or that the wheel is
whole. So names, kinds, sizes, the shape of the archive, RECORD and the machine of every binary are held to rules, and
all of the content is unpacked once, in memory: nothing less shows that a member is as large as the directory says, and
rattler-build, which unpacks it next, writes what comes. What passed is noted by its sha256, so this is paid once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import BinaryIO
from zipfile import ZipInfo

from ctk.artefact import machines, record, zips
from ctk.artefact.tars import wrong_with_tar
from ctk.artefact.zips import Refused, shown
from ctk.errors import ArtefactRefused, problems
from ctk.lock import Artefact
from ctk.paths import Workspace

_REVISION = 1  # raise it when a rule is added: what passed is looked through again
_MOST = 10  # problems of one artefact that are shown
_STEP = "nothing of it was unpacked; if the index is right, it is its publisher who has to mend it"


def admit(artefacts: Iterable[Artefact], files: Iterable[Path], workspace: Workspace) -> None:
    """Looks through the artefacts that no earlier run looked through.

    Args:
        artefacts: What was fetched.
        files: The file of each.
        workspace: Keeps the notes of what passed.

    Raises:
        ArtefactRefused: For the first that breaks a rule, with the member and the reason.
    """
    unknown = {
        note: (a, f) for a, f in zip(artefacts, files, strict=True) if not (note := _note(a, workspace)).exists()
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib and sha256 do not hold the interpreter's lock
        futures = [pool.submit(admit_one, *pair, workspace) for pair in unknown.values()]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()


def admit_one(artefact: Artefact, file: Path, workspace: Workspace) -> None:
    """The same for one artefact, in this thread.

    Raises:
        ArtefactRefused: It breaks a rule.
    """
    note = _note(artefact, workspace)
    if not note.exists():
        check(artefact, file)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def check(artefact: Artefact, file: Path) -> None:
    """Looks through one artefact, at the cost of unpacking it into memory piece by piece.

    Raises:
        ArtefactRefused: With what is wrong, at most ten lines of it.
    """
    found: list[Refused] = []
    try:
        for refused in islice(_wrong(artefact, file), _MOST):
            found.append(refused)
    except Refused as refused:
        found.append(refused)
    if found:
        raise problems(ArtefactRefused, shown(artefact.file), [str(refused) for refused in found], _STEP)


def _note(artefact: Artefact, workspace: Workspace) -> Path:
    parts = (str(_REVISION), artefact.distribution, artefact.version, artefact.target, artefact.file, artefact.sha256)
    return workspace.cache / "admitted" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _wrong(artefact: Artefact, path: Path) -> Iterator[Refused]:
    if artefact.file.endswith(".tar.gz"):
        yield from wrong_with_tar(path)
        return
    with path.open("rb") as file, zips.open_zip(file) as archive:
        bad = False
        for refused in zips.wrong_with_directory(archive, file):
            bad = True
            yield refused
        if not bad:  # else places in the file mean nothing
            yield from _wrong_with_content(artefact, file, archive.infolist())


def _wrong_with_content(artefact: Artefact, file: BinaryIO, items: list[ZipInfo]) -> Iterator[Refused]:
    files = {item.filename: item for item in items if not item.is_dir()}
    stated: dict[str, record.Stated] = {}
    if artefact.file.endswith(".whl"):
        info = record.folder([*files], artefact.distribution, artefact.version)
        stated = record.read(_text(file, files, f"{info}/RECORD"), f"{info}/RECORD")
        yield from record.disagreements(info, stated, [*files])
        metadata = _text(file, files, f"{info}/METADATA")
        if reason := record.wrong_with_metadata(metadata, artefact.distribution, artefact.version):
            yield Refused(f"{info}/METADATA", reason)
    for name, item in files.items():
        line = stated.get(name)
        digest, head = record.hasher(line), b""
        for piece in zips.unpacked(file, item):
            head = head or piece[: machines.HEAD]
            if digest:
                digest.update(piece)
        if line and digest and (digest.digest() != line.digest or line.size not in (None, item.file_size)):
            yield Refused(name, "is not the file that RECORD says: another hash or size")
        if artefact.file.endswith(".whl") and (
            reason := machines.wrong_with(head, name, artefact.component, artefact.target)
        ):
            yield Refused(name, reason)


def _text(file: BinaryIO, files: Mapping[str, ZipInfo], name: str) -> bytes:
    if name not in files:
        raise Refused(name, "is missing")
    return record.content(file, files[name])
