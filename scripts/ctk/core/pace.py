"""How fast long work goes, and how long the rest takes: said once it can be known, and not before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_WINDOW = 60.0  # seconds: what was faster or slower before says little about the rest
_KNOWN = 2.0  # seconds of work from which a pace is told


class Pace:
    """The pace of one piece of work.

    Args:
        total: Its size, in bytes or pieces.
        bytes_: Whether the size is in bytes.
        clock: Seconds.
    """

    def __init__(self, total: float, *, bytes_: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, 0.0
        self._bytes, self._clock = bytes_, clock
        self._seen = deque([(clock(), 0.0)])

    def advance(self, amount: float) -> None:
        self.done += amount
        now = self._clock()
        self._seen.append((now, self.done))
        while len(self._seen) > 2 and now - self._seen[1][0] > _WINDOW:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Bytes or pieces in a second; None while it cannot be known."""
        (start, before), now = self._seen[0], self._clock()
        enough = now - start >= _KNOWN and len(self._seen) > 2 and self.done > before
        return (self.done - before) / (now - start) if enough else None

    @property
    def left(self) -> float | None:
        """Seconds until the work is done at this pace; None while it cannot be known, or nothing is left."""
        rate, rest = self.rate, self.total - self.done
        return rest / rate if rate and rest > 0 else None

    @property
    def position(self) -> str:
        """``12/40``, or ``34/560 MB``."""
        if self._bytes:
            return f"{self.done / 1e6:.0f}/{self.total / 1e6:.0f} MB"
        return f"{self.done:.0f}/{self.total:.0f}"

    def __str__(self) -> str:
        """``3.4 MB/s, 0:32 left``; nothing while it cannot be known."""
        rate, left = self.rate, self.left
        if rate is None or left is None:
            return ""
        return f"{_rate(rate, self._bytes)}, {_duration(left)} left"


def _rate(rate: float, bytes_: bool) -> str:
    if bytes_:
        return f"{rate / 1e6:.1f} MB/s"
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
