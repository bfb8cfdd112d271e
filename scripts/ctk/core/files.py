"""Files: replaced as a whole, hashed once, locked while a run uses them, and removed with the run that made them."""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace, takes_files, workspace
from ctk.core.errors import BadValue, Busy, CtkError, NoSpace

if TYPE_CHECKING:
    from filelock import FileLock

# Writing: a reader sees the old file or the whole new one, and may read it.


def share(path: Path) -> None:
    """Lets everybody read a file or a folder of ours, and nobody else write it, whatever the umask was."""
    mode = stat.S_IMODE(path.stat().st_mode)
    # A folder hands its group on to what is made in it, where it is set to.
    wanted = mode & stat.S_ISGID | 0o755 if path.is_dir() else 0o644
    if mode != wanted:
        path.chmod(wanted)


def make_folder(path: Path) -> None:
    """Makes a folder for everybody to read, and its parents; existing ones stay as they are."""
    if not path.is_dir():
        make_folder(path.parent)
        with suppress(FileExistsError):
            path.mkdir()
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "there is something else", str(path))
        share(path)


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in place by one rename, its bytes on the disk before that."""
    _replace(path, [content], lambda: True)


def copy_file(source: Path, target: Path, sha256: str) -> bool:
    """As `replace_file`, with the bytes of another file; does nothing and returns False if they have another sha256."""
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        with source.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                yield chunk

    return _replace(target, chunks(), lambda: digest.hexdigest() == sha256)


def temporaries(folder: Path) -> Iterator[Path]:
    """Half written files that killed runs left in a folder."""
    return (path for path in folder.glob(".*.part") if path.is_file())


def _replace(path: Path, chunks: Iterable[bytes], is_right: Callable[[], bool]) -> bool:
    # Hidden: no indexer takes it for a package. Beside the target: it can be renamed.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with temporary.open("wb") as stream:
        stream.writelines(chunks)
        stream.flush()
        os.fsync(stream.fileno())
    if not is_right():
        temporary.unlink()
        return False
    share(temporary)
    os.replace(temporary, path)
    if os.name == "posix":  # makes the rename last
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return True


# Hashes: a run reads each file once for its sha256, and takes nothing over from an earlier run.

_hashes: dict[tuple[int, int, int, int], str] = {}


def file_sha256(file: Path | BufferedReader) -> str:
    """The sha256 of a path, or of a stream at its beginning; what did not change is read once, hard links too."""
    status = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    key = _key(status)
    if key in _hashes:
        return _hashes[key]
    if isinstance(file, Path):
        with file.open("rb") as stream:
            return file_sha256(stream)
    _hashes[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hashes[key]


def _key(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def holds(path: Path, sha256: str, size: int | None = None) -> bool:
    """Whether a path is a regular file with this sha256, and this size in bytes where one is given."""
    try:
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and size in (None, status.st_size) and file_sha256(path) == sha256
    except OSError:
        return False


class HashNotes:
    """Which packages of a checkout were read and found right: they are read again when something has written to them.

    A file is known by inode, size and time of change (ctime), which only the kernel sets, whatever is done to it: in a
    copied or restored cache, every file is another one.
    """

    _MOST = 20_000
    _TICK = 50_000_000  # nanoseconds after a change, in which another one may have the same time

    def __init__(self, file: Path) -> None:
        self._file = file
        noted = read_json(file)
        self._noted: dict[str, Any] = noted if isinstance(noted, dict) else {}
        self._right: dict[Path, str] = {}

    @classmethod
    @cache
    def of(cls, workspace: Workspace) -> HashNotes:
        return cls(workspace.cache / "read.json")

    def holds(self, path: Path, sha256: str) -> bool:
        """As the function of this name, which reads the file."""
        if self._noted.get(self._stamp(path)) == sha256:
            _hashes[_key(path.stat())] = sha256
        found = holds(path, sha256)
        if found:
            self._right[path] = sha256
        return found

    def save(self, made: Mapping[Path, str]) -> None:
        """Notes what is right, and what this run made, for the next runs: as far as it is still what this run read."""
        self._right.update(made)
        for path, sha256 in self._right.items():
            # Links change the time that a stamp has, and not the one by which this process knows what it read.
            with suppress(OSError):
                if (stamp := self._stamp(path)) and _hashes.get(_key(path.stat())) == sha256:
                    self._noted[stamp] = sha256
        newest = dict(list(self._noted.items())[-self._MOST :])
        with suppress(OSError):
            replace_file(self._file, json.dumps(newest).encode())

    def _stamp(self, path: Path) -> str:
        try:
            status = path.lstat()
        except OSError:
            return ""
        if not stat.S_ISREG(status.st_mode) or time.time_ns() - status.st_ctime_ns < self._TICK:
            return ""
        return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


# JSON notes that a run leaves for the next one: a damaged one counts as missing.

LARGEST = 64 << 20
"""Bytes: far beyond what any run notes."""


def read_json(file: Path) -> Any:
    """The content of a JSON note; None for a file that is missing, too large or damaged."""
    try:
        with file.open("rb") as content:
            text = content.read(LARGEST + 1)
        return json.loads(text) if len(text) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None


def listed_packages(note: Any) -> dict[str, str] | None:
    """The packages that the note of a build lists, as paths below its folder, and their sha256, "" where it has none.

    Notes of older revisions have paths alone. None when it lists anything else.
    """
    listed = note.get("packages") if isinstance(note, Mapping) else None
    if listed is None:
        return None
    try:
        found = dict.fromkeys(listed, "") if isinstance(listed, list) else dict(listed)
    except (TypeError, ValueError):
        return None
    whole = all(isinstance(word, str) for pair in found.items() for word in pair)
    return found if whole and all(map(_is_below, found)) else None


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and not {"\\", "\0"} & set(name) and ".." not in path.parts


# Disks: a place that is full or takes no files is one error, whoever was writing: Python, rattler or a build's script.

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLOSED = (errno.EACCES, errno.EROFS, errno.EPERM)
_MANY = (errno.EMFILE, errno.ENFILE)
# A folder that is missing, or that cannot exist: below a file, in /proc.
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# Rust ends the message of a system's error with its number; programs of a build script print its text.
_RUST = re.compile(r"\(os error (\d+)\)")
_NO_ROOM = 1 << 20  # bytes
# rattler-build's message without a number: the archive is written to the folder for temporary files first.
_NUMBERLESS = "Could not open or create, or write to file"
_STEP = "free some space and run the command again; everything finished so far is kept"


@contextmanager
def disk_errors(*folders: Path) -> Iterator[None]:
    """Turns errors of a full or read-only disk into NoSpace; `folders` are for those that do not name their file."""
    try:
        yield
    except CtkError:
        raise
    except OSError as error:
        named = error.filename2 or error.filename  # what was being copied names both
        if not named and not folders:
            raise
        if (found := _disk_error(error.errno, *([Path(os.fsdecode(named))] if named else folders))) is not None:
            raise found from error
        raise
    except Exception as error:
        if (found := _disk_error(_number(str(error)), *folders, _temporary())) is not None:
            raise found from error
        raise


def full_disk(log: str, folder: Path) -> NoSpace | None:
    """The error for the output of a program that a full disk made fail.

    The file may be below the folder where it worked or that for temporary files, so the error names both. Some programs
    do not say what the system said: then it is a disk with next to no room.
    """
    said = next((number for number in FULL if os.strerror(number) in log), None) or _number(log)
    if said is None and (_NUMBERLESS in log or min(map(_free, (folder, _temporary()))) < _NO_ROOM):
        return NoSpace(f"a file could not be written in {_free_space(folder, _temporary())}", _STEP)
    return _disk_error(said, folder, _temporary()) if said in FULL else None


BREAKING = "'\"\\`$:"
"""What no path of an environment or a build may have, beside control characters and what is no UTF-8.

Packages write the path as it is into Python files, shell scripts, #! lines and .pc files, and into PATH: programs
break, or the machine's are run in place of the environment's. Other ASCII characters, spaces too, letters of other
languages and paths of 500 bytes were seen to work.
"""


def check_path(place: Path, step: str, error: type[CtkError] = BadValue) -> None:
    """Refuses a place whose absolute path, without links, would break packages that are installed or built there."""
    path = os.path.realpath(place)
    if found := re.search(rf"[{re.escape(BREAKING)}\x00-\x1f\x7f\ud800-\udfff]", path):
        raise error(f"{path} has {found[0]!r} in it, and would break files of packages", step)


def check_place(place: Path) -> None:
    """Raises NoSpace for a place where nothing can be written, before work is done for it."""
    if why := _refusal(place.parent):
        raise NoSpace(f"cannot write {place}: {why}", "name a place in a folder that takes files")


def check_readable(*places: Path) -> None:
    """Raises NoSpace for a file or folder that this user may not read, of which nothing else can be said."""
    for place in places:
        if denied := _denied(place):
            raise _unreadable(denied)


def _denied(place: Path) -> Path | None:
    """A place that may not be read, or the first folder on the way to it that may not be entered."""
    for path in (*reversed(place.absolute().parents), place.absolute()):
        if not path.exists() or not (path == place.absolute() or path.is_dir()):
            return None
        wanted = (os.R_OK if path == place.absolute() else 0) | (os.X_OK if path.is_dir() else 0)
        if not os.access(path, wanted):
            return path
    return None


def _unreadable(place: Path) -> NoSpace:
    step = f"as its owner: `chmod a+r{'x' * place.is_dir()} {shlex.quote(str(place))}`"
    return NoSpace(f"cannot read {place}: {os.strerror(errno.EACCES)}", step)


def _number(text: str) -> int | None:
    return next((int(n) for n in _RUST.findall(text) if int(n) in (*FULL, *_CLOSED, *_MANY)), None)


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # Python looks for one that it can write to
        return Path(os.environ.get("TMPDIR") or "/tmp")


def _there(place: Path) -> Path:
    return next(p for p in (place, *place.absolute().parents) if p.exists())


def _free(place: Path) -> int:
    return shutil.disk_usage(_there(place)).free


def _free_space(*places: Path) -> str:
    """The places with their free space, each file system once, that with the least space first."""
    found: dict[int, tuple[int, str]] = {}
    for place in places:
        free = _free(place)
        found.setdefault(_there(place).stat().st_dev, (free, f"{place} ({free / 1e6:.0f} MB free)"))
    return " or ".join(text for _, text in sorted(found.values()))


def _disk_error(number: int | None, *places: Path) -> NoSpace | None:
    """The error for a system's error number, in one of these places."""
    place = places[0]
    if number == errno.EFBIG:
        return NoSpace(f"a file below {place} would be larger than this process may write", "raise `ulimit -f`")
    if number in _MANY:
        return NoSpace("no more files can be opened", "raise `ulimit -n`, or use fewer --jobs")
    if number in FULL:
        return NoSpace(f"no space left in {_free_space(*places)}", _STEP)
    if number in _CLOSED and (denied := _denied(place)):
        return _unreadable(denied)
    if number in _CLOSED:
        place = next(filter(_refusal, places), place)
        return NoSpace(f"cannot write {place}: {os.strerror(number)}", step_to_write(place))
    if number in _NOWHERE and (why := _refusal(place)):
        return NoSpace(
            f"cannot write {place}: {why}", step_to_write(place, "name a place in a folder that takes files")
        )
    return None


def step_to_write(place: Path, otherwise: str = "make it writable, or mend its owner") -> str:
    """What to do for a place that cannot be written, such as one of a checkout that may only be read."""
    here = workspace()
    if here.cache != here.own_cache and (place.is_relative_to(here.cache) or here.cache.is_relative_to(place)):
        return f"{here.own_cache} cannot be written either: set XDG_CACHE_HOME to a folder that you can write"
    if place.is_relative_to(here.root) and not takes_files(here.root):
        return f"the checkout {here.root} may only be read: name a place outside it, or run the command in a clone"
    return otherwise


def _refusal(place: Path) -> str:
    """Why nothing can be made at a place; empty where it can: then another file is missing, which is a mistake."""
    parent = place.absolute()
    while not os.path.lexists(parent):  # of a name that no file system takes, too
        parent = parent.parent
    if parent.exists() and not parent.is_dir():
        return f"{parent} is no folder"
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".ctk-", dir=parent))
    except OSError as error:
        return f"{parent} takes no new files ({os.strerror(error.errno or 0)})"
    longest = max((len(os.fsencode(part)) for part in place.parts), default=0)
    return f"a name of {longest} bytes is too long" if longest > os.pathconf(parent, "PC_NAME_MAX") else ""


# Locks: one run at a time in a checkout, and at a channel. They are the system's, so a killed run leaves none behind.


@contextmanager
def exclusive(workspace: Workspace, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """Holds the checkout's lock: tells `say` when another run has it, and raises Busy after so many seconds."""
    with alone(workspace.own_cache / "run.lock", "in this checkout", say, wait):
        yield


@contextmanager
def publishing(channel: Path, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """As `exclusive`, at a channel, from reading its state to replacing it: other checkouts may publish there, too."""
    with alone(channel.with_name(f".{channel.name}.lock"), f"at {channel}", say, wait):
        yield


@contextmanager
def alone(file: Path, where: str, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """As `exclusive`, with a lock of that file; `where` says what it is for."""
    from filelock import FileLock, Timeout

    lock = FileLock(file)
    try:
        with disk_errors(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
    except Timeout:
        say(f"another run is at work {where}; waiting for it to end")
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise Busy(
                f"another run has been at work {where} for more than {wait:.0f} s", "wait for it, or end it"
            ) from None
    try:
        yield
    finally:
        lock.release()


# Temporary folders: each has a lock of the system beside it, so the next run knows which ones a killed run left.

_held: dict[Path, FileLock] = {}


def use_temporary_folder(workspace: Workspace) -> None:
    """Makes temporary files lie below the cache, or below TMPDIR where that is set, until this process ends.

    Where this is no checkout, or no folder can be made, they lie where the system has them.
    """
    stated = os.environ.get("TMPDIR")
    if not stated and not workspace.recipes.is_dir():
        return
    home = workspace.cache / "tmp"
    if stated:
        home = Path(stated).absolute() / f"{workspace.name}-{os.getuid()}"
    with suppress(OSError):
        folder = hold_folder(home)
        atexit.register(release_folders)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


def hold_folder(home: Path, leave: Callable[[Path], None] = lambda folder: None) -> Path:
    """An empty folder for this process below `home`; what killed processes left there is removed, after `leave`.

    Raises:
        OSError: It cannot be made, or somebody else made it.
    """
    from filelock import FileLock

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it is somebody else's", str(home))
    for killed in left(home):
        leave(killed)
        for place in (killed, killed.with_suffix(".done")):
            shutil.rmtree(place, ignore_errors=True)
        killed.with_suffix(".lock").unlink(missing_ok=True)
    folder = home / uuid.uuid4().hex
    lock = FileLock(folder.with_suffix(".lock"))
    lock.acquire()
    _held[folder] = lock  # first: an interrupt may come between the two
    folder.mkdir()
    return folder


def left(home: Path) -> Iterator[Path]:
    """The folders of killed processes below `home`, each while nobody else can have it."""
    from filelock import FileLock, Timeout

    for file in home.glob("*.lock"):
        with suppress(Timeout), FileLock(file, timeout=0):
            yield file.with_suffix("")


def release_folder(folder: Path) -> None:
    """Removes a folder that `hold_folder` gave, and the known one around it when it is empty."""
    lock = _held.pop(folder)
    moved = folder.with_suffix(".done")
    with suppress(OSError):
        folder.rename(moved)  # a thread that still writes into it does not fill it again
    for place in (moved, folder):  # unless the thread makes the folder anew
        shutil.rmtree(place, ignore_errors=True)
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
    """A folder of `hold_folder` for as long as the block lasts."""
    with disk_errors(home):
        folder = hold_folder(home)
    try:
        yield folder
    finally:
        release_folder(folder)
