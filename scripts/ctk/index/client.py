"""How the package index is talked to: one HTTP client made of pip's settings; pages are retried and bounded."""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
from unearth import Link, Package, PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.evaluator import Evaluator
from unearth.fetchers import PyPIClient
from unearth.fetchers.sync import LocalFSTransport

from ctk.core.errors import IndexUnavailable, describe
from ctk.index import STEP, IndexSettings, Interrupted

LEAST = 1 << 13
"""Bytes of a file that must come in each `WHILE`, on average: a modem brings twenty times as many."""
WHILE = 30.0
"""Seconds."""
LARGEST = 64 << 20
"""Bytes of a page, unpacked; the longest one known, of 47,000 files, has 21 MB."""
SLOWEST = 600.0
"""Seconds in which a page must have come."""
_ASK_THEM = "ask whoever runs the index"
_HOST = "write it as HOST or HOST:PORT, and IPv6 as [::1]"
_ADDRESS = _HOST.replace("HOST", "http://HOST") + ", or with https"
_WHERE = "`pip config debug` shows where pip has it from"
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")  # of no content that was read

T = TypeVar("T")

# One of several indexes lacks most projects: no reason for a warning each.
logging.getLogger("unearth.collector").setLevel(logging.ERROR)


class _Client(PyPIClient):
    """unearth's client, whose servers lead to servers only: what is local is read when it is asked for by name."""

    def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        if request.url.scheme != "file":
            return super().send(request, **more)
        answer = LocalFSTransport().handle_request(request)
        answer.request = request
        return answer


def open_client(settings: IndexSettings) -> PyPIClient:
    """A client that reaches what pip reaches; safe to use from several threads."""
    return _Client(
        trusted_hosts=settings.trusted_hosts,
        **connection(settings),
        timeout=settings.timeout,
        follow_redirects=True,
        auth=MultiDomainBasicAuth(prompting=False, index_urls=settings.index_urls),
        mounts={"file://": None},
    )


def connection(settings: IndexSettings) -> dict[str, Any]:
    """What httpx2's clients are made with: certificates and proxy, those of the environment where pip states none.

    Raises:
        IndexUnavailable: One cannot be used, or another address, which is not shown: it may hold a password.
    """
    web = ["http", "https"]
    proxies = {settings.called("proxy"): settings.proxy}
    if not settings.proxy and (stated := getproxies()).get("no") != "*":
        proxies = {f"{scheme.upper()}_PROXY": stated.get(scheme) for scheme in (*web, "all")}
    named = {called: _with_scheme(url) for called, url in proxies.items() if url}
    addresses = [(called, url, web, _ADDRESS) for called, url in named.items()]
    addresses += [(settings.called("trusted-host"), f"http://{host}", web, _HOST) for host in settings.trusted_hosts]
    places = {"index-url": [settings.index_url or ""], "extra-index-url": settings.extra_index_urls}
    for option, urls in {**places, "find-links": settings.find_links}.items():
        addresses += [(settings.called(option), url, [*web, "file"], _ADDRESS) for url in urls if "://" in url]
    for called, url, schemes, form in addresses:
        with suppress(ValueError, httpx2.InvalidURL):
            scheme, parts = httpx2.URL(url).scheme, urlsplit(url)
            if scheme in schemes and (scheme == "file" or parts.hostname) and parts.port != 0:
                continue
        raise IndexUnavailable(f"{called} has an address that cannot be used", f"{form}; {_WHERE}")

    context: ssl.SSLContext | None = None
    if authorities := settings.cert or os.environ.get("SSL_CERT_FILE", ""):
        called = settings.called("cert") if settings.cert else "SSL_CERT_FILE"
        context = _read_pem(called, authorities, "certificates", _trust)
    if settings.client_cert:
        context = context or ssl.create_default_context()
        load = partial(context.load_cert_chain, password="")  # without one, OpenSSL asks the terminal
        called = settings.called("client-cert")
        _read_pem(called, settings.client_cert, "a certificate and its key without a passphrase", load)
    return {"verify": context or True, "proxy": named.get(settings.called("proxy"))}


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"  # as pip


def _trust(place: str) -> ssl.SSLContext:
    if any(Path(place).glob("*.0")):  # as `openssl rehash` makes them
        return ssl.create_default_context(capath=place)
    return ssl.create_default_context(cafile=place)


def _read_pem(called: str, place: str, what: str, read: Callable[[str], T]) -> T:
    path = os.path.expanduser(place)  # as pip
    try:
        return read(path)
    except (OSError, ValueError) as error:
        why = f"it does not hold {what}" if isinstance(error, ssl.SSLError) else getattr(error, "strerror", str(error))
        raise IndexUnavailable(
            f"{called} names {place!r}, which cannot be used: {why}", f"name a file in PEM form with {what}; {_WHERE}"
        ) from error


class LinkSource(PackageFinder):
    """One index, or one place with links, as unearth reads it."""

    def build_evaluator(self, package_name: str, allow_yanked: bool = False) -> Evaluator:
        is_remote = urlsplit(self.sources[0]["url"]).scheme in ("http", "https")
        return _Links(package_name, ignore_compatibility=True, allow_yanked=allow_yanked, is_remote=is_remote)


@dataclass
class _Links(Evaluator):
    """Which links of a page are files of a distribution; a server's page has no local ones."""

    is_remote: bool = True

    def evaluate_link(self, link: Link) -> Package | None:
        package = super().evaluate_link(link)
        if package and link.is_file and self.is_remote:
            raise IndexUnavailable(
                f"the page of {self.package_name} is a server's, and leads to a file of this machine: {link.filename}",
                _ASK_THEM,
            )
        return package


ABSENT = (404, 410)
"""What a server answers that does not have a page or a file; any other answer says nothing of what it has."""


def refused(answer: httpx2.Response, what: str) -> IndexUnavailable:
    """The error for an answer that is neither what was asked for nor one of `ABSENT`."""
    step = f"if it should give you that, {_ASK_THEM}, or the proxy before it"
    if answer.status_code in (401, 407):
        step = "give pip the right credentials (index URL, proxy, netrc or keyring), then run the same command again"
    meaning = httpx2.codes.get_reason_phrase(answer.status_code)
    return IndexUnavailable(f"{answer.url.host} answered {answer.status_code} {meaning}".strip() + f" for {what}", step)


class Pages:
    """What unearth reads pages with: our client and retries.

    unearth itself takes an index that is down for one that lacks the project; here it is an error.
    """

    def __init__(self, client: PyPIClient, retry: Retry, name: str) -> None:
        self._client, self._retry, self._name = client, retry, name
        self.refusals: list[IndexUnavailable] = []

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
        if method == "GET" and not answer.is_success and answer.status_code not in ABSENT:  # another index may have it
            self.refusals.append(refused(answer, self._name))
        return answer

    def _whole(self, method: str, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        """An answer with its content, if that is what a page may be."""
        answer = self._client.send(self._client.build_request(method, url, headers=headers), stream=True)
        try:
            content = self._content(answer)
        finally:
            answer.close()
        kept = [(k, v) for k, v in answer.headers.multi_items() if k.lower() not in _OF_THE_WIRE]
        return httpx2.Response(answer.status_code, headers=kept, content=content, request=answer.request)

    def _content(self, answer: httpx2.Response) -> bytes:
        parts, size, end = [], 0, self._retry.clock() + SLOWEST
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise IndexUnavailable(f"the page of {self._name} does not end: {size} bytes came", STEP)
            if self._retry.clock() > end:
                raise IndexUnavailable(f"the page of {self._name} did not come within {SLOWEST:.0f} s", STEP)
        return b"".join(parts)


_NO_WAY = (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects, OSError, ValueError)
_LONGEST_WAIT = 60.0  # seconds; a server may ask for more, a person waits for less


@dataclass(frozen=True)
class Retry:
    """How often a request is tried; `delay` seconds before the second try, and twice as long before each further one.

    The clock shows who is too slow.
    """

    attempts: int = 6
    delay: float = 0.5
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def send(self, what: str, request: Callable[[], httpx2.Response]) -> httpx2.Response:
        """The first response to a request about `what` whose status is neither 429 nor 5xx.

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

    def run(self, job: Callable[[], T], kept: Callable[[], int] = lambda: 0) -> T:
        """The result of a job that reads a response to its end, started again after Interrupted.

        `kept` says how many bytes there are for the next try to go on from. A try that adds to the most there were is
        no failure, if it brings them as fast as `LEAST` in `WHILE`, its wait included: drops do not go on for ever.
        """
        failures, most = 0, kept()
        while True:
            began = self.clock()
            try:
                return job()
            except Interrupted:
                came, most = kept() - most, max(most, kept())
                failures = 0 if came * WHILE >= LEAST * (self.clock() - began + self.delay) else failures + 1
                if failures == self.attempts:
                    raise
                self._wait(max(failures - 1, 0))

    def _wait(self, attempt: int, asked: float = 0.0) -> None:
        if attempt + 1 < self.attempts:
            self.sleep(min(max(self.delay * 2**attempt, asked), _LONGEST_WAIT))


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for; 0 when it asks for nothing."""
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
