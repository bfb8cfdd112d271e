"""Where a build works: in memory where there is room for it, else in the cache.

Repackaging writes every file several times (unpacked, laid out, staged, restored for each output). On a disk that is
most of a build's time: benchmarks/build.py measured a ratio to its limit of 10 there and of 5 in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ctk.paths import Workspace

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
