"""How processes end: with the one that started them, or at once; and coroutines of rattler."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
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
