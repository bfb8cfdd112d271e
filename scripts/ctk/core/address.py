"""Channel addresses of the command line. Their secrets are removed at once, so that no function can print them.

An address may have a user and a password, conda's form of a token (``/t/TOKEN/``), or a query. rattler gets the
secrets, by host, from the file of ``RATTLER_AUTH_FILE``. `ctk.cli.main` calls `take` with every word of a command line,
so that no option can be forgotten.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ctk.core.errors import USER, BadValue

if TYPE_CHECKING:  # slow to import
    from rattler import Gateway
    from rattler.networking import Client

_ADDRESS = re.compile(rf"(\w[\w+.-]*://)(?:({USER})@)?([^/?#@]*)([^?#]*)((?s:.*))")
_SCHEME = re.compile(r"\w[\w+.-]*://")
_TOKEN = re.compile(r"/t/+([^/]+)")
_UNCLEAR = re.compile(
    r"""(?s)\w[\w+.-]*://(?!\[)[^/@]*:(?!\d*[/?#]).*[/?#\s"<>].*@|(?:\w[\w+.-]*:/(?!/)|(?:https?:/+)?//)?[^\s/:@]*:[^\s/]*@"""
)
_FORMS = "put USER:PASSWORD@ before the host, with %2F for / and the like, or /t/TOKEN behind it"
_AUTH = "RATTLER_AUTH_FILE"
_known: dict[str, str] = {}
"""Scheme and host of an address -> the same with the typed user or token."""
_logins: dict[str, Any] = {}
"""Host -> its secret, in rattler's form."""


def public(text: str) -> str:
    """An address without its secrets; a name or a folder unchanged."""
    match = _ADDRESS.fullmatch(text)
    if not match:
        return text
    scheme, _, host, path, query = match.groups()
    is_file, is_http = scheme.lower() == "file://", scheme.lower().startswith("http")
    return scheme + host + (_TOKEN.sub("", path) if is_http else path) + (query if is_file else "")


def take(text: str) -> str:
    """Removes the secrets from a typed word, and passes them to rattler.

    Raises:
        BadValue: The secrets are in a form that is ambiguous, or that rattler does not know, or the host has others.
    """
    start = found.start() if (found := _SCHEME.search(text)) else 0
    if _UNCLEAR.match(text) or _UNCLEAR.match(text, start):
        raise BadValue("an address has a password in a form that cannot be read", _FORMS)
    if start:  # of a spec: NAME[channel=URL]
        address = re.split(r"""[]\s,'"]""", text[start:], maxsplit=1)[0]
        return text[:start] + take(address) + text[start + len(address) :]
    if not (match := _ADDRESS.fullmatch(text)):
        return text
    scheme, user, host, path, _ = match.groups()
    token, *more = (scheme.lower().startswith("http") and _TOKEN.findall(path)) or [""]
    if token and (user or more or not path.startswith("/t/")):
        raise BadValue(f"{public(text)} has a token that is not at the start of its path, or a user as well", _FORMS)
    if user or token:
        name, _, password = (user or "").partition(":")
        login = {"BasicHTTP": {"username": unquote(name), "password": unquote(password)}}
        _tell_rattler(re.sub(r":\d*$", "", host).lower(), {"CondaToken": token} if token else login)
        _known[scheme + host] = scheme + (f"{user}@" if user else "") + host + (f"/t/{token}" if token else "")
    return public(text)


def real(address: str) -> str:
    """A public address with the secrets that were typed for its host: only for requests, never printed."""
    match = _ADDRESS.fullmatch(address)
    start = match[1] + match[3] if match else ""
    return _known.get(start, start) + address.removeprefix(start)


def client() -> Client | None:
    """A rattler client with the secrets, also in a worker; None without secrets."""
    from rattler.networking import Client

    return Client.default_client() if _AUTH in os.environ else None


def open_gateway(**options: Any) -> Gateway:
    """A rattler gateway with the secrets."""
    from rattler import Gateway

    return Gateway(client=client(), **options)


def _tell_rattler(host: str, secret: dict[str, Any]) -> None:
    """Writes the secrets, with those of the user's own file, into memory: no disk gets them, no kill leaves them."""
    if _logins.setdefault(host, secret) != secret:
        raise BadValue(f"there are two passwords or tokens for {host}", "give one that may read both")
    noted: dict[str, Any] = {}
    with suppress(KeyError, OSError, ValueError):  # rattler ignores such a file, too
        noted = json.loads(Path(os.environ[_AUTH]).read_bytes())
    file = os.memfd_create("ctk-auth")
    os.write(file, json.dumps({**noted, **_logins}).encode())
    os.environ[_AUTH] = f"/proc/{os.getpid()}/fd/{file}"
