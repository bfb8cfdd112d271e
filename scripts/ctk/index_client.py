"""How the package index is talked to: one HTTP client made of pip's settings, and pages that are retried."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import Any

import httpx2
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient

from ctk.errors import IndexUnavailable
from ctk.pip_config import IndexSettings
from ctk.retry import STEP, Retry

LARGEST = 64 << 20
"""Bytes of a page: far beyond that of a distribution with thousands of files."""
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")  # what does not hold for a content once read

# One of several indexes lacks most projects: no reason for a warning each.
logging.getLogger("unearth.collector").setLevel(logging.ERROR)


def open_client(settings: IndexSettings) -> PyPIClient:
    """A client that reaches what pip reaches; safe to use from several threads."""
    verify: ssl.SSLContext | bool = True
    if settings.cert or settings.client_cert:
        verify = ssl.create_default_context(cafile=settings.cert)
        if settings.client_cert:
            verify.load_cert_chain(settings.client_cert)
    return PyPIClient(
        trusted_hosts=settings.trusted_hosts,
        verify=verify,
        proxy=settings.proxy,
        timeout=settings.timeout,
        follow_redirects=True,
        auth=MultiDomainBasicAuth(prompting=False, index_urls=settings.index_urls),
    )


class Pages:
    """What unearth reads pages with: our client and retries.

    unearth itself takes an index that is down for one that lacks the project; here it is an error.
    """

    def __init__(self, client: PyPIClient, retry: Retry, name: str) -> None:
        self._client, self._retry, self._name = client, retry, name

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self._send("GET", url, headers)

    def head(self, url: str, *, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self._send("HEAD", url, headers)

    def get_stream(self, url: str, *, headers: Mapping[str, str] | None = None) -> Any:
        return self._client.get_stream(url, headers=headers)

    def iter_secure_origins(self) -> Any:
        return self._client.iter_secure_origins()

    def _send(self, method: str, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        answer = self._retry.send(self._name, lambda: self._whole(method, url, headers))
        if answer.status_code in (401, 407):
            raise IndexUnavailable(
                f"{answer.url.host} answered {answer.status_code} for {self._name}: it wants other credentials",
                "give pip the right ones (index URL, netrc or keyring), then run the same command again",
            )
        return answer

    def _whole(self, method: str, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        """An answer with its content, as long as a page may be."""
        answer = self._client.send(self._client.build_request(method, url, headers=headers), stream=True)
        try:
            parts, size = [], 0
            for part in answer.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > LARGEST:
                    raise IndexUnavailable(f"the page of {self._name} does not end: {size} bytes came", STEP)
        finally:
            answer.close()
        kept = [(k, v) for k, v in answer.headers.multi_items() if k.lower() not in _OF_THE_WIRE]
        return httpx2.Response(answer.status_code, headers=kept, content=b"".join(parts), request=answer.request)
