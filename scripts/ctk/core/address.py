"""Addresses of channels and indexes: what of one may be shown, and which a command takes.

No address that is typed has a secret in it. Logins for channels are those of ``RATTLER_AUTH_FILE``.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from ctk.core.errors import BadValue
from ctk.core.files import read_json, read_plain
from ctk.core.secrets import USER, has_secret, hide, without_credentials

if TYPE_CHECKING:  # slow to import
    from rattler import Gateway
    from rattler.networking import Client

_ADDRESS = re.compile(rf"(\w[\w+.-]*://)(?:({USER})@)?([^/?#@]*)([^?#]*)((?s:.*))")
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\])(?::\d*)?")
_TOKEN = re.compile(r"/t/+([^/]+)")
_TOKEN_OF_A_NAME = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+(?::\d+)?/(?:.*/)?)?t/+[^/]+/")
_AUTH = "RATTLER_AUTH_FILE"
LOGIN = f"write the login into a file that {_AUTH} names"
SCHEMES = ("https", "http", "file")
"""Those of addresses of channels that are read."""
UNREADABLE = "an address that cannot be read"
"""Is shown in place of a text that may be an address with a secret in it."""


_REFUSED = re.compile(
    r"\b(?:401|403) (?:Unauthorized|Forbidden)|status(?: code)?:? \(?(?:401|403)\b"
)


def refused_login(text: str) -> bool:
    """Whether an error of rattler says that a server wants a login, or refuses its login."""
    return _REFUSED.search(text) is not None


def public(text: str) -> str:
    """An address without its user, password, token and query; a name or a folder unchanged.

    A text that is none of these, such as ``user:password@host``, is not shown: see `UNREADABLE`.
    """
    match = _ADDRESS.fullmatch(text)
    if not match:
        return UNREADABLE if has_secret(text) and not is_place(text) else text
    scheme, _, host, path, query = match.groups()
    if scheme.lower() == "file://":
        return scheme + host + path + query
    # What looks like a port may begin a password with a slash: ``https://user:12/34@host``.
    if not _HOST.fullmatch(host) or (":" in host and "@" in path):
        return UNREADABLE
    path = re.sub(";[^/]*", "", path)
    if scheme.lower().startswith("http"):
        path = _TOKEN.sub("", path)
    return without_credentials(scheme + host + path)


def is_address(text: str) -> bool:
    """Whether a text is an address that a client can use: a scheme, and a host or a file."""
    match = _ADDRESS.fullmatch(text)
    if not match or re.search(r"\s", text):
        return False
    return match[1].lower() == "file://" or _HOST.fullmatch(match[3]) is not None


def is_place(text: str) -> bool:
    """Whether a text is a path: it exists, or the folder before its first colon or ``@`` exists."""
    path = os.path.expanduser(text)
    if "\0" in path or text.startswith("//"):
        return False
    before_odd = re.split("[^/]*[:@]", path, maxsplit=1)[0]
    folder = before_odd if before_odd != path else path.partition("/")[0]
    is_below = folder.strip("/") != "" and os.path.isdir(folder)
    return is_below or os.path.lexists(path)


def bucket_address(place: Path) -> str | None:
    """The address of a bucket of S3, where a typed place is one; `Path` leaves one slash of two."""
    text = str(place)
    return "s3://" + text[3:].lstrip("/") if text.startswith("s3:/") else None


def typed_address(place: Path) -> str:
    """An address as it was typed, where a typed place is one: `Path` leaves one slash of two."""
    return re.sub(r"^(\w[\w+.-]*:)/(?!/)", r"\1//", str(place))


def server_address(place: Path) -> tuple[str, str] | None:
    """The kind and the address of a server, where a typed place is ``KIND+https://...``."""
    match = re.fullmatch(r"(\w+)\+(https?):/+(.+)", str(place))
    return (match[1], f"{match[2]}://{match[3]}") if match else None


def refuse_secrets(text: str, of_address: bool = False) -> None:
    """Raises BadValue for a typed word with an address that has a user, a password or a token.

    Other users of a machine see what is typed, and what an option has may be printed and written
    anywhere. With `of_address`, the word is a channel or a server and nothing else, so that
    ``user@host`` and ``t/TOKEN/`` are logins.
    """
    is_wrong = has_secret(text)
    if of_address and "://" not in text:
        is_wrong = is_wrong or "@" in text or _TOKEN_OF_A_NAME.match(text) is not None
    if is_wrong and ("://" in text or not is_place(text)):
        raise BadValue(
            "an address has a password or a token in it",
            f"{LOGIN}, and give the address without it",
        )


def refuse_schemes(text: str) -> None:
    """Raises BadValue for an address that our client does not read, such as of ``s3`` and ``oci``.

    rattler has clients for these, without bounds of size and time.
    """
    match = re.match(r"(\w[\w+.-]*)://", text)
    if match and match[1].lower() not in SCHEMES:
        step = (
            "name the https address of the channel, or copy the channel into a folder and name that"
        )
        if match[1] == "s3":
            step = (
                "name the address at which the store or a web server hands out the bucket over"
                " https; `ctk check` alone takes s3://"
            )
        raise BadValue(
            f"{public(text)} is an address of {match[1]}, and channels are read over https, over"
            " http and from folders",
            step,
        )


def hide_logins() -> None:
    """Registers the secrets of the files of logins: those of rattler, and netrc."""
    files = (os.environ.get(_AUTH, ""), "~/.rattler/credentials.json")
    for file in filter(None, files):
        _hide_each(read_json(Path(file).expanduser()))
    try:
        hosts = netrc(os.environ.get("NETRC") or os.path.expanduser("~/.netrc")).hosts
    except (
        OSError,
        ValueError,
        NetrcParseError,
    ):  # there is none, or the client that uses it says what is wrong
        return
    for user, _, password in hosts.values():
        hide(password or "", user)


def _hide_each(login: Any, user: str = "") -> None:
    """Registers the texts of a JSON value but names of users; each is a password or a token."""
    if isinstance(login, dict):
        named = login.get("username")
        for key, value in login.items():
            if key != "username":
                _hide_each(value, named if isinstance(named, str) else user)
    elif isinstance(login, list):
        for value in login:
            _hide_each(value, user)
    elif isinstance(login, str) and "://" not in login:  # OAuth names its server
        hide(login, user)


def logged_in(url: str) -> tuple[str, dict[str, str]]:
    """An address and the headers for it, with the login for its host.

    For requests that rattler does not make.
    """
    parts, known = urlsplit(url), _logins()
    labels = (parts.hostname or "").split(".")
    # As rattler_networking.
    hosts = [
        ".".join(labels),
        *(f"*.{'.'.join(labels[i:])}" for i in range(len(labels))),
    ]
    login: dict[str, Any] = next((known[host] for host in hosts if host in known), {})
    _hide_each(login)
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
        BadValue: It is not a file of logins; nothing of its content is printed.
    """
    name = os.environ.get(_AUTH, "")
    if not name or not os.path.lexists(name):
        return {}
    try:
        known = json.loads(read_plain(Path(name)))
    except (ValueError, RecursionError, IsADirectoryError):
        known = None
    if not isinstance(known, dict) or not all(map(_is_login, known.values())):
        step = (
            f'write one as in {{"conda.example.org": {{"BearerToken": "..."}}}}, or `unset {_AUTH}`'
        )
        raise BadValue(f"{name}, which {_AUTH} names, is not a file of logins", step)
    return known


def _is_login(login: Any) -> bool:
    """Whether an entry of a file of logins is one.

    Rattler has kinds that this module does not read.
    """
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
