"""When a publisher uploaded a file: what locks state, and what stands in for it where an index does not say.

Packages carry it as their time, so it is a property of the file alone and never the moment of a build.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from datetime import UTC, datetime
from typing import BinaryIO

from ctk.errors import MeasureFailed

_FORM = "%Y-%m-%dT%H:%M:%SZ"
EARLIEST = int(datetime(1980, 1, 1, tzinfo=UTC).timestamp())
"""Seconds: the oldest time that a zip can state. Also that of what nobody uploaded, such as this machine's Python."""
LATEST = int(datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp())
"""Seconds: the newest time that a zip can state."""


def seconds(moment: datetime) -> int:
    """Whole seconds since 1970, within what a zip can state; a moment without a time zone is UTC, as PEP 700 says."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _clamped(aware.timestamp())


def text(uploaded: int) -> str:
    """As a lock states it: ``2025-08-04T12:34:56Z``."""
    return datetime.fromtimestamp(uploaded, UTC).strftime(_FORM)


def parse(stated: str) -> int:
    """The seconds of a lock's text.

    Raises:
        ValueError: When it has another form, names no moment, or one that no zip can state.
    """
    problem = f"{stated!r} is not a moment in UTC like 2025-08-04T12:34:56Z, from 1980 to 2107"
    try:
        moment = datetime.strptime(stated, _FORM).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(problem) from None
    found = int(moment.timestamp())
    if text(found) != stated or not EARLIEST <= found <= LATEST:  # strptime also takes 2025-8-4T1:2:3Z
        raise ValueError(problem)
    return found


def of_newest_member(stream: BinaryIO, name: str) -> int:
    """The time of the newest file inside a wheel, another zip or a tar; the times of a zip are taken as UTC.

    Args:
        stream: The file, seekable; of a zip only the directory at its end is read.
        name: Its name, for errors.

    Raises:
        MeasureFailed: When it is none of these.
    """
    try:
        if name.endswith((".whl", ".zip")):
            with zipfile.ZipFile(stream) as archive:
                found = [_zip_time(member) for member in archive.infolist()]
        else:
            with tarfile.open(fileobj=stream) as archive:
                found = [_clamped(member.mtime) for member in archive if member.isfile()]
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        step = "ask whoever runs the index for the file as its publisher has it"
        raise MeasureFailed(f"{name} cannot be read: {error}", step) from error
    return max(found, default=EARLIEST)


def _clamped(stated: float) -> int:
    """Whole seconds within what a zip can state, of a number that may be anything."""
    return int(min(max(stated, EARLIEST), LATEST))


def _zip_time(member: zipfile.ZipInfo) -> int:
    try:
        return seconds(datetime(*member.date_time, tzinfo=UTC))
    except ValueError:  # a month 0, as some tools write for "no time"
        return EARLIEST
