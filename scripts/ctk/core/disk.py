"""Disks: a full or unwritable one is one error, whether Python, rattler or a script wrote to it.

Places that cannot be written, or that break packages, are refused before any work is done for them.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ctk.core.errors import BadValue, CtkError, NoSpace
from ctk.core.files import NotPlain

FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# Of a disk, of a network's disk, or of a file that only looks like one.
_FAILING = (errno.EIO, errno.ESTALE)
_NO_PLACE = (errno.ENOENT, errno.EEXIST)  # a folder in /proc, or in the place of a file
_FREE_SPACE = "free some space and run the command again; everything finished so far is kept"
_STEPS = {
    **dict.fromkeys(FULL, _FREE_SPACE),
    errno.EFBIG: "raise `ulimit -f`",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise `ulimit -n`, or use fewer --jobs"),
}
STEP_TO_WRITE = "make it writable, or name a place in a folder that is"
# Rust ends the message of a system's error with its number.
_RUST = re.compile(r"\(os error (\d+)\)")
_NO_ROOM = 1 << 20  # bytes


@contextmanager
def disk_errors(*folders: Path) -> Iterator[None]:
    """Turns errors of a full or unwritable disk into NoSpace.

    `folders` are for errors that do not name their file.
    """
    try:
        yield
    except CtkError:
        raise
    except NotPlain as error:
        step = "put the file in its place, or remove it"
        raise NoSpace(f"cannot read {error.filename}: {error.strerror}", step) from error
    except Exception as error:
        number, places = _number_and_places(error, folders)
        disk_error = _disk_error(number, *places) if places else None
        if disk_error:
            raise disk_error from error
        if number in _FAILING:
            place = f" at {places[0]}" if places else ""
            cause = f"a file{place}: {os.strerror(number)}"
            raise NoSpace(cause, "name another place, or check the disk") from error
        raise


def _number_and_places(
    error: Exception, folders: tuple[Path, ...]
) -> tuple[int | None, tuple[Path, ...]]:
    """The errno of an error, and the places that it may be about, the likeliest first."""
    if not isinstance(error, OSError):
        return _number(str(error)), (*folders, Path(tempfile.gettempdir()))
    named = error.filename2 or error.filename  # an error of copying names both files
    if not named:
        return error.errno, folders
    return error.errno, (Path(os.fsdecode(named)),)


def full_disk(log: str, folder: Path) -> NoSpace | None:
    """The error for a failed program's output, if a disk is full; the program worked in `folder`.

    The full disk may also be that of temporary files. Some programs do not print the system's
    error: then a disk with next to no free space is the reason.
    """
    places = (folder, Path(tempfile.gettempdir()))
    number = _number(log)
    if number is None and min(map(_free, places)) < _NO_ROOM:
        return NoSpace(f"a file could not be written: {_free_space(places)}", _FREE_SPACE)
    return _disk_error(number, *places) if number in FULL else None


BREAKING = "'\"\\`$:"
"""Characters that no path of an environment or a build may have.

Control characters and bytes that are not UTF-8 are refused too. Packages write the path unquoted
into Python files, shell scripts, #! lines, .pc files and PATH. Other ASCII characters, spaces,
letters of other languages and paths of 500 bytes work: they were tried.
"""
_BREAKING = re.compile(rf"[{re.escape(BREAKING)}\x00-\x1f\x7f\ud800-\udfff]")


def refuse_breaking_path(place: Path, step: str, error: type[CtkError] = BadValue) -> None:
    """Refuses a place whose real path would break packages that are installed or built there."""
    path = os.path.realpath(place)
    found = _BREAKING.search(path)
    if found:
        raise error(f"{path} has {found[0]!r} in it, and would break files of packages", step)


def refuse_unwritable(place: Path) -> None:
    """Raises NoSpace for a place that cannot be written, before work is done for it."""
    reason = _refusal(place.parent)
    if reason:
        step = "name a place in a folder that can be written"
        raise NoSpace(f"cannot write {place}: {reason}", step)


def refuse_unreadable(*places: Path) -> None:
    """Raises NoSpace for a file or folder that this user may not read.

    A search would silently skip it.
    """
    for place in places:
        if _is_unreadable(place):
            raise _cannot_read(place, errno.EACCES)


def _is_unreadable(place: Path) -> bool:
    try:
        return not os.access(place, os.R_OK | os.X_OK * place.is_dir()) and place.exists()
    except PermissionError:  # of a folder above it
        return True
    except OSError:  # its name is too long
        return False


def _number(text: str) -> int | None:
    """The errno in the message of a Rust program, or of a full disk in any program's."""
    for digits in _RUST.findall(text):
        number = int(digits)
        if number in _STEPS or number in _DENIED:
            return number
    for number in FULL:
        if os.strerror(number) in text:
            return number
    return None


def _free(place: Path) -> int:
    """The free bytes of the disk that a place is on, or will be on once it is made."""
    existing = next(path for path in (place, *place.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def _free_space(places: Iterable[Path]) -> str:
    return " or ".join(f"{place} ({_free(place) / 1e6:.0f} MB free)" for place in places)


def _disk_error(number: int | None, *places: Path) -> NoSpace | None:
    """The error for an errno, at one of these places; None if it is not the disk's."""
    if number in _STEPS:
        return NoSpace(f"{os.strerror(number)}: {_free_space(places)}", _STEPS[number])
    if number == errno.ENAMETOOLONG:
        return NoSpace(f"the name is too long: {str(places[0])[:100]}...", "choose a shorter one")
    has_no_place = number in _NO_PLACE and bool(_refusal(places[0]))
    if number is None or (number not in _DENIED and not has_no_place):
        return None
    if _is_unreadable(places[0]):
        return _cannot_read(places[0], number)
    unwritable = next(filter(_refusal, places), places[0])
    return NoSpace(f"cannot write {unwritable}: {os.strerror(number)}", STEP_TO_WRITE)


def _cannot_read(place: Path, number: int) -> NoSpace:
    step = f"ask its owner, or run `chmod a+rX {shlex.quote(str(place))}`"
    return NoSpace(f"cannot read {place}: {os.strerror(number)}", step)


def _refusal(place: Path) -> str:
    """The system's reason why no file can be made at a place; empty if one can."""
    paths = (place, *place.absolute().parents)
    try:
        parent = next(path for path in paths if path.exists() or path.is_symlink())
        os.rmdir(tempfile.mkdtemp(prefix=".ctk-", dir=parent))
    except OSError as error:  # `exists` raises it for too long a name
        return os.strerror(error.errno or 0)
    return ""
