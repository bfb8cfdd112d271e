"""Gives up on a server that sends next to nothing: no timeout between two bytes sees one byte a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpcore2
import httpx2

LEAST = 1 << 13
"""Bytes that must come in `WHILE` of waiting: a modem brings twenty times as many."""
WHILE = 30.0
"""Seconds; twice the timeout, where that is more."""


def refuse_trickles(client: httpx2.Client, clock: Callable[[], float]) -> None:
    """Holds every connection that a client will make to `LEAST`, also for the heads of answers.

    Args:
        client: One that has made none yet.
        clock: Seconds; tests replace it.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            # httpcore2's pool takes a backend; httpx2 makes the pool and hands none on.
            transport._pool._network_backend = _Backend(clock)


class _Backend(httpcore2.SyncBackend):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def connect_tcp(self, *args: Any, **more: Any) -> httpcore2.NetworkStream:
        return _Stream(super().connect_tcp(*args, **more), self._clock)


class _Stream(httpcore2.NetworkStream):
    """A connection that counts what came since the last request."""

    def __init__(self, stream: httpcore2.NetworkStream, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._waited, self._came = 0.0, 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        began = self._clock()
        data = self._stream.read(max_bytes, timeout)
        self._waited += self._clock() - began
        self._came += len(data)
        if self._waited > max(WHILE, 2 * (timeout or 0)):
            if self._came < LEAST:
                raise httpcore2.ReadTimeout(f"no more than {self._came} bytes came in {self._waited:.0f} s")
            self._waited, self._came = 0.0, 0
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._waited, self._came = 0.0, 0
        self._stream.write(buffer, timeout)

    def start_tls(self, *args: Any, **more: Any) -> httpcore2.NetworkStream:
        return _Stream(self._stream.start_tls(*args, **more), self._clock)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
