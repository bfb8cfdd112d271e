"""The process that makes builds, one after another: how it starts, and where it works.

rattler-build writes every file that it reads several times: unpacked, laid out, staged, restored
for each output. So builds work in memory where there is room for it, else in the cache.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.locks import held, hold_folder, release_folder
from ctk.core.pool import ProcessPool

MEMORY = Path("/dev/shm")
"""The file system in memory."""
_LEAST = 512 << 20  # bytes that must be free for each job


def processes(number: int, log: Path) -> ProcessPool:
    """A pool of build processes."""
    return ProcessPool(number, begin, log)


def begin(log: Path) -> None:
    """Starts the work of a build process: it writes its stderr to a file."""
    # rattler-build draws progress bars on a terminal, which would run into ours.
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets environment variables of this process, and so of rattler-build and its scripts."""
    given = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in given.items():
            os.environ.pop(name)
            os.environ.update({name: value} if value is not None else {})


def new_build_folder(workspace: Workspace, name: str, need: int, jobs: int) -> Path:
    """Makes an empty folder for one build, which writes at most `need` bytes.

    `jobs` of them share the memory.
    """
    folder = (
        in_memory(workspace) if _is_roomy(workspace, need, jobs) else workspace.builds
    ) / f".tmp-{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder


@contextmanager
def temporary_files(workspace: Workspace, need: int, jobs: int) -> Iterator[Path]:
    """Gives the folder for rattler-build's temporary files.

    It is in memory if each job has room there for `need` bytes.
    """
    if not _is_roomy(workspace, need, jobs):
        yield Path(tempfile.gettempdir())
        return
    with held(for_tests(workspace)) as folder, environment(TMPDIR=str(folder)):
        yield folder


@contextmanager
def at_work(workspace: Workspace) -> Iterator[None]:
    """Removes leftovers of builds, before and after.

    It shows other checkouts that builds are at work in memory.
    """
    clear_build_folders(workspace)
    with ExitStack() as stack:
        if _is_roomy(workspace, 0, 1):
            stack.callback(release_folder, hold_folder(in_memory(workspace)))
        try:
            yield
        finally:
            clear_build_folders(workspace)


def clear_build_folders(workspace: Workspace) -> None:
    """Removes leftovers of builds, killed ones too.

    The run lock makes sure that nobody is using them.
    """
    places = [workspace.builds]
    if _is_ours(in_memory(workspace)):  # what another user made may be a link to anywhere
        places.append(in_memory(workspace))
    for place in places:
        for folder in place.glob(".tmp-*"):
            shutil.rmtree(folder, ignore_errors=True)
    if in_memory(workspace) in places:
        shutil.rmtree(in_memory(workspace), ignore_errors=True)


def machine_paths(workspace: Workspace) -> list[str]:
    """The folders of this machine that no package may name: checkout, home, those of builds.

    Root's home is the same on every machine: Triton's wheels have it from the machine that made
    them.
    """
    homes = [home for home in [Path.home()] if home != Path("/root")]
    return [str(path) for path in (workspace.root, *homes, workspace.builds, in_memory(workspace))]


def in_memory(workspace: Workspace) -> Path:
    """The folder of this user's builds in memory.

    Another user of the machine has one for the same checkout.
    """
    return MEMORY / f"{workspace.name}-{os.getuid()}"


def for_tests(workspace: Workspace) -> Path:
    """The same for temporary files of package tests."""
    return in_memory(workspace).with_suffix(".tests")


def _is_ours(place: Path) -> bool:
    """Whether a place is free, or a folder of this user.

    Anybody may make a folder in memory, under any name.
    """
    try:
        status = place.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _is_roomy(workspace: Workspace, need: int, jobs: int) -> bool:
    place = in_memory(workspace)
    if not (_is_ours(place) and _is_ours(for_tests(workspace))):
        return False
    return _free_memory() // max(jobs, 1) >= max(_LEAST, need)


def _free_memory() -> int:
    """Bytes that can be written to memory without pressing the machine.

    0 without such a file system.
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(
                int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")
            )
        if not os.access(MEMORY, os.W_OK):
            return 0
        return min(shutil.disk_usage(MEMORY).free, available * 3 // 4)
    except (OSError, StopIteration):
        return 0
