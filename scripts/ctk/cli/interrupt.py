"""Ctrl-C: ends a command within a second, whatever is under way.

Python runs signal handlers in the main thread only, between two of its own steps: not while rattler computes, a thread
waits for a server or a pool for its processes. So the system wakes a thread of ours (`set_wakeup_fd`), which ends the
whole process and its children. That does no harm: readers never see half of anything, even when a run is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ctk.core import console
from ctk.core.children import end_children, start_no_more
from ctk.core.errors import Stopped
from ctk.core.files import release_folders

GRACE = 0.5
"""Seconds in which a command inside of `heard` may print the results so far, and a process may be started."""
_seen = threading.Event()
_settled = threading.Event()
_hearing = False


def install() -> None:
    """Starts the watching thread, once and from the main thread. Where interrupts are switched off they stay so."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_DFL):
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _handle)
    threading.Thread(target=_watch, args=(reader,), name="interrupts", daemon=True).start()


def _handle(*_: object) -> None:
    _seen.set()
    if _hearing:
        ignore()  # a second one would interrupt the printing
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Inside, an interrupt is an exception as well: for a command that prints its results so far when it is stopped."""
    global _hearing
    _hearing = True
    try:
        yield
    finally:
        _hearing = _seen.is_set()  # then it is still printing


def ignore() -> None:
    """Ignores interrupts from here on: nothing is left to be stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def came() -> bool:
    """Whether this run was interrupted: an error that follows is a consequence."""
    return _seen.is_set()


def wait_for_end() -> NoReturn:
    """Leaves it to the watching thread to end the process."""
    _settled.set()
    while True:
        threading.Event().wait()


def _watch(reader: int) -> None:
    while signal.SIGINT not in os.read(reader, 64):
        pass
    _seen.set()
    error = Stopped("stopped; what was finished is kept", "run the same command again: it continues")

    def say() -> None:
        console.finish(error)
        sys.stdout.flush()

    try:
        start_no_more(GRACE)
        with contextlib.suppress(Exception):
            end_children()
        if _hearing:
            _settled.wait(GRACE)
        # Folders last: the main thread still works, and may make them anew.
        for step in (say, lambda: print(f"\n{error.cause}", file=sys.stderr, flush=True), release_folders):
            with contextlib.suppress(Exception):
                step()
    finally:
        os._exit(Stopped.exit_code)
