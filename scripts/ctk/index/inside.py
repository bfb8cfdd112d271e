"""What is inside a published file, a wheel, another zip or a tar: names, times and texts of its members."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Member:
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
        """Its content, of a file that a person could read.

        Raises:
            MeasureFailed: When it is longer than any such file.
        """
        if self.size > _LONGEST:
            raise MeasureFailed(f"{self.name} has {self.size} bytes, which is no text", _STEP)
        return self.content()


_STEP = "ask whoever runs the index for the file as its publisher has it"


@contextmanager
def members(stream: BinaryIO, name: str) -> Iterator[tuple[Member, ...]]:
    """The files inside a published file; they can be read until the end of the block.

    Args:
        stream: The published file, seekable; of a zip only its directory is read, and what is asked for.
        name: Its name, which says what it is, and for errors.

    Raises:
        MeasureFailed: When it is no archive, or broken.
    """
    try:
        if name.endswith((".whl", ".zip")):
            with open_zip(stream) as archive:
                infos = [i for i in archive.infolist() if not i.is_dir()]
                yield tuple(Member(i.filename, _zip_time(i), i.file_size, partial(archive.read, i)) for i in infos)
        else:
            with open_tar(stream) as tar:
                files = [m for m in tar.getmembers() if m.isfile()]
                yield tuple(
                    Member(m.name, upload_time.clamped(m.mtime), m.size, partial(_tar_content, tar, m)) for m in files
                )
    except Refused as error:
        raise MeasureFailed(f"{name} cannot be read: {error}", _STEP) from error


def newest(stream: BinaryIO, name: str) -> int:
    """The time of the newest file inside, in seconds since 1970; its arguments and errors are those of `members`."""
    with members(stream, name) as found:
        return max((member.modified for member in found), default=upload_time.EARLIEST)


def metadata_of(found: tuple[Member, ...], name: str) -> Member:
    """The METADATA of a wheel, or the PKG-INFO of a source distribution.

    Raises:
        MeasureFailed: When there is none.
    """
    form = r"[^/]+\.dist-info/METADATA" if name.endswith(".whl") else r"[^/]+/PKG-INFO"
    if stated := next((member for member in found if re.fullmatch(form, member.name)), None):
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
