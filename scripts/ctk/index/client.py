"""How the package index is talked to: one HTTP client made of pip's settings, and pages that are retried and bounded.

A server that sends next to nothing is given up: no timeout between two bytes sees one byte a second.

The longest page that the limits were held against is of 47,000 files: 21 MB, and 1.2 million of `_MARKS`.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import logging
import math
import os
import ssl
import time
import zlib
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

import httpcore2
import httpx2
from unearth import Link, Package, PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.evaluator import Evaluator
from unearth.fetchers import PyPIClient
from unearth.fetchers.sync import LocalFSTransport
from unearth.utils import url_to_path

from ctk.core.errors import IndexUnavailable, describe
from ctk.index import STEP, IndexSettings, Interrupted

LEAST = 1 << 13
"""Bytes that must come in `WHILE` of waiting: a modem brings twenty times as many."""
WHILE = 30.0
"""Seconds; twice the timeout, where that is more."""
LARGEST = 64 << 20
"""Bytes of a page, unpacked."""
SLOWEST = 600.0
"""Seconds in which a page must have come."""
MARKS = 3_000_000
"""Of `_MARKS` in a page: so many tags or values are made of it, at sixty bytes and a microsecond or more each."""
LINKS = 150_000
"""Of a page; a wheel counts as often as it has tags."""
LONGEST = 1 << 14
"""Characters of a link."""
_MARKS = b"<>{}[],:"
_RUN = 1 << 20  # bytes of a tag of HTML, or of the text between two
_CHARSETS = ("ascii", "iso8859-1", "utf-8", "utf-16", "utf-16-be", "utf-16-le")  # others take hours, or are no text
_ASK_THEM = "ask whoever runs the index"
_HOST = "write it as HOST or HOST:PORT, and IPv6 as [::1]"
_ADDRESS = _HOST.replace("HOST", "http://HOST") + ", or with https"
_WHERE = "`pip config debug` shows where pip has it from"
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")  # what does not hold for a content once read

T = TypeVar("T")

# One of several indexes lacks most projects: no reason for a warning each.
logging.getLogger("unearth.collector").setLevel(logging.ERROR)


class _Client(PyPIClient):
    """unearth's client, whose servers lead to servers only: what is local is read when it is asked for by name."""

    def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        if request.url.scheme != "file":
            return super().send(request, **more)
        path = url_to_path(str(request.url))
        if path.exists() and not path.is_file():  # to open a pipe is to wait for whoever writes into it
            raise IndexUnavailable(f"{path} is not a file", "see find-links and the indexes in `pip config list`")
        answer = LocalFSTransport().handle_request(request)
        answer.request = request
        return answer


class _Backend(httpcore2.SyncBackend):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def connect_tcp(self, *args: Any, **more: Any) -> httpcore2.NetworkStream:
        return _CountedStream(super().connect_tcp(*args, **more), self._clock)


class _CountedStream(httpcore2.NetworkStream):
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
        return _CountedStream(self._stream.start_tls(*args, **more), self._clock)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def open_client(settings: IndexSettings, clock: Callable[[], float]) -> PyPIClient:
    """A client that reaches what pip reaches; safe to use from several threads. The clock tells who is too slow."""
    client = _Client(
        trusted_hosts=settings.trusted_hosts,
        **connection(settings),
        timeout=settings.timeout,
        follow_redirects=True,
        auth=MultiDomainBasicAuth(prompting=False, index_urls=settings.index_urls),
        mounts={"file://": None},
    )
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            # httpcore2's pool takes a backend; httpx2 makes the pool and hands none on.
            transport._pool._network_backend = _Backend(clock)
    return client


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
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise OSError(errno.EINVAL, "it is no file")  # a pipe waits for whoever writes into it
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
    """Which links of a page are files of a distribution; no page has too many, and a server's has no local ones."""

    is_remote: bool = True
    count: int = 0

    def evaluate_link(self, link: Link) -> Package | None:
        tags = link.filename.removesuffix(".whl").rsplit("-", 3)[1:] if link.is_wheel else []
        self.count += math.prod(tag.count(".") + 1 for tag in tags)
        if self.count > LINKS or len(link.url) > LONGEST:
            what = f"a link of {len(link.url)} characters" if self.count <= LINKS else f"more than {LINKS} links"
            raise IndexUnavailable(f"the page of {self.package_name} has {what}", _ASK_THEM)
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
        asked = {**(headers or {}), "Accept-Encoding": "gzip"}
        answer = self._client.send(self._client.build_request(method, url, headers=asked), stream=True)
        try:
            content = self._unpacked(answer)
        finally:
            answer.close()
        kept = [(k, v) for k, v in answer.headers.multi_items() if k.lower() not in _OF_THE_WIRE]
        page = httpx2.Response(answer.status_code, headers=kept, content=content, request=answer.request)
        if page.is_success:
            self._check(page)
        return page

    def _unpacked(self, answer: httpx2.Response) -> bytes:
        parts, size, end = [], 0, self._retry.clock() + SLOWEST
        for part in answer.iter_raw():
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                break
            if self._retry.clock() > end:
                raise IndexUnavailable(f"the page of {self._name} did not come within {SLOWEST:.0f} s", STEP)
        content, coding = b"".join(parts), answer.headers.get("Content-Encoding", "identity").lower()
        if coding in ("gzip", "x-gzip"):
            try:
                content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(LARGEST + 1)
            except (EOFError, OSError, zlib.error) as error:  # one that was cut: httpx2 would take it as a page
                raise httpx2.DecodingError(str(error)) from error
        elif coding != "identity":
            raise IndexUnavailable(f"{answer.url.host} sends the page of {self._name} as {coding!r}", _ASK_THEM)
        if len(content) > LARGEST:
            raise IndexUnavailable(f"the page of {self._name} does not end: {len(content)} bytes came", STEP)
        return content

    def _check(self, page: httpx2.Response) -> None:
        """What is counted here bounds the memory and the time of unearth's parsers."""
        charset = page.charset_encoding or "utf-8"
        with suppress(LookupError):
            charset = codecs.lookup(charset).name
        if charset not in _CHARSETS:
            raise IndexUnavailable(
                f"{page.url.host} sends the page of {self._name} in the charset {charset}", _ASK_THEM
            )
        marks = len(page.content) - len(page.content.translate(None, _MARKS))
        is_json = "json" in page.headers.get("Content-Type", "").lower()
        if marks > MARKS or (not is_json and max(map(len, page.content.split(b">"))) > _RUN):
            raise IndexUnavailable(
                f"the page of {self._name} is no list of links: {marks} tags and values, or one of over a megabyte",
                _ASK_THEM,
            )


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
