"""Pools of processes for code that holds the interpreter's lock, as rattler does."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from ctk.core.children import be_watched, watch
from ctk.core.console import guard_streams
from ctk.core.secrets import hidden, hide_again

P = ParamSpec("P")
T = TypeVar("T")
_TRACKER = "ignore:resource_tracker"


class ProcessPool(ProcessPoolExecutor):
    """Processes that call `begin` first, and end when this process is killed.

    They are spawned, as rattler's threads do not survive a fork.
    """

    def __init__(
        self,
        processes: int,
        begin: Callable[P, object] | None = None,
        *args: P.args,
        **more: P.kwargs,
    ):
        spawn = multiprocessing.get_context("spawn")
        # multiprocessing's tracker outlives Ctrl-C, tidies up, and would warn below our sentence
        # that it had to.
        if _TRACKER not in sys.warnoptions:
            sys.warnoptions.append(_TRACKER)
        super().__init__(processes, spawn, _begin, (hidden(), begin, args, more))
        self._watched: set[int] = set()

    def submit(self, work: Callable[P, T], /, *args: P.args, **more: P.kwargs) -> Future[T]:
        with _ctrl_c_blocked():  # the first call starts the processes
            future = super().submit(work, *args, **more)
            for process in {*self._processes} - self._watched:
                self._watched.add(process)
                watch(process)
        return future

    def end(self) -> None:
        """Ends the processes without waiting for their work."""
        self.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _begin(
    secrets: tuple[tuple[str, str], ...],
    begin: Callable[..., object] | None,
    args: tuple[object, ...],
    more: dict[str, object],
) -> None:
    be_watched()
    hide_again(secrets)
    guard_streams()
    if begin:
        begin(*args, **more)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Processes that are started inside leave Ctrl-C to this one, which ends them.

    A terminal sends the signal to each of them, and one that still imports its modules would print
    a traceback. Blocked, unlike ignored, the signal is not lost for this process. Another thread
    may get it all the same, and then Python interrupts the main thread, whose half-started process
    would print a traceback too: it is kept until the end.
    """
    kept: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handler = (
        signal.signal(signal.SIGINT, lambda number, _: kept.append(number)) if is_main else None
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        for number in kept[:1]:
            signal.raise_signal(number)
