"""A place that is full or takes no files, as one error, whoever was writing: Python, rattler or a build's script."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctk.core.errors import CtkError, NoSpace

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM)
MANY = (errno.EMFILE, errno.ENFILE)
# Said of a folder that is not there, and of one that cannot be: below a file, in /proc.
NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# Rust ends the message of a system's error with its number; programs of a build script print its text.
_RUST = re.compile(r"\(os error (\d+)\)")
# What rattler-build says where it has lost the number: the archive is written to the folder for temporary files first.
_NUMBERLESS = "Could not open or create, or write to file"
_STEP = "free some space and run the command again; everything finished so far is kept"


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns a full or read-only disk, and a place where nothing can be, into an error that says where, and what to do.

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
        if (found := _error(_number(str(error)), folder, _temporary())) is not None:
            raise found from error
        raise


def full_disk(log: str, folder: Path) -> NoSpace | None:
    """The error of which a program's output tells, if it tells of a full disk.

    Args:
        log: What the program wrote.
        folder: Where it was at work. What it writes may be below the folder for temporary files too, and its words
            seldom say which, so the error names both.
    """
    said = next((number for number in FULL if os.strerror(number) in log), None) or _number(log)
    if said is None and _NUMBERLESS in log:
        return NoSpace(f"a file could not be written in {_rooms(folder, _temporary())}", _STEP)
    return _error(said, folder, _temporary()) if said in FULL else None


def _number(text: str) -> int | None:
    return next((int(n) for n in _RUST.findall(text) if int(n) in (*FULL, *CLOSED, *MANY)), None)


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # Python looks for one that it can write to
        return Path(os.environ.get("TMPDIR") or "/tmp")


def _rooms(*places: Path) -> str:
    """Where something was written and the room there, each file system once, that with the least room first."""
    found: dict[int, tuple[int, str]] = {}
    for place in places:
        there = next(p for p in (place, *place.absolute().parents) if p.exists())
        free = shutil.disk_usage(there).free
        found.setdefault(there.stat().st_dev, (free, f"{place} ({free / 1e6:.0f} MB free)"))
    return " or ".join(text for _, text in sorted(found.values()))


def _error(number: int | None, *places: Path) -> NoSpace | None:
    """The error of a number; of the places, what was being written is in one."""
    place = places[0]
    if number == errno.EFBIG:
        return NoSpace(f"a file below {place} would be larger than this process may write", "raise `ulimit -f`")
    if number in MANY:
        return NoSpace("no more files can be opened", "raise `ulimit -n`, or use fewer --jobs")
    if number in FULL:
        return NoSpace(f"no space left in {_rooms(*places)}", _STEP)
    if number in CLOSED:
        return NoSpace(f"cannot write {place}: {os.strerror(number)}", "make it writable, or mend its owner")
    if number in NOWHERE and (why := _refusal(place)):
        return NoSpace(f"cannot write {place}: {why}", "name a place in a folder that takes files")
    return None


def check_place(place: Path) -> None:
    """Refuses a place where nothing can be written, before work is done for it.

    Raises:
        NoSpace: A folder above it takes no files, or is no folder.
    """
    if why := _refusal(place.parent):
        raise NoSpace(f"cannot write {place}: {why}", "name a place in a folder that takes files")


def _refusal(place: Path) -> str:
    """Why nothing can be made at a place; empty where it can: then something else is missing, which is a mistake."""
    there = place.absolute()
    while not os.path.lexists(there):  # of a name that no file system takes, too
        there = there.parent
    if there.exists() and not there.is_dir():
        return f"{there} is no folder"
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".ctk-", dir=there))
    except OSError as error:
        return f"{there} takes no new files ({os.strerror(error.errno or 0)})"
    longest = max((len(os.fsencode(part)) for part in place.parts), default=0)
    return f"a name of {longest} bytes is too long" if longest > os.pathconf(there, "PC_NAME_MAX") else ""
