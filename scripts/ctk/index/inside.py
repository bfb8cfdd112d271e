"""The members of published files: wheels, other zips, and tars.

Of a zip on the index, only its directory and the wanted members are fetched.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from functools import partial
from typing import BinaryIO

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from ctk.core.errors import LockError, MeasureFailed
from ctk.core.times import EARLIEST, clamped_time, upload_seconds
from ctk.package.archives import Refused, open_tar, open_zip

_BLOCK = 1 << 16
_STEP = "ask whoever runs the index for the file as its publisher has it"


@dataclass(frozen=True)
class ArchiveMember:
    """A file in an archive.

    `modified` is in seconds since 1970 (zips have no time zone: UTC), `content` reads it.
    """

    name: str
    modified: int
    size: int
    content: Callable[[], bytes]


@contextmanager
def members(stream: BinaryIO, name: str) -> Iterator[tuple[ArchiveMember, ...]]:
    """The files in an archive of this name, readable until the end of the block.

    MeasureFailed for a broken archive.
    """
    try:
        if name.endswith((".whl", ".zip")):
            with open_zip(stream) as archive:
                infos = [i for i in archive.infolist() if not i.is_dir()]
                yield tuple(
                    ArchiveMember(i.filename, _zip_time(i), i.file_size, partial(archive.read, i))
                    for i in infos
                )
        else:
            with open_tar(stream) as tar:
                yield tuple(
                    ArchiveMember(
                        m.name, clamped_time(m.mtime), m.size, partial(_tar_content, tar, m)
                    )
                    for m in tar.getmembers()
                    if m.isfile()
                )
    except Refused as error:
        raise MeasureFailed(f"{name} cannot be read: {error}", _STEP) from error


def metadata_of(files: tuple[ArchiveMember, ...], name: str) -> ArchiveMember:
    """The METADATA of a wheel, or the PKG-INFO of a source distribution.

    MeasureFailed if it is missing.
    """
    form = r"[^/]+\.dist-info/METADATA" if name.endswith(".whl") else r"[^/]+/PKG-INFO"
    if stated := next((member for member in files if re.fullmatch(form, member.name)), None):
        return stated
    raise MeasureFailed(f"{name} has no METADATA", _STEP)


def _zip_time(info: zipfile.ZipInfo) -> int:
    try:
        return upload_seconds(datetime(*info.date_time, tzinfo=UTC))
    except ValueError:  # some tools write month 0 for "no time"
        return EARLIEST


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    return content.read() if content else b""


class RemoteFile(io.RawIOBase):
    """A read-only file, fetched in blocks, each once.

    Args:
        size: Bytes.
        part: Returns some bytes; None from a server without ranges.
        whole: Returns all bytes, for such a server.
    """

    def __init__(
        self, size: int, part: Callable[[int, int], bytes | None], whole: Callable[[], bytes]
    ) -> None:
        self._size, self._part, self._whole = size, part, whole
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = (
            offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        )
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        parts = []
        while self._position < end:
            number, inside = divmod(self._position, _BLOCK)
            part = self._block(number)[inside : inside + end - self._position]
            if not part:
                raise EOFError(
                    f"it ends before byte {self._position} of the {self._size} that the index"
                    " states"
                )
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * _BLOCK
            block = self._part(start, min(_BLOCK, self._size - start))
            if block is None:
                whole = self._whole()
                self._blocks = {
                    i: whole[i * _BLOCK : (i + 1) * _BLOCK] for i in range(len(whole) // _BLOCK + 1)
                }
            else:
                self._blocks[number] = block
        return self._blocks.get(number, b"")


_FIX = "the index, or the project's publisher, has to fix it; nothing was written"


def stated_requirements(metadata: Message) -> list[tuple[str, Requirement | None]]:
    """Each requirement as text, and parsed; None for an invalid one."""
    return [
        (line, _requirement(line)) for line in map(str, metadata.get_all("Requires-Dist") or [])
    ]


def read_requirements(metadata: Message, project: str) -> list[Requirement]:
    """The requirements of a project; LockError, with its name, for an invalid one."""
    requirements = stated_requirements(metadata)
    for line, requirement in requirements:
        if requirement is None:
            raise LockError(
                f"{project} has a requirement that the standard does not know: {line!r}", _FIX
            )
    return [requirement for _, requirement in requirements if requirement]


def applies(requirement: Requirement, environments: Iterable[Mapping[str, str]]) -> bool:
    """Whether a requirement's marker is true in one of the environments.

    LockError if it cannot be evaluated.
    """
    marker = requirement.marker
    try:
        return marker is None or any(marker.evaluate(dict(e)) for e in environments)
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise LockError(
            f"the marker of {str(requirement)!r} cannot be evaluated: {error}", _FIX
        ) from error


def _requirement(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except (InvalidRequirement, RecursionError):  # of a thousand brackets
        return None
