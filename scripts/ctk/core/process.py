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
from contextlib import contextmanager
from contextvars import Context
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
