"""Files that others read while they are written: a reader sees the old file or the whole new one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 20
_SUFFIX = ".part"


def replace_file(path: Path, content: bytes) -> None:
    """Puts a file in place by one rename, its bytes on the disk before that."""
    temporary = _temporary(path)
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
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
