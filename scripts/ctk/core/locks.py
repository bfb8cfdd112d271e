"""Locks: one run at a time in a checkout, and at a channel; and the folders of temporary files.

A killed run leaves no lock behind: the system releases them.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors

if TYPE_CHECKING:
    from filelock import FileLock


@contextmanager
def exclusive(workspace: Workspace, say: Callable[[str], None]) -> Iterator[None]:
    """Takes the checkout's lock, after any other run; `say` is told of one."""
    with alone(workspace.own_cache / "run.lock", "in this checkout", say):
        yield


@contextmanager
def publishing(channel: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Takes a channel's lock, from reading its state to replacing it.

    Other checkouts may publish there, too.
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
            say(f"another run is at work {where}; waiting for it")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


# Temporary folders: a lock beside each tells the next run whether a killed run left it.

_held: dict[Path, FileLock] = {}


def use_temporary_folder(workspace: Workspace) -> None:
    """Puts temporary files of this process below the cache, or below TMPDIR if that is set.

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


_TRIES = 20
"""How often a folder is tried to be made beside others that come and go."""


def hold_folder(home: Path, leave: Callable[[Path], None] = lambda folder: None) -> Path:
    """An empty folder for this process below `home`.

    Folders of killed processes are removed, after `leave`.

    Raises:
        OSError: It cannot be made, or `home` belongs to another user.
    """
    for _ in range(_TRIES):
        # Whoever releases the last folder removes `home`, perhaps between two steps of this.
        with suppress(FileNotFoundError, FileExistsError):
            return _hold_folder(home, leave)
    return _hold_folder(home, leave)


def _hold_folder(home: Path, leave: Callable[[Path], None]) -> Path:
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
