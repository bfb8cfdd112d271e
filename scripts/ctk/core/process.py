"""Processes that end with the one that started them, and coroutines after which this process can end at once."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Ends this process when its parent, a process id, is killed, even inside rattler, which holds the GIL.

    A process of a pool would wait for work for ever, and could write what the next run is writing as well.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before that
            os._exit(1)


@contextmanager
def waiting_for_nobody() -> Iterator[None]:
    """Inside, a process of a pool does not wait for what a script that it ran has left behind.

    rattler-build reads a script's output to its end, which comes when nobody can write there any more: with a server of
    a compiler, never. It holds the GIL of its process, so this one looks, and kills what still has the output of a
    script that has ended.
    """
    over = threading.Event()

    def look() -> None:
        before: set[int] = set()
        while not over.wait(0.5):
            found = _processes()
            workers = {pid for pid, (_, parent) in found.items() if parent == os.getpid()}
            ended = {pid: parent for pid, (state, parent) in found.items() if state == "Z" and parent in workers}
            for script in ended.keys() & before:  # its end is not looked at, as its output is still read
                read = _pipes(ended[script]) - _pipes(os.getpid())
                for process in found.keys() - {os.getpid(), ended[script]}:
                    if _pipes(process, "1", "2") & read:
                        with suppress(OSError):
                            os.kill(process, signal.SIGKILL)
            before = set(ended)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _processes() -> dict[int, tuple[str, int]]:
    """Every process, its state and its parent; empty where there is no /proc."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
            found[int(file.parent.name)] = state, int(parent)
    return found


def _pipes(process: int, *which: str) -> set[str]:
    """The pipes that a process has open, as these descriptors or any."""
    folder, found = f"/proc/{process}/fd", set[str]()
    with suppress(OSError):
        for descriptor in which or os.listdir(folder):
            with suppress(OSError):
                found.add(os.readlink(f"{folder}/{descriptor}"))
    return {place for place in found if place.startswith("pipe:")}


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


class HandoverLoop(asyncio.SelectorEventLoop):
    """An event loop that knows whether another thread is still handing over a result."""

    def __init__(self) -> None:
        super().__init__()
        self.handing_over: list[None] = []  # appending and popping are atomic

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.handing_over.append(None)
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self.handing_over.pop()


class _Thread(threading.local):
    runner: asyncio.Runner | None = None


_this_thread = _Thread()


@contextmanager
def one_loop() -> Iterator[asyncio.Runner]:
    """Inside, this thread's calls of `run` share one event loop: making and closing one is a part of a solve's time.

    rattler hands its results over from a thread of its own, which gives up the interpreter's lock for a moment while it
    wakes this one. An interpreter that ends in that moment aborts the process, whatever its exit code was to be: of
    short commands on a busy machine, one in twenty. So this waits until the thread is done, which takes microseconds.
    """
    loop, before = HandoverLoop(), _this_thread.runner
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as _this_thread.runner:
            yield _this_thread.runner
    finally:
        _this_thread.runner = before
        while loop.handing_over:
            time.sleep(0.0001)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, for coroutines of rattler: in the thread's loop inside of `one_loop`, else in its own."""
    if _this_thread.runner:
        return _this_thread.runner.run(work)
    with one_loop() as runner:
        return runner.run(work)
