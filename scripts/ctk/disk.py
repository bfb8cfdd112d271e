"""A disk that is full or may not be written, as one error, whoever was writing: Python, rattler or a build's script."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctk.errors import CtkError, NoSpace

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM)
# Rust ends the message of a system's error with its number; programs of a build script print its text.
_RUST = re.compile(r"\(os error (\d+)\)")
_STEP = "free some space and run the command again; everything finished so far is kept"


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns a full or read-only disk into an error that says where, and what to do.

    Args:
        folder: What is being written, for errors that do not name their file.
    """
    try:
        yield
    except CtkError:
        raise
    except OSError as error:
        named = error.filename2 or error.filename  # what was being copied names both
        if (found := _error(error.errno, Path(os.fsdecode(named)) if named else folder)) is not None:
            raise found from error
        raise
    except Exception as error:
        if (found := _error(_number(str(error)), folder)) is not None:
            raise found from error
        raise


def full_disk(log: str, folder: Path) -> NoSpace | None:
    """The error of which a program's output tells, if it tells of a full disk."""
    said = next((number for number in FULL if os.strerror(number) in log), None) or _number(log)
    return _error(said, folder) if said in FULL else None


def _number(text: str) -> int | None:
    return next((int(n) for n in _RUST.findall(text) if int(n) in (*FULL, *CLOSED)), None)


def _error(number: int | None, place: Path) -> NoSpace | None:
    if number == errno.EFBIG:
        return NoSpace(f"a file below {place} would be larger than this process may write", "raise `ulimit -f`")
    if number in FULL:
        there = next(p for p in (place, *place.absolute().parents) if p.exists())
        return NoSpace(f"no space left in {place} ({shutil.disk_usage(there).free / 1e6:.0f} MB free)", _STEP)
    if number in CLOSED:
        return NoSpace(f"cannot write {place}: {os.strerror(number)}", "make it writable, or mend its owner")
    return None
