"""Runs rattler's coroutines so that the process can end at any moment afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Loop(asyncio.SelectorEventLoop):
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


def run(work: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` does, for coroutines of rattler.

    rattler hands its results over from a thread of its own, which gives up the interpreter's lock for a moment while it
    wakes this one. An interpreter that ends in that moment aborts the process, whatever its exit code was to be: of
    short commands on a busy machine, one in twenty. So this waits until the thread is done, which takes microseconds.
    """
    loops: list[_Loop] = []

    def loop() -> _Loop:
        loops.append(_Loop())
        return loops[-1]

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(work)
    finally:
        while any(one.handing_over for one in loops):
            time.sleep(0.0001)
