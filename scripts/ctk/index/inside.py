"""What is inside a published file, a wheel, another zip or a tar: names, times and texts of its members.

A zip on the index is read in parts, so that its directory comes without the rest.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from ctk.core import upload_time
from ctk.core.errors import MeasureFailed
from ctk.package.archives import Refused, open_tar, open_zip

_LONGEST = 4 << 20  # bytes of a text: METADATA and licences are far below it
_BLOCK = 1 << 16
_STEP = "ask whoever runs the index for the file as its publisher has it"


@dataclass(frozen=True)
class ArchiveMember:
    """One file inside.

    Attributes:
        name: Its path in there.
        modified: Seconds since 1970; the time of a zip is taken as UTC.
        size: Bytes, as the archive states them.
        content: Reads it.
    """

    name: str
    modified: int
    size: int
    content: Callable[[], bytes]

    def text(self) -> bytes:
        """Its content, of a file that a person could read; MeasureFailed when it is longer than any such file."""
        if self.size > _LONGEST:
            raise MeasureFailed(f"{self.name} has {self.size} bytes, which is no text", _STEP)
        return self.content()


@contextmanager
def members(stream: BinaryIO, name: str) -> Iterator[tuple[ArchiveMember, ...]]:
    """The files inside a published file, readable until the end of the block; its name says what kind of archive it is.

    Of a zip only the directory is read, and what is asked for.

    Raises:
        MeasureFailed: When it is no archive, or broken.
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
                    ArchiveMember(m.name, upload_time.clamped(m.mtime), m.size, partial(_tar_content, tar, m))
                    for m in tar.getmembers()
                    if m.isfile()
                )
    except Refused as error:
        raise MeasureFailed(f"{name} cannot be read: {error}", _STEP) from error


def newest(stream: BinaryIO, name: str) -> int:
    """The time of the newest file inside, in seconds since 1970; its errors are those of `members`."""
    with members(stream, name) as files:
        return max((member.modified for member in files), default=upload_time.EARLIEST)


def metadata_of(files: tuple[ArchiveMember, ...], name: str) -> ArchiveMember:
    """The METADATA of a wheel, or the PKG-INFO of a source distribution; MeasureFailed when there is none."""
    form = r"[^/]+\.dist-info/METADATA" if name.endswith(".whl") else r"[^/]+/PKG-INFO"
    if stated := next((member for member in files if re.fullmatch(form, member.name)), None):
        return stated
    raise MeasureFailed(f"{name} has no METADATA", _STEP)


def _zip_time(info: zipfile.ZipInfo) -> int:
    try:
        return upload_time.seconds(datetime(*info.date_time, tzinfo=UTC))
    except ValueError:  # a month 0, as some tools write for "no time"
        return upload_time.EARLIEST


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
