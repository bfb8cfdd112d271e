"""unearth's client for the package index, with pip's settings and logins."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient
from unearth.fetchers.sync import LocalFSTransport

from ctk.core.address import public
from ctk.core.secrets import hide
from ctk.index import IndexSettings
from ctk.index.client import connection, usable

# Of several indexes, each lacks some projects: that needs no warning.
logging.getLogger("unearth.collector").setLevel(logging.ERROR)


class _Logins(MultiDomainBasicAuth):
    """unearth's logins, of addresses, netrc and keyring; each is hidden as soon as it is known."""

    def _get_new_credentials(self, *asked: Any, **more: Any) -> tuple[str | None, str | None]:
        user, password = super()._get_new_credentials(*asked, **more)
        hide(password or "", user or "")
        return user, password


class _Client(PyPIClient):
    """unearth's client, but no server can redirect to a local file.

    Such files are read only when pip names them.
    """

    def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        if request.url.scheme != "file":
            return super().send(request, **more)
        answer = LocalFSTransport().handle_request(request)
        answer.request = request
        return answer


def open_client(settings: IndexSettings) -> PyPIClient:
    """A client with pip's settings; safe to use from several threads.

    IndexUnavailable for an unusable setting.
    """
    arguments = connection(settings)
    trusted = " ".join(map(public, settings.trusted_hosts))
    with usable(f"pip's trusted hosts, {trusted!r},"):
        return _Client(
            trusted_hosts=settings.trusted_hosts,
            **arguments,
            timeout=settings.timeout,
            follow_redirects=True,
            auth=_Logins(prompting=False, index_urls=settings.index_urls),
            mounts={"file://": None},
        )
