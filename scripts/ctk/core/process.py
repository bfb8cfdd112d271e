"""How processes end: with the one that started them, or at once. And coroutines of rattler."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
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


class _Thread(threading.local):
    runner: asyncio.Runner | None = None


_this_thread = _Thread()


@contextmanager
def one_loop() -> Iterator[asyncio.Runner]:
    """Inside, this thread's calls of `run` share one event loop: making and closing one is a part of a solve's time."""
    before = _this_thread.runner
    try:
        with asyncio.Runner() as _this_thread.runner:
            yield _this_thread.runner
    finally:
        _this_thread.runner = before


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, for coroutines of rattler: in the thread's loop inside of `one_loop`, else in its own."""
    if _this_thread.runner:
        return _this_thread.runner.run(work)
    with one_loop() as runner:
        return runner.run(work)
