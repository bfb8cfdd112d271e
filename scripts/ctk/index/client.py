"""The HTTP client, made from pip's settings: requests are retried, whichever server they go to.

Pages have limits.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2

from ctk.core.address import UNREADABLE, is_address, public
from ctk.core.errors import CtkError, IndexUnavailable, describe
from ctk.index import INDEX, STEP, IndexSettings, Interrupted, Service

if TYPE_CHECKING:  # slow to import, and reading a channel does without
    from unearth.fetchers import PyPIClient

LEAST = 1 << 13
"""Bytes of a file that must arrive in each `WHILE`, on average: a modem is twenty times as fast."""
WHILE = 30.0
"""Seconds."""
LARGEST = 64 << 20
"""Bytes of a page, unpacked; the longest known page, of 47,000 files, has 21 MB."""
SLOWEST = 600.0
"""Seconds in which a page must arrive."""
# Untrue for unpacked content.
_OF_THE_WIRE = (
    "content-encoding",
    "content-length",
    "transfer-encoding",
)

T = TypeVar("T")


def connection(settings: IndexSettings) -> dict[str, Any]:
    """Arguments for httpx2's clients: certificates and proxy of pip, else of the environment.

    Raises:
        IndexUnavailable: A certificate or a proxy cannot be used; the proxy's password is not
            shown.
    """
    context: ssl.SSLContext | None = None
    if authorities := settings.cert or os.environ.get("SSL_CERT_FILE", ""):
        with usable(f"the certificates of {public(authorities)!r}"):
            path = os.path.expanduser(authorities)  # as pip
            folder, file = (path, None) if os.path.isdir(path) else (None, path)
            context = ssl.create_default_context(cafile=file, capath=folder)
    if settings.client_cert:
        with usable(f"the client certificate {public(settings.client_cert)!r}"):
            context = context or ssl.create_default_context()
            # Without a password, OpenSSL asks the terminal.
            context.load_cert_chain(os.path.expanduser(settings.client_cert), password="")
    proxy = _proxy("pip's proxy", settings.proxy or "")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for variable in (name.lower(), name):
            _proxy(variable, os.environ.get(variable, ""))
    arguments: dict[str, Any] = {"verify": context or True, "proxy": proxy}
    with usable("a proxy of pip or the environment"):
        httpx2.Client(**arguments).close()
    return arguments


def _proxy(name: str, given: str) -> str | None:
    """The address of a proxy, with a scheme; None without one. IndexUnavailable for no address."""
    if not given:
        return None
    proxy = given if "://" in given else f"http://{given}"  # as pip, and as httpx2
    if not is_address(proxy):
        raise IndexUnavailable(
            f"{name} cannot be used: it is {UNREADABLE}",
            "write it as http://HOST:PORT, or unset it",
        )
    return proxy


@contextmanager
def usable(what: str) -> Iterator[None]:
    """Raises IndexUnavailable for a setting that cannot be used."""
    try:
        yield
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        step = (
            "`pip config debug` shows pip's settings; the environment has HTTPS_PROXY, ALL_PROXY"
            " and SSL_CERT_FILE"
        )
        raise IndexUnavailable(f"{what} cannot be used: {describe(error)}", step) from error


_DENIED = 403
ABSENT = (404, 410)
"""Status codes for a missing page or file.

Any other failure does not say whether the server has it.
"""


def refused(answer: httpx2.Response, what: str, service: Service = INDEX) -> CtkError:
    """The error for a failed request for `what` whose status is not in `ABSENT`."""
    step = f"if it should give you that, ask {service.keeper}, or the proxy before it"
    if answer.status_code in service.closed:
        step = service.login
    elif answer.status_code == _DENIED and service.denied:
        step = service.denied
    meaning = httpx2.codes.get_reason_phrase(answer.status_code)
    answered = f"{answer.url.host} answered {answer.status_code} {meaning}".strip()
    return service.unavailable(f"{answered} for {what}", step)


class Pages:
    """A session for unearth with our client and retries.

    unearth itself treats an index that is down like an index without the project; here it is an
    error.
    """

    def __init__(self, client: PyPIClient, retry: Retry, name: str) -> None:
        self._client, self._retry, self._name = client, retry, name
        self.refusals: list[CtkError] = []

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self._send("GET", url, headers)

    def head(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self._send("HEAD", url, headers)

    def iter_secure_origins(self) -> Any:
        return self._client.iter_secure_origins()

    def _send(self, method: str, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        answer = self._retry.send(self._name, lambda: self._whole(method, url, headers))
        if answer.status_code in (401, 407):
            raise refused(answer, self._name)
        if (
            method == "GET" and not answer.is_success and answer.status_code not in ABSENT
        ):  # another index may have it
            self.refusals.append(refused(answer, self._name))
        return answer

    def _whole(self, method: str, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        """An answer with its unpacked content."""
        answer = self._client.send(
            self._client.build_request(method, url, headers=headers), stream=True
        )
        try:
            content = self._content(answer)
        finally:
            answer.close()
        kept = [(k, v) for k, v in answer.headers.multi_items() if k.lower() not in _OF_THE_WIRE]
        return httpx2.Response(
            answer.status_code, headers=kept, content=content, request=answer.request
        )

    def _content(self, answer: httpx2.Response) -> bytes:
        parts, size, end = [], 0, self._retry.clock() + SLOWEST
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise IndexUnavailable(
                    f"the page of {self._name} does not end: {size} bytes came", STEP
                )
            if self._retry.clock() > end:
                raise IndexUnavailable(
                    f"the page of {self._name} did not come within {SLOWEST:.0f} s", STEP
                )
        return b"".join(parts)


_NO_WAY = (
    httpx2.InvalidURL,
    httpx2.UnsupportedProtocol,
    httpx2.TooManyRedirects,
    OSError,
    ValueError,
)
_LONGEST_WAIT = 60.0  # seconds; a server may ask for more, a person waits for less


@dataclass(frozen=True)
class Retry:
    """Retries with exponential backoff.

    Attributes:
        attempts: Tries of one request.
        delay: Seconds before the second try; each further delay is twice as long.
        clock: Measures servers that are too slow.
        service: Whom the requests go to.
    """

    attempts: int = 6
    delay: float = 0.5
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    service: Service = INDEX

    def send(self, what: str, request: Callable[[], httpx2.Response]) -> httpx2.Response:
        """The first response whose status is neither 429 nor 5xx.

        `what` names the request in messages.

        Raises:
            CtkError: The service's: the last try failed, or the address cannot be requested.
        """
        service, reason = self.service, ""
        for attempt in range(self.attempts):
            asked = 0.0
            try:
                answer = request()
            except _NO_WAY as error:  # another try would fail as well
                cause = f"no connection to {service.name} for {what}: {describe(error)}"
                raise service.unavailable(cause, f"ask {service.keeper}") from error
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
        raise service.unavailable(
            f"{service.name} does not give {what}, after {tries}: {reason}", service.again
        )

    def run(self, job: Callable[[], T], kept: Callable[[], int] = lambda: 0) -> T:
        """The result of a job that reads a whole response.

        The job is started again after Interrupted.
        In the end, Interrupted is raised as the service's error.

        `kept` returns the number of bytes from which the next try continues. A try that adds bytes
        is no failure, if it is as fast as `LEAST` in `WHILE`, including its delay: so a download
        with many drops ends some time.
        """
        failures, most = 0, kept()
        while True:
            began = self.clock()
            try:
                return job()
            except Interrupted as error:
                came, most = kept() - most, max(most, kept())
                failures = (
                    0
                    if came * WHILE >= LEAST * (self.clock() - began + self.delay)
                    else failures + 1
                )
                if failures == self.attempts:
                    if isinstance(error, self.service.unavailable):
                        raise
                    cause = f"{self.service.name}: {error.cause}"
                    raise self.service.unavailable(cause, self.service.again) from error
                self._wait(max(failures - 1, 0))

    def _wait(self, attempt: int, asked: float = 0.0) -> None:
        if attempt + 1 < self.attempts:
            self.sleep(min(max(self.delay * 2**attempt, asked), _LONGEST_WAIT))


def _retry_after(value: str) -> float:
    """The seconds of a Retry-After header; 0 without a number."""
    return float(value) if value.isdecimal() else 0.0
