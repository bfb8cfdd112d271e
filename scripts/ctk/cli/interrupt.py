"""Ctrl-C: ends a command within a second, whatever is under way.

Python tells of the signal in the main thread, but only between two of its own steps: not while rattler computes, a
thread waits for a server or a pool for its processes. So a thread is told by the system (`set_wakeup_fd`), and ends the
whole process with all that it started. That does no harm: what is visible is whole at any moment, even when a run is
killed, which tests/faults tries.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ctk.core import output, scratch
from ctk.core.errors import Stopped

GRACE = 0.5
"""Seconds in which a command may say what it has, inside of `heard`."""
_seen = threading.Event()
_settled = threading.Event()
_hearing = False


def install() -> None:
    """Makes this process end that way; once, from the main thread. Where interrupts are switched off they stay so."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _note)
    threading.Thread(target=_watch, args=(told,), name="interrupts", daemon=True).start()


def _note(*_: object) -> None:
    _seen.set()
    if _hearing:
        ignore()  # a second one would meet what is being said
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Inside, an interrupt is an exception as well: for a command that says what it has when it is stopped."""
    global _hearing
    _hearing = True
    try:
        yield
    finally:
        _hearing = _seen.is_set()  # then it is still being said


def ignore() -> None:
    """From here on nothing is left to be stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def came() -> bool:
    """Whether this run was interrupted: an error that follows is a consequence."""
    return _seen.is_set()


def wait_for_end() -> NoReturn:
    """Leaves it to the watching thread to end the process."""
    _settled.set()
    while True:
        threading.Event().wait()


def _watch(told: int) -> None:
    while signal.SIGINT not in os.read(told, 64):
        pass
    _seen.set()
    error = Stopped("stopped; what was finished is kept", "run the same command again: it continues")
    try:
        with contextlib.suppress(Exception):
            end_descendants(os.getpid())
        if _hearing:
            _settled.wait(GRACE)
        with contextlib.suppress(Exception):
            scratch.release_all()
        with contextlib.suppress(Exception):
            output.finish(error)
            sys.stdout.flush()
        with contextlib.suppress(Exception):
            print(f"\n{error.cause}", file=sys.stderr, flush=True)
    finally:  # whatever the state in which the run is met
        os._exit(Stopped.exit_code)


def end_descendants(parent: int) -> None:
    """Kills every process that this one started, and theirs: first stopped, so that none starts another meanwhile."""
    found: set[int] = set()
    while new := set(_descendants(parent)) - found:
        _send(new, signal.SIGSTOP)
        found |= new
    _send(found, signal.SIGKILL)


def _send(processes: set[int], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, what)


def _descendants(parent: int) -> Iterator[int]:
    """As Linux says; elsewhere nothing is built. multiprocessing's tracker of resources ends by itself."""
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in threads.read_text().split():
                if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield int(child)
                    yield from _descendants(int(child))
