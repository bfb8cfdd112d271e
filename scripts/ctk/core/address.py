"""Addresses of channels: none that is typed has a secret in it; logins are those of ``RATTLER_AUTH_FILE``."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from ctk.core.errors import USER, BadValue, without_credentials
from ctk.core.files import read_plain

if TYPE_CHECKING:  # slow to import
    from rattler import Gateway
    from rattler.networking import Client

_ADDRESS = re.compile(rf"(\w[\w+.-]*://)(?:({USER})@)?([^/?#@]*)([^?#]*)((?s:.*))")
_TOKEN = re.compile(r"/t/+([^/]+)")
_BLANKS = re.compile(r"(?s)://[^/@]*:(?!\d*[/?#]).*@")  # a password may have any character
_AUTH = "RATTLER_AUTH_FILE"
LOGIN = f"write the login into a file that {_AUTH} names"


_REFUSED = re.compile(r"\b(?:401|403) (?:Unauthorized|Forbidden)|status(?: code)?:? \(?(?:401|403)\b")


def refused_login(text: str) -> bool:
    """Whether an error of rattler says that a server wants a login, or refuses the one that it got."""
    return _REFUSED.search(text) is not None


def public(text: str) -> str:
    """An address without its user, password, token and query; a name or a folder unchanged."""
    match = _ADDRESS.fullmatch(text)
    if not match:
        return text
    scheme, _, host, path, query = match.groups()
    is_file, is_http = scheme.lower() == "file://", scheme.lower().startswith("http")
    return scheme + host + (_TOKEN.sub("", path) if is_http else path) + (query if is_file else "")


def refuse_secrets(text: str) -> None:
    """Raises BadValue for a typed word with an address that has a user, a password or a token in it.

    Other users of a machine see what is typed, and what an option has may be printed and written anywhere.
    """
    if without_credentials(text) != text or _BLANKS.search(text):
        raise BadValue(
            "an address has a password or a token in it",
            f"{LOGIN}, and give the address without it",
        )


def logged_in(url: str) -> tuple[str, dict[str, str]]:
    """An address and the headers for it, with the login for its host: for requests that rattler does not make."""
    parts, known = urlsplit(url), _logins()
    labels = (parts.hostname or "").split(".")
    hosts = [".".join(labels), *(f"*.{'.'.join(labels[i:])}" for i in range(len(labels)))]  # as rattler_networking
    login: dict[str, Any] = next((known[host] for host in hosts if host in known), {})
    if token := login.get("CondaToken"):
        return urlunsplit(parts._replace(path=f"/t/{token}{parts.path}")), {}
    if user := login.get("BasicHTTP"):
        word = b64encode(f"{user['username']}:{user['password']}".encode()).decode()
        return url, {"Authorization": f"Basic {word}"}
    bearer = login.get("BearerToken")
    return url, {"Authorization": f"Bearer {bearer}"} if bearer else {}


def _logins() -> dict[str, Any]:
    """Host -> its login, as in the file that ``RATTLER_AUTH_FILE`` names; nothing without a file.

    Raises:
        BadValue: It is no file of logins; nothing of its content is printed.
    """
    name = os.environ.get(_AUTH, "")
    if not name or not os.path.lexists(name):
        return {}
    try:
        known = json.loads(read_plain(Path(name)))
    except (ValueError, RecursionError, IsADirectoryError):
        known = None
    if not isinstance(known, dict) or not all(map(_is_login, known.values())):
        step = f'write one as in {{"conda.example.org": {{"BearerToken": "..."}}}}, or `unset {_AUTH}`'
        raise BadValue(f"{name}, which {_AUTH} names, is no file of logins", step)
    return known


def _is_login(login: Any) -> bool:
    """Whether an entry of a file of logins is one; rattler has kinds that this module does not read."""
    if not isinstance(login, dict):
        return False
    user = login.get("BasicHTTP", {"username": "", "password": ""})
    texts = [login.get("BearerToken", ""), login.get("CondaToken", "")]
    if isinstance(user, dict):
        texts += [user.get("username"), user.get("password")]
    return isinstance(user, dict) and all(isinstance(text, str) for text in texts)


def client() -> Client | None:
    """A rattler client with the logins, also in a worker; None without logins.

    Raises:
        BadValue: The file of logins is none.
    """
    from rattler.networking import Client

    _logins()  # rattler prints the whole path of its own code for one that it cannot read
    return Client.default_client() if _AUTH in os.environ else None


def open_gateway(**options: Any) -> Gateway:
    """A rattler gateway with the logins."""
    from rattler import Gateway

    return Gateway(client=client(), **options)
