"""The sha256 of files. A run reads each file once for it, and takes nothing over from an earlier run."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

_read: dict[tuple[int, int, int, int], str] = {}


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex digits.

    A file that this process hashed before, and that did not change, is not read again, nor a hard link to it.
    """
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in _read:
            _read[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return _read[key]


def holds(path: Path, sha256: str, size: int | None = None) -> bool:
    """Whether a regular file is there that has this sha256, and this size in bytes where one is given."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or size not in (None, status.st_size):
            return False
        return file_sha256(path) == sha256
    except OSError:
        return False
