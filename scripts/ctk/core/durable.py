"""Files that others read while they are written: a reader sees the old file or the whole new one, and may read it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CHUNK = 1 << 20
_SUFFIX = ".part"


def share(path: Path) -> None:
    """Lets everybody read a file or a folder of ours, and nobody else write it, whatever the umask was."""
    mode = stat.S_IMODE(path.stat().st_mode)
    # A folder hands its group on to what is made in it, where it is set to.
    wanted = mode & stat.S_ISGID | 0o755 if path.is_dir() else 0o644
    if mode != wanted:
        path.chmod(wanted)


def make_folder(path: Path) -> None:
    """Makes a folder for everybody to read, and those above it; those that are there stay as they are."""
    if not path.is_dir():
        make_folder(path.parent)
        with suppress(FileExistsError):
            path.mkdir()
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "there is something else", str(path))
        share(path)


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in place by one rename, its bytes on the disk before that."""
    temporary = _temporary(path)
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    share(temporary)
    os.replace(temporary, path)
    sync_folder(path.parent)


def copy_file(source: Path, target: Path, sha256: str) -> bool:
    """As `replace_file`, with the bytes of another file, unless their sha256 is not the one given; whether it was."""
    temporary, digest = _temporary(target), hashlib.sha256()
    with source.open("rb") as old, temporary.open("wb") as new:
        while chunk := old.read(_CHUNK):
            digest.update(chunk)
            new.write(chunk)
        new.flush()
        os.fsync(new.fileno())
    if digest.hexdigest() != sha256:
        temporary.unlink()
        return False
    share(temporary)
    os.replace(temporary, target)
    sync_folder(target.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder last, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def temporaries(folder: Path) -> Iterator[Path]:
    """What killed runs left in a folder."""
    return (path for path in folder.glob(f".*{_SUFFIX}") if path.is_file())


def _temporary(path: Path) -> Path:
    # Hidden: no indexer takes it for a package. Beside the target: it can be renamed.
    return path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")
