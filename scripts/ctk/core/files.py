"""Files: atomic writes, hashes, errors of disks, locks, and temporary folders."""

from __future__ import annotations

import atexit
import errno
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, CtkError, NoSpace
from ctk.core.inside import wrong_with

if TYPE_CHECKING:
    from filelock import FileLock

# Writing: a reader sees the old file or the whole new one, and has the permission to read it.


def share(path: Path) -> None:
    """Lets everybody read a file or folder, and only its owner write it, whatever the umask is."""
    mode = stat.S_IMODE(path.stat().st_mode)
    # A folder's setgid bit stays: new files in it get its group.
    wanted = mode & stat.S_ISGID | 0o755 if path.is_dir() else 0o644
    if mode != wanted:
        path.chmod(wanted)


def make_folder(path: Path) -> None:
    """Makes a folder that everybody may read, and its parents; existing ones stay as they are."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        share(path)


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file by one rename, after its bytes are on the disk."""
    _replace(path, [content], lambda: True)


def copy_file(source: Path, target: Path, sha256: str) -> bool:
    """Copies a file as `replace_file` does.

    Returns False, and changes nothing, if its sha256 is another one.
    """
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        with open_plain(source) as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                yield chunk

    return _replace(target, chunks(), lambda: digest.hexdigest() == sha256)


def temporaries(folder: Path) -> Iterator[Path]:
    """Half-written files of killed runs in a folder."""
    return (path for path in folder.glob(".*.part") if path.is_file())


def _replace(path: Path, chunks: Iterable[bytes], is_right: Callable[[], bool]) -> bool:
    # Hidden, so that no indexer takes it for a package; beside the target, so that it can be
    # renamed.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            stream.writelines(chunks)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        with suppress(OSError):  # on a full disk, it would keep its space
            temporary.unlink()
        raise
    if not is_right():
        temporary.unlink()
        return False
    share(temporary)
    os.replace(temporary, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)  # makes the rename last
    finally:
        os.close(handle)
    return True


# Reading: a pipe has no end, a device may have none either, and neither is waited for.


class NotPlain(OSError):
    """What should be a file is a pipe, a device or a socket."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "it is a pipe, a device or a socket, and no file", path)


def open_plain(path: Path) -> BufferedReader:
    """Opens a file that somebody else may have put there, also behind a link.

    Raises:
        NotPlain: It is a pipe, a device or a socket.
        OSError: It cannot be opened, or is a folder.
    """
    return open(path, "rb", opener=_open_plain)


def _open_plain(path: str, flags: int) -> int:
    try:
        number = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise NotPlain(path) from None
        raise
    kind = os.fstat(number).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # `open` refuses a folder
        return number
    os.close(number)
    raise NotPlain(path)


def read_plain(path: Path) -> bytes:
    """The content of such a file; errors as of `open_plain`."""
    with open_plain(path) as file:
        return file.read()


def read_plain_text(path: Path) -> str:
    """The same as text, with line ends as in Python.

    Errors as of `open_plain`, or UnicodeDecodeError.
    """
    with open_plain(path) as file, io.TextIOWrapper(file, encoding="utf-8") as text:
        return text.read()


def is_odd(path: Path) -> bool:
    """Whether a path is a pipe, a device or a socket, or leads to one."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)


def odd_below(folder: Path) -> Iterator[Path]:
    """The pipes, devices and sockets below a folder; a link to a folder is not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if is_odd(path := Path(parent, name)):
                yield path


# Hashes: a process reads each file once for its sha256.

_hashes: dict[tuple[int, int, int, int], str] = {}


def file_sha256(file: Path | BufferedReader) -> str:
    """The sha256 of a path, or of a stream at its beginning.

    A file with several hard links is read once.
    """
    status = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    key = _key(status)
    if key in _hashes:
        return _hashes[key]
    if isinstance(file, Path):
        with open_plain(file) as stream:
            return file_sha256(stream)
    _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def _key(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def holds(path: Path, sha256: str, size: int | None = None) -> bool:
    """Whether a path is a regular file with this sha256, and with this size in bytes if one is
    given.
    """
    try:
        status = path.lstat()
        return (
            stat.S_ISREG(status.st_mode)
            and size in (None, status.st_size)
            and file_sha256(path) == sha256
        )
    except OSError:
        return False


class HashNotes:
    """Sha256 of the packages of a checkout, kept between runs: a package is read again when it has
    changed.

    A file is identified by inode, size and ctime, which only the kernel sets: in a copied or
    restored cache, every file is read again.
    """

    _MOST = 20_000

    def __init__(self, file: Path) -> None:
        self._file = file
        self._noted: dict[str, str] = read_json(file) or {}
        self._right: dict[Path, str] = {}

    @classmethod
    @cache
    def of(cls, workspace: Workspace) -> HashNotes:
        return cls(workspace.notes / "read.json")

    def holds(self, path: Path, sha256: str) -> bool:
        """Whether a path is a regular file with this sha256."""
        with suppress(OSError):
            if self._noted.get(self._stamp(path)) == sha256:
                _hashes[_key(path.stat())] = sha256
        found = holds(path, sha256)
        if found:
            self._right[path] = sha256
        return found

    def save(self, made: Mapping[Path, str]) -> None:
        """Notes the packages that this run checked or made.

        A new hard link has changed their ctime since.
        """
        for path, sha256 in {**self._right, **made}.items():
            with suppress(OSError):
                self._noted[self._stamp(path)] = sha256
        newest = dict(list(self._noted.items())[-self._MOST :])
        with suppress(OSError):
            make_folder(self._file.parent)
            replace_file(self._file, json.dumps(newest).encode())

    @staticmethod
    def _stamp(path: Path) -> str:
        status = path.lstat()
        return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


# JSON files that a run leaves for the next one: a damaged one counts as missing.

LARGEST = 64 << 20
"""Bytes of a JSON file that is read."""


def read_json(file: Path) -> Any:
    """The content of a JSON file; None if it is missing, too large or damaged."""
    try:
        with open_plain(file) as content:
            text = content.read(LARGEST + 1)
        return json.loads(text) if len(text) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def listed_packages(note: Any) -> dict[str, str] | None:
    """The packages in the note of a build: paths below its folder, and their sha256.

    None for an invalid note, and for one that names what is outside of the folder.
    """
    listed = note.get("packages") if isinstance(note, Mapping) else None
    if not isinstance(listed, Mapping) or any(map(wrong_with, listed)):
        return None
    return dict(listed)


# Disks: a full or unwritable disk is one error, whether Python, rattler or a build script wrote to
# it.

FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_FAILING = (
    errno.EIO,
    errno.ESTALE,
)  # of a disk, of a network's disk, or of a file that only looks like one
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
        if isinstance(error, OSError):
            named = error.filename2 or error.filename  # an error of copying names both files
            number, places = error.errno, (Path(os.fsdecode(named)),) if named else folders
        else:
            number, places = _number(str(error)), (*folders, Path(tempfile.gettempdir()))
        if places and (found := _disk_error(number, *places)):
            raise found from error
        if number in _FAILING:
            where = f" at {places[0]}" if places else ""
            raise NoSpace(
                f"a file{where}: {os.strerror(number)}", "name another place, or check the disk"
            ) from error
        raise


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
"""Characters that no path of an environment or a build may have, nor control characters or bytes
that are not UTF-8.

Packages write the path unquoted into Python files, shell scripts, #! lines, .pc files and PATH.
Other ASCII characters, spaces, letters of other languages and paths of 500 bytes work: they were
tried.
"""


def check_path(place: Path, step: str, error: type[CtkError] = BadValue) -> None:
    """Refuses a place whose real path would break packages that are installed or built there."""
    path = os.path.realpath(place)
    if found := re.search(rf"[{re.escape(BREAKING)}\x00-\x1f\x7f\ud800-\udfff]", path):
        raise error(f"{path} has {found[0]!r} in it, and would break files of packages", step)


def check_place(place: Path) -> None:
    """Raises NoSpace for a place that cannot be written, before work is done for it."""
    if why := _refusal(place.parent):
        raise NoSpace(
            f"cannot write {place}: {why}", "name a place in a folder that can be written"
        )


def check_readable(*places: Path) -> None:
    """Raises NoSpace for a file or folder that this user may not read: a search would silently skip
    it.
    """
    for place in places:
        if _is_unreadable(place):
            raise _cannot("read", place, errno.EACCES)


def _is_unreadable(place: Path) -> bool:
    try:
        return not os.access(place, os.R_OK | os.X_OK * place.is_dir()) and place.exists()
    except PermissionError:  # of a folder above it
        return True
    except OSError:  # its name is too long
        return False


def _number(text: str) -> int | None:
    """The errno in the message of a Rust program, or of a full disk in any program's."""
    found = [number for number in map(int, _RUST.findall(text)) if number in (*_STEPS, *_DENIED)]
    found += [number for number in FULL if os.strerror(number) in text]
    return found[0] if found else None


def _free(place: Path) -> int:
    return shutil.disk_usage(next(p for p in (place, *place.absolute().parents) if p.exists())).free


def _free_space(places: Iterable[Path]) -> str:
    return " or ".join(f"{place} ({_free(place) / 1e6:.0f} MB free)" for place in places)


def _disk_error(number: int | None, *places: Path) -> NoSpace | None:
    """The error for an errno, at one of these places; None if it is not the disk's."""
    if number in _STEPS:
        return NoSpace(f"{os.strerror(number)}: {_free_space(places)}", _STEPS[number])
    if number == errno.ENAMETOOLONG:
        return NoSpace(f"the name is too long: {str(places[0])[:100]}...", "choose a shorter one")
    if number not in _DENIED and not (number in _NO_PLACE and _refusal(places[0])):
        return None
    if _is_unreadable(places[0]):
        return _cannot("read", places[0], number)
    return _cannot("write", next(filter(_refusal, places), places[0]), number)


def _cannot(what: str, place: Path, number: int) -> NoSpace:
    step = (
        STEP_TO_WRITE
        if what == "write"
        else f"ask its owner, or run `chmod a+rX {shlex.quote(str(place))}`"
    )
    return NoSpace(f"cannot {what} {place}: {os.strerror(number)}", step)


def _refusal(place: Path) -> str:
    """The system's reason why no file can be made at a place; empty if one can."""
    try:
        parent = next(p for p in (place, *place.absolute().parents) if p.exists() or p.is_symlink())
        os.rmdir(tempfile.mkdtemp(prefix=".ctk-", dir=parent))
    except OSError as error:  # `exists` raises it for too long a name
        return os.strerror(error.errno or 0)
    return ""


# Locks: one run at a time in a checkout, and at a channel. A killed run leaves none behind: the
# system releases them.


@contextmanager
def exclusive(workspace: Workspace, say: Callable[[str], None]) -> Iterator[None]:
    """Takes the checkout's lock, after any other run; `say` is told of one."""
    with alone(workspace.own_cache / "run.lock", "in this checkout", say):
        yield


@contextmanager
def publishing(channel: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Takes a channel's lock, from reading its state to replacing it: other checkouts may publish
    there, too.
    """
    with alone(channel.with_name(f".{channel.name}.lock"), f"at {channel}", say):
        yield


@contextmanager
def alone(file: Path, where: str, say: Callable[[str], None]) -> Iterator[None]:
    """Takes the lock in a file, after any other run.

    `where` is for messages: ``in this checkout``.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(file)
    with disk_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another run is at work {where}; waiting for it to end")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


# Temporary folders: a lock beside each tells the next run whether a killed run left it.

_held: dict[Path, FileLock] = {}


def use_temporary_folder(workspace: Workspace) -> None:
    """Puts temporary files below the cache, or below TMPDIR if that is set, until this process
    ends.

    Outside a checkout, or if no folder can be made, they stay where the system has them.
    """
    stated = os.environ.get("TMPDIR")
    if not stated and not workspace.recipes.is_dir():
        return
    home = workspace.temporary
    if stated:
        home = Path(stated).absolute() / f"{workspace.name}-{os.getuid()}"
    with suppress(OSError):
        folder = hold_folder(home)
        atexit.register(release_folders)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


def hold_folder(home: Path, leave: Callable[[Path], None] = lambda folder: None) -> Path:
    """An empty folder for this process below `home`.

    Folders of killed processes are removed, after `leave`.

    Raises:
        OSError: It cannot be made, or `home` belongs to another user.
    """
    from filelock import FileLock

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(home))
    for killed in left(home):
        leave(killed)
        shutil.rmtree(killed, ignore_errors=True)
        killed.with_suffix(".lock").unlink(missing_ok=True)
    folder = home / uuid.uuid4().hex
    lock = FileLock(folder.with_suffix(".lock"))
    lock.acquire()
    _held[folder] = lock  # first: an interrupt may come between the two
    folder.mkdir()
    return folder


def left(home: Path) -> Iterator[Path]:
    """The folders of killed processes below `home`, each locked while it is yielded."""
    from filelock import FileLock, Timeout

    for file in home.glob("*.lock"):
        with suppress(Timeout), FileLock(file, timeout=0):
            yield file.with_suffix("")


def release_folder(folder: Path) -> None:
    """Removes a folder of `hold_folder`, and `home` if it is empty."""
    lock = _held.pop(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():  # else a thread still writes into it, and the next run removes it
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        folder.parent.rmdir()


def release_folders() -> None:
    """Removes every folder that this process holds."""
    for folder in list(_held):
        release_folder(folder)


@contextmanager
def held(home: Path) -> Iterator[Path]:
    """A folder of `hold_folder`, which is removed at the end of the block."""
    with disk_errors(home):
        folder = hold_folder(home)
    try:
        yield folder
    finally:
        release_folder(folder)
