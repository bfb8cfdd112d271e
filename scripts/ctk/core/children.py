"""Processes below this one: they leave Ctrl-C to it, which ends them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path


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
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _descendants(parent: int) -> Iterator[int]:
    """Those that Linux lists; elsewhere nothing is built."""
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, threads.read_text().split()):
                if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
                    yield from _descendants(child)
