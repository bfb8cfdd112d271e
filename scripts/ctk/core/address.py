"""Addresses that somebody typed. Their secrets are taken off where they come in: no other function can show them.

A channel's address may have a user and a password, conda's form of a token (``/t/TOKEN/``), or a query. What is left
names the channel; rattler takes the secrets from the file of its own that ``RATTLER_AUTH_FILE`` names, by host.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rattler import Gateway
from rattler.networking import Client

from ctk.core.files import read_json

_ADDRESS = re.compile(r"(\w[\w+.-]*://)(?:([^/]*)@)?([^/?#@]*)(?:/t/([^/?#]+))?([^?#]*)(?s:.*)")
_AUTH = "RATTLER_AUTH_FILE"
_known: dict[str, str] = {}
"""An address's scheme and host -> what was typed for these, with its user or token."""


def public(text: str) -> str:
    """An address without its secrets, which rattler is given; a name or a folder as it is."""
    match = _ADDRESS.fullmatch(text)
    if not match:
        return text
    scheme, user, host, token, path = match.groups()
    if user or token:
        _known[scheme + host] = scheme + (f"{user}@" if user else "") + host + (f"/t/{token}" if token else "")
        name, _, password = (user or "").partition(":")
        basic = {"BasicHTTP": {"username": unquote(name), "password": unquote(password)}}
        _tell_rattler(host.partition(":")[0], {"CondaToken": token} if token else basic)
    return scheme + host + path


def real(address: str) -> str:
    """A public address with the secrets that were typed for its host: for a request, and never for anybody's eyes."""
    match = _ADDRESS.fullmatch(address)
    start = match[1] + match[3] if match else ""
    return _known.get(start, start) + address.removeprefix(start)


def client() -> Client | None:
    """What has the secrets, for rattler; None without one, where rattler makes its own."""
    return Client.default_client() if _known else None


def open_gateway(**options: Any) -> Gateway:
    return Gateway(client=client(), **options)


def _tell_rattler(host: str, secret: dict[str, Any]) -> None:
    file = os.environ.get(_AUTH)
    noted = (read_json(Path(file)) if file else None) or {}
    if file is None or not Path(file).is_relative_to(tempfile.gettempdir()):  # the user's own stays as it is
        handle, os.environ[_AUTH] = tempfile.mkstemp(suffix=".json")  # for this user only
        os.close(handle)
    Path(os.environ[_AUTH]).write_text(json.dumps({**noted, host: secret}))
