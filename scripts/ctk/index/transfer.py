"""Reads files from servers: the package index, channels. Each has tries, a time and a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from ctk.core.errors import CtkError, describe
from ctk.index import LARGEST, Interrupted
from ctk.index.client import ABSENT, LEAST, WHILE, Retry, refused

_IDENTITY = {"Accept-Encoding": "identity"}  # lengths and offsets are those of the file
_NO_SUCH_RANGE = 416  # Content-Range has the size of the file


@dataclass(frozen=True)
class Remote:
    """A file on a server.

    Attributes:
        what: For messages: ``nvidia-nvtx (nvidia_nvtx-13.0.85-py3-none-win_amd64.whl)``.
        url: Never printed: it may have a login in it.
        absent: Makes the error for a server that does not have it.
        headers: The login, and others for this file.
    """

    what: str
    url: str = field(repr=False)
    absent: Callable[[], CtkError] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Transfer:
    """Reads files with a client; safe to use from several threads.

    If a connection breaks or is too slow for too long, all methods raise the error of the retry's
    service.
    """

    def __init__(self, client: httpx2.Client, retry: Retry) -> None:
        self._client, self.retry = client, retry

    def read(self, remote: Remote, most: int) -> bytes:
        """A whole file of at most this many bytes."""

        def read() -> bytes:
            with self.opened(remote) as answer:
                return b"".join(self.chunks(answer, remote, most))

        return self.retry.run(read)

    def part(self, remote: Remote, start: int, length: int) -> bytes | None:
        """Some bytes of a file; None from a server without ranges."""

        def read() -> bytes | None:
            with self.opened(remote, {"Range": f"bytes={start}-{start + length - 1}"}) as answer:
                if answer.status_code != httpx2.codes.PARTIAL_CONTENT:
                    return None
                return b"".join(self.chunks(answer, remote, length))

        return self.retry.run(read)

    def size(self, remote: Remote) -> int:
        """Bytes of a file, from a HEAD request, or from its content if there is no HEAD."""
        headers = {**remote.headers, **_IDENTITY}
        head = self.retry.send(
            remote.what, lambda: self._client.request("HEAD", remote.url, headers=headers)
        )
        stated = head.headers.get("Content-Length", "")
        if head.status_code == httpx2.codes.OK and stated.isdecimal():
            return int(stated)
        with self.stream(remote) as (_, total, chunks):
            return total if total is not None else sum(map(len, chunks))

    @contextmanager
    def stream(
        self, remote: Remote, offset: int = 0
    ) -> Iterator[tuple[bool, int | None, Iterator[bytes]]]:
        """The content of a file from ``offset`` on.

        Yields:
            Whether the chunks start at ``offset`` (else at 0: the server ignores ranges), the size
            of the whole file
            if the server states it, and the chunks: none if the file ends before ``offset``. If the
                connection breaks,
            they raise Interrupted, and a new stream can continue.
        """
        with self.opened(remote, {"Range": f"bytes={offset}-"} if offset else {}) as answer:
            beyond = answer.status_code == _NO_SUCH_RANGE
            chunks = iter(()) if beyond else self.chunks(answer, remote)
            yield (
                beyond or answer.status_code == httpx2.codes.PARTIAL_CONTENT,
                _total(answer),
                chunks,
            )

    @contextmanager
    def opened(
        self, remote: Remote, more: Mapping[str, str] | None = None, also: tuple[int, ...] = ()
    ) -> Iterator[httpx2.Response]:
        """The answer to a GET request, with more headers.

        `also` are further statuses that are no error.
        """
        headers = {**remote.headers, **_IDENTITY, **(more or {})}
        answer = self.retry.send(remote.what, lambda: self._send(remote.url, headers))
        fine = {httpx2.codes.OK, httpx2.codes.PARTIAL_CONTENT, *also}
        if "Range" in headers:
            fine.add(_NO_SUCH_RANGE)
        try:
            if answer.status_code in ABSENT and answer.status_code not in fine:
                raise remote.absent()
            if answer.status_code not in fine:
                raise refused(answer, remote.what, self.retry.service)
            yield answer
        finally:
            answer.close()

    def chunks(
        self,
        answer: httpx2.Response,
        remote: Remote,
        most: int = LARGEST,
        slowest: float = math.inf,
    ) -> Iterator[bytes]:
        """The bytes of an answer.

        Raises:
            Interrupted: The connection broke, or was slower than `LEAST` bytes in `WHILE`.
            CtkError: There are more than `most` bytes, or they take more than `slowest` seconds.
        """
        service, clock = self.retry.service, self.retry.clock
        size, began = 0, clock()
        try:
            for chunk in answer.iter_raw():
                size += len(chunk)
                if size > most:
                    cause = f"{remote.what} of {service.name} does not end: {size} bytes came"
                    raise service.unavailable(cause, service.again)
                yield chunk
                waited = clock() - began
                if waited > slowest:
                    late = f"{remote.what} of {service.name} did not come within {slowest:.0f} s"
                    raise service.unavailable(late, service.again)
                # A timeout is only for the time between bytes.
                if waited > WHILE and size * WHILE < LEAST * waited:
                    slow = f"{remote.what} is too slow: {size} bytes came in {waited:.0f} s"
                    raise Interrupted(slow, service.again)
        except httpx2.RequestError as error:
            cause = f"{remote.what} broke off: {describe(error)}"
            raise Interrupted(cause, service.again) from error

    def _send(self, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        request = self._client.build_request("GET", url, headers=headers)
        return self._client.send(request, stream=True)


def _total(answer: httpx2.Response) -> int | None:
    """The size of the whole file, from a whole or a partial answer."""
    if answer.status_code in (httpx2.codes.PARTIAL_CONTENT, _NO_SUCH_RANGE):
        total = answer.headers.get("Content-Range", "").rpartition("/")[2]
    else:
        total = answer.headers.get("Content-Length", "")
    return int(total) if total.isdecimal() else None
