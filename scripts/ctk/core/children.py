"""Processes below this one: they leave Ctrl-C to it; what a program leaves behind is adopted, and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
LOOK = 1.0
"""Seconds between two looks at what a process is doing."""
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@contextlib.contextmanager
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


@contextlib.contextmanager
def adopting() -> Iterator[frozenset[int]]:
    """Inside, this process becomes the parent of those below it whose own parent ends, in place of init.

    Gives the children that it has before.
    """
    import ctypes  # every command imports this module

    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda option, value: 0
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield frozenset(_children(os.getpid()))
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def leave_nothing_behind(future: Future[T], others: frozenset[int] = frozenset()) -> T:
    """The result of the only job of a pool, which runs programs one after the other, inside of `adopting`.

    When a program has ended, what it left behind is ended: a compiler's server may hold its output open, to whose end
    the job would read for ever. The program has ended when two looks see the pool's processes without a child at work.
    """
    from concurrent.futures import wait
    from multiprocessing import active_children

    looks = 0
    while True:
        done = wait([future], timeout=LOOK).done
        workers = {process.pid for process in active_children() if process.pid}
        looks = 0 if any(_is_alive(child) for worker in workers for child in _children(worker)) else looks + 1
        if done or looks > 1:
            for process in end_children(but=workers | others):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process, 0)
        if done:
            return future.result()


def end_children(but: Collection[int] = ()) -> list[int]:
    """Kills every process that this one started or adopted, and theirs: first stopped, so that none starts another.

    Not those in `but`, and theirs. multiprocessing's tracker of resources ends by itself. Parents come first.
    """
    found: list[int] = []
    while new := [process for process in _descendants(os.getpid(), but) if process not in found]:
        _send(new, signal.SIGSTOP)
        found += new
    _send(found, signal.SIGKILL)
    return found


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(parent: int, but: Collection[int]) -> Iterator[int]:
    for child in _children(parent):
        with contextlib.suppress(OSError):
            if child not in but and b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child
                yield from _descendants(child, but)


def _children(parent: int) -> Iterator[int]:
    """Those that Linux lists; elsewhere nothing is built."""
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, threads.read_text().split())


def _is_alive(process: int) -> bool:
    """Whether it runs: one that has ended stays until its parent asks for its exit code."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(") ")[2][0] not in "ZX"
    return False
