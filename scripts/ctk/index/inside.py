"""What is inside a published file, a wheel, another zip or a tar: names, times and texts of its members.

A zip on the index is read in parts, so that its directory comes without the rest.
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
from ctk.package.archives import Refused, open_tar, open_zip

_BLOCK = 1 << 16
_STEP = "ask whoever runs the index for the file as its publisher has it"


@dataclass(frozen=True)
class ArchiveMember:
    """One file inside; `modified` is in seconds since 1970 (a zip's time is taken as UTC), and `content` reads it."""

    name: str
    modified: int
    size: int
    content: Callable[[], bytes]


@contextmanager
def members(stream: BinaryIO, name: str) -> Iterator[tuple[ArchiveMember, ...]]:
    """The files inside an archive of this name, readable until the end of the block; MeasureFailed for a broken one.

    Of a zip only the directory is read, and what is asked for.
    """
    try:
        if name.endswith((".whl", ".zip")):
            with open_zip(stream) as archive:
                infos = [i for i in archive.infolist() if not i.is_dir()]
                yield tuple(
                    ArchiveMember(i.filename, _zip_time(i), i.file_size, partial(archive.read, i)) for i in infos
                )
        else:
            with open_tar(stream) as tar:
                yield tuple(
                    ArchiveMember(m.name, clamped_time(m.mtime), m.size, partial(_tar_content, tar, m))
                    for m in tar.getmembers()
                    if m.isfile()
                )
    except Refused as error:
        raise MeasureFailed(f"{name} cannot be read: {error}", _STEP) from error


def newest(stream: BinaryIO, name: str) -> int:
    """The time of the newest file inside, in seconds since 1970; its errors are those of `members`."""
    with members(stream, name) as files:
        return max((member.modified for member in files), default=EARLIEST)


def metadata_of(files: tuple[ArchiveMember, ...], name: str) -> ArchiveMember:
    """The METADATA of a wheel, or the PKG-INFO of a source distribution; MeasureFailed when there is none."""
    form = r"[^/]+\.dist-info/METADATA" if name.endswith(".whl") else r"[^/]+/PKG-INFO"
    if stated := next((member for member in files if re.fullmatch(form, member.name)), None):
        return stated
    raise MeasureFailed(f"{name} has no METADATA", _STEP)


def _zip_time(info: zipfile.ZipInfo) -> int:
    try:
        return upload_seconds(datetime(*info.date_time, tzinfo=UTC))
    except ValueError:  # a month 0, as some tools write for "no time"
        return EARLIEST


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    return content.read() if content else b""


class RemoteFile(io.RawIOBase):
    """A read-only file, fetched in blocks, each once; whole from a server whose parts are None."""

    def __init__(self, size: int, part: Callable[[int, int], bytes | None], whole: Callable[[], bytes]) -> None:
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
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        parts = []
        while self._position < end:
            number, inside = divmod(self._position, _BLOCK)
            part = self._block(number)[inside : inside + end - self._position]
            if not part:
                raise EOFError(f"it ends before byte {self._position} of the {self._size} that the index states")
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * _BLOCK
            block = self._part(start, min(_BLOCK, self._size - start))
            if block is None:  # a server without ranges: the whole file, once
                whole = self._whole()
                self._blocks = {i: whole[i * _BLOCK : (i + 1) * _BLOCK] for i in range(len(whole) // _BLOCK + 1)}
            else:
                self._blocks[number] = block
        return self._blocks.get(number, b"")


_MEND = "the index, or the project's publisher, has to mend it; nothing was written"


def stated_requirements(metadata: Message) -> list[tuple[str, Requirement | None]]:
    """Each requirement as it is written, and as it is understood: None for one that the standard does not know."""
    return [(line, _requirement(line)) for line in map(str, metadata.get_all("Requires-Dist") or [])]


def read_requirements(metadata: Message, project: str) -> list[Requirement]:
    """Every requirement of a project, which ``project`` names; LockError when one of them cannot be understood."""
    requirements = stated_requirements(metadata)
    for line, requirement in requirements:
        if requirement is None:
            raise LockError(f"{project} requires what the standard does not know: {line!r}", _MEND)
    return [requirement for _, requirement in requirements if requirement]


def applies(requirement: Requirement, environments: Iterable[Mapping[str, str]]) -> bool:
    """Whether the marker of a requirement holds in one of some environments; LockError for one without an answer."""
    marker = requirement.marker
    try:
        return marker is None or any(marker.evaluate(dict(e)) for e in environments)
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise LockError(
            f"the requirement {str(requirement)!r} has a marker without an answer: {error}", _MEND
        ) from error


def _requirement(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


_FORM = "%Y-%m-%dT%H:%M:%SZ"
EARLIEST = int(datetime(1980, 1, 1, tzinfo=UTC).timestamp())
"""Seconds: the oldest time that a zip can state. Also that of what nobody uploaded, such as this machine's Python."""
LATEST = int(datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp())
"""Seconds: the newest time that a zip can state."""


def upload_seconds(moment: datetime) -> int:
    """Whole seconds since 1970, within what a zip can state; a moment without a time zone is UTC, as PEP 700 says."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return clamped_time(aware.timestamp())


def clamped_time(stated: float) -> int:
    """Whole seconds since 1970 within what a zip can state, of a number that may be anything."""
    return int(min(max(stated, EARLIEST), LATEST))


def time_text(uploaded: int) -> str:
    """As a lock states it: ``2025-08-04T12:34:56Z``."""
    return datetime.fromtimestamp(uploaded, UTC).strftime(_FORM)


def parse_time(stated: str) -> int:
    """The seconds of a lock's text; ValueError when it has another form, or is no moment that a zip can state."""
    problem = f"{stated!r} is not a moment in UTC like 2025-08-04T12:34:56Z, from 1980 to 2107"
    try:
        moment = datetime.strptime(stated, _FORM).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(problem) from None
    found = int(moment.timestamp())
    if time_text(found) != stated or not EARLIEST <= found <= LATEST:  # strptime also takes 2025-8-4T1:2:3Z
        raise ValueError(problem)
    return found
