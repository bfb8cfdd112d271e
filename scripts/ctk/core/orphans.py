"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Ends this process when its parent is killed, even inside rattler, which holds the interpreter's lock.

    A process of a pool would wait for work for ever, and could finish what the next run is making as well.

    Args:
        parent: Its process id.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before that
            os._exit(1)


@contextmanager
def starting() -> Iterator[None]:
    """Processes that are started in here leave Ctrl-C to this one, which ends them.

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
