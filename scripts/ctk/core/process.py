"""How processes start and end, and coroutines of rattler."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ctk.core.files import release_folders

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Ends this process when its parent, a process id, is killed, even inside rattler, which holds the GIL.

    A process of a pool would wait for work for ever, and could write what the next run is writing as well.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before that
            os._exit(1)


def hard_exit(code: int) -> NoReturn:
    """Ends this process at once: its temporary files go, and what was printed is written.

    The interpreter's own end would look through all memory and name what bindings leak, and it aborts while a thread of
    rattler hands over a result.
    """
    release_folders()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a reader that has gone, or a full disk: that was said already
            stream.flush()
    os._exit(code)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, for coroutines of rattler: imported when it is called, which most commands never do."""
    import asyncio

    return asyncio.run(work)


@contextmanager
def starting() -> Iterator[None]:
    """Processes that are started inside leave Ctrl-C to this one, which ends them.

    A terminal sends the signal to each of them, and one that is still importing its modules would answer with a
    traceback. Blocked, unlike ignored, the signal is not lost for this process.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_children() -> None:
    """Kills every process that this one started, and theirs: first stopped, so that none starts another.

    multiprocessing's tracker of resources ends by itself. Parents come first.
    """
    found: list[int] = []
    while new := [process for process in _descendants(os.getpid()) if process not in found]:
        _send(new, signal.SIGSTOP)
        found += new
    _send(found, signal.SIGKILL)


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(parent: int) -> Iterator[int]:
    """Those that Linux lists; elsewhere nothing is built."""
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, threads.read_text().split()):
                if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
                    yield from _descendants(child)
