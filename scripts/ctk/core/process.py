"""The end of processes, and coroutines of rattler."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ctk.core.files import release_folders

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Ends this process when its parent is killed, even inside rattler, which holds the interpreter's lock.

    Else it would wait for work for ever, or write the files that the next run also writes.

    Args:
        parent: Its process id.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)


def hard_exit(code: int) -> NoReturn:
    """Ends this process at once, after it has removed its temporary files and flushed its output.

    The interpreter's own end would print the objects that bindings leak, and aborts while a thread of rattler returns a
    result.
    """
    release_folders()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a closed pipe or a full disk: the command has reported it
            stream.flush()
    os._exit(code)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, for coroutines of rattler; asyncio is imported only here, as most commands do not need it."""
    import asyncio

    return asyncio.run(work)


def end_children() -> None:
    """Kills all descendants of this process, until there is no other: one may have started another."""
    killed: set[int] = set()  # one that waits for a disk does not end at once
    while found := {*_descendants(os.getpid())} - killed:
        killed |= found
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
    for _ in range(100):  # a second: a killed one may be about to write into a folder that is removed next
        if not any(map(_is_alive, killed)):
            break
        time.sleep(0.01)


def _is_alive(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # empty for a dead one
    except OSError:
        return False


def _descendants(parent: int) -> Iterator[int]:
    """The process ids of all descendants, parents first, without dead ones; only on Linux, where builds run.

    multiprocessing's resource tracker ends by itself.
    """
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, threads.read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes()  # empty for a dead one
                if command and b"resource_tracker" not in command:
                    yield child
                    yield from _descendants(child)
