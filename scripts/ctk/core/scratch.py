"""Temporary work: every piece of it lies where the next run finds it, and removes what a killed run left.

A build works in memory where there is room for it, else in the cache. Repackaging writes every file several times
(unpacked, laid out, staged, restored for each output). On a disk that is most of a build's time: benchmarks/build.py
measured a ratio to its limit of 10 there and of 5 in memory.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ctk.core.disk import disk_errors
from ctk.core.paths import Workspace

MEMORY = Path("/dev/shm")
# Bytes written for each byte of an artefact, at most: wheels unpack to three times their size, and a recipe of six
# outputs holds eight copies of that at once.
_GROWTH = 30
_LEAST = 512 << 20


def new_folder(workspace: Workspace, name: str, artefact_bytes: int, jobs: int) -> Path:
    """Makes an empty folder for one build.

    Args:
        workspace: The checkout.
        name: Of the folder; `clear` finds it again.
        artefact_bytes: Size of what the build reads.
        jobs: How many builds share the memory.
    """
    need = max(_LEAST, artefact_bytes * _GROWTH)
    place = _in_memory(workspace) if _room() // max(jobs, 1) >= need else workspace.builds
    folder = place / f".tmp-{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


def clear(workspace: Workspace) -> None:
    """Removes what builds left behind, killed ones too; the run lock makes sure that nobody is using it."""
    for place in places(workspace):
        for folder in place.glob(".tmp-*"):
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(_in_memory(workspace), ignore_errors=True)


def places(workspace: Workspace) -> Iterable[Path]:
    """The folders in which builds of this checkout may work."""
    return workspace.builds, _in_memory(workspace)


def machine_paths(workspace: Workspace) -> list[str]:
    """The folders of this machine that no package may name: the checkout, the user's home, where builds work."""
    return [str(workspace.root), str(Path.home()), *map(str, places(workspace))]


def _in_memory(workspace: Workspace) -> Path:
    return MEMORY / f"ctk-{hashlib.sha256(str(workspace.root).encode()).hexdigest()[:12]}"


def _room() -> int:
    """Bytes that can be written to memory without pressing the machine; 0 where there is no such file system."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        if not os.access(MEMORY, os.W_OK):
            return 0
        return min(shutil.disk_usage(MEMORY).free, available * 3 // 4)
    except (OSError, StopIteration):
        return 0


_LEAVING = ".done"  # what a folder is called while it is removed
_held: dict[Path, FileLock] = {}


def use(workspace: Workspace) -> None:
    """Lets temporary files lie below the cache, or below TMPDIR where that is set, until this process ends.

    Where this is no checkout, or one in which no folder can be made, they lie where the system has them.
    """
    stated = os.environ.get("TMPDIR")
    if not stated and not workspace.recipes.is_dir():
        return
    home = (
        Path(stated).absolute() / f"{_in_memory(workspace).name}-{os.getuid()}" if stated else workspace.cache / "tmp"
    )
    with suppress(OSError):
        folder = hold(home)
        atexit.register(release_all)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


def hold(home: Path, leave: Callable[[Path], None] = lambda folder: None) -> Path:
    """An empty folder for this process, below a known one; what processes that were killed left there is removed.

    Args:
        home: The known folder. Locks beside the folders in it tell whose owner lives: the system's, so none is left.
        leave: Told of each folder before it is removed.

    Raises:
        OSError: It cannot be made, or somebody else made it.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it is somebody else's", str(home))
    for file in home.glob("*.lock"):
        with suppress(Timeout), FileLock(file, timeout=0):
            leave(file.with_suffix(""))
            for place in (file.with_suffix(""), file.with_suffix(_LEAVING)):
                shutil.rmtree(place, ignore_errors=True)
            file.unlink(missing_ok=True)
    folder = home / uuid.uuid4().hex
    lock = FileLock(folder.with_suffix(".lock"))
    lock.acquire()
    folder.mkdir()
    _held[folder] = lock
    return folder


def release(folder: Path) -> None:
    """Removes a folder that `hold` gave, and the known one around it when it is empty."""
    lock = _held.pop(folder)
    moved = folder.with_suffix(_LEAVING)
    with suppress(OSError):
        folder.rename(moved)  # a thread that still writes into it does not fill it again
    shutil.rmtree(moved, ignore_errors=True)
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        folder.parent.rmdir()


def release_all() -> None:
    """Removes every folder that this process holds."""
    for folder in list(_held):
        release(folder)


@contextmanager
def held(home: Path) -> Iterator[Path]:
    """A folder of `hold` for as long as the block lasts."""
    with disk_errors(home):
        folder = hold(home)
    try:
        yield folder
    finally:
        release(folder)
