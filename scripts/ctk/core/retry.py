"""HTTP requests, retried with exponential backoff."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2

from ctk.core.errors import IndexUnavailable, without_credentials

T = TypeVar("T")
STEP = "check the network and what `pip config list` says, then run the same command again; what was fetched stays"
_NO_WAY = (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects, OSError, ValueError)
_LONGEST = 60.0  # seconds; a server may ask for more, a person waits for less


class Interrupted(IndexUnavailable):
    """The connection broke while a response was read; the rest can be requested."""


@dataclass(frozen=True)
class Retry:
    """How often a request is tried, and how far apart.

    Attributes:
        attempts: Tries in all.
        delay: Seconds before the second try; each further wait is twice as long.
        sleep: What waits; tests replace it.
        clock: Seconds, to see who is too slow; tests replace it.
    """

    attempts: int = 6
    delay: float = 0.5
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def send(self, what: str, request: Callable[[], httpx2.Response]) -> httpx2.Response:
        """The first response whose status is neither 429 nor 5xx.

        Args:
            what: The distribution it is about, for the error.
            request: Sends the request once.

        Raises:
            IndexUnavailable: After the last try; at once where the address cannot be requested.
        """
        reason = ""
        for attempt in range(self.attempts):
            asked = 0.0
            try:
                answer = request()
            except _NO_WAY as error:  # another try would fail as well
                raise IndexUnavailable(
                    f"the package index gives no way to {what}: {describe(error)}", "ask whoever runs the index"
                ) from error
            except httpx2.RequestError as error:
                reason = describe(error)
            else:
                if answer.status_code != 429 and answer.status_code < 500:
                    return answer
                answer.close()
                reason = f"{answer.url.host} answered {answer.status_code}"
                asked = _retry_after(answer.headers.get("Retry-After", ""))
            self._wait(attempt, asked)
        tries = f"{self.attempts} tries" if self.attempts > 1 else "one try"
        raise IndexUnavailable(f"the package index does not give {what}, after {tries}: {reason}", STEP)

    def run(self, job: Callable[[], T]) -> T:
        """The result of a job that reads a response to its end, started again when the connection breaks.

        Raises:
            Interrupted: After the last try.
        """
        for attempt in range(self.attempts):
            try:
                return job()
            except Interrupted:
                if attempt + 1 == self.attempts:
                    raise
                self._wait(attempt)
        raise AssertionError("there is at least one attempt")

    def _wait(self, attempt: int, asked: float = 0.0) -> None:
        if attempt + 1 < self.attempts:
            self.sleep(min(max(self.delay * 2**attempt, asked), _LONGEST))


def describe(error: BaseException) -> str:
    """An error in one line, without the credentials that a URL in it may hold."""
    text = without_credentials(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for; 0 when it asks for nothing."""
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
