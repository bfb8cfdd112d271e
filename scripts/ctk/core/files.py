"""Files: atomic writes, plain files, hashes, and the JSON that a run leaves for the next one."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from io import BufferedReader
from itertools import chain, count
from pathlib import Path
from typing import Any

from ctk.core.checkout import Workspace
from ctk.core.inside import wrong_with

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
        super().__init__(errno.EINVAL, "it is a pipe, a device or a socket, not a file", path)


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
    """Whether a path is a regular file with this sha256, and this size in bytes if one is given."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or size not in (None, status.st_size):
            return False
        return file_sha256(path) == sha256
    except OSError:
        return False


class HashNotes:
    """Sha256 of the packages of a checkout, kept between runs.

    A package is read again when it has changed. A file is identified by inode, size and ctime,
    which only the kernel sets: in a copied or restored cache, every file is read again.
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
        found = self.knows(path, sha256) or holds(path, sha256)
        if found:
            self._right[path] = sha256
        return found

    def knows(self, path: Path, sha256: str) -> bool:
        """Whether an earlier run found this sha256 in a file that has not changed since."""
        try:
            status = path.lstat()
        except OSError:
            return False
        if self._noted.get(_stamp(status)) != sha256:
            return False
        _hashes[_key(status)] = sha256
        return True

    def save(self, made: Mapping[Path, str]) -> None:
        """Notes the packages that this run checked or made.

        A new hard link has changed their ctime since.
        """
        before = dict(self._noted)
        for path, sha256 in {**self._right, **made}.items():
            with suppress(OSError):
                self._noted[_stamp(path.lstat())] = sha256
        if self._noted == before:
            return
        newest = dict(list(self._noted.items())[-self._MOST :])
        with suppress(OSError):
            make_folder(self._file.parent)
            replace_file(self._file, json.dumps(newest).encode())


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


# JSON files that a run leaves for the next one: a damaged one counts as missing.


def free_folder(name: str) -> str:
    """A folder here that is not there yet, for commands to print: ``./NAME``, or ``./NAME-2``."""
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(f"./{free}" for free in names if not os.path.lexists(free))


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
