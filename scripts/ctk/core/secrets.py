"""Secrets: texts that a run knows and never shows, and the forms in which an address has one.

A secret is registered where it is read: `hide`, `hide_address`. `without_credentials` is the last
wall. It takes what is registered out of a text, in every form that a program gives it. Then it
takes out what looks like a secret in an address, for addresses that only another program has read.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "***"
"""Stands in the place of a secret."""

# --- the list of hidden texts

_LONG = 8  # characters from which a secret is hidden wherever it stands
_SHORT = 4  # characters of a shorter one that can be hidden as a word
_TOKEN = 16  # characters from which a text with a digit in it is taken for a token
_COMMON = frozenset(
    {
        "__token__",
        "anonymous",
        "conda-forge",
        "linux-64",
        "linux-aarch64",
        "localhost",
        "oauth2accesstoken",
        "password",
        "username",
        "win-64",
        "win-arm64",
        "x-access-token",
        "x-oauth-basic",
    }
)
"""What servers document for a login that is none, and words of many outputs.

They are hidden only beside a user or an ``@``.
"""
_SEPARATE = "(?<![A-Za-z0-9]){}(?![A-Za-z0-9])"
_patterns: dict[str, tuple[str, re.Pattern[str]]] = {}
"""Pattern of a hidden text -> its longest run of letters and digits, small, and it compiled."""


def hide(secret: str, user: str = "") -> None:
    """Registers a password, a token or a key, with its pair of user and password if it has a user.

    From eight characters on it is hidden wherever it stands; letters or digits alone, as a word. A
    shorter one is hidden as a word if it mixes small letters, capitals, digits and others, else
    only beside its user or an ``@``: a password ``cuda`` would take the word out of every line.
    """
    for text in {secret.strip(), unquote(secret).strip(), *map(str.strip, secret.splitlines())}:
        if not text.strip("*"):
            continue
        _hide_alone(text)
        _hide_before_at(text)
        if user:
            pair = f"{unquote(user)}:{text}"
            _register(pair, _SEPARATE.format(_letters(pair)))
            for word in _basic(pair):
                _hide_alone(word)


def hide_address(address: str) -> None:
    """Registers the secrets of an address: login, token, values of its query.

    Of a text that is not an address, it takes what precedes the last ``@`` for a login. A name or a
    folder has no secret.
    """
    for text in {address, unquote(address), unicodedata.normalize("NFKC", unquote(address))}:
        for match in (*_NAMED.finditer(text), *_UNNAMED.finditer(text)):
            for value in {match[2], match[2].partition("/")[0]}:
                hide(value)
        for match in _IN_PATH.finditer(text):
            hide(match[2])
        login, at, place = _BEGINNING.sub("", text).rpartition("@")
        if not at or ("/" in login and ":" not in login):  # ``x.yml@refs/heads/main``
            continue
        _hide_login(login)
        behind = _BEHIND.match(place)
        if behind and not behind[2].strip().isdecimal():
            hide(behind[2], behind[1])


def _hide_login(login: str) -> None:
    user, _, password = login.partition(":")
    if password:
        hide(password, user)
    if _is_token(user):
        hide(user)
    elif not password and user.strip():  # a keyring has its password, or it is one
        _hide_before_at(user.strip())


def hide_environment(variables: Mapping[str, str]) -> None:
    """Registers the secrets in environment variables: of addresses, and tokens by their names.

    A path, an address or a switch is not a token, whatever its variable is called.
    """
    for name, value in variables.items():
        if "@" in value:
            for word in {value, *value.split()}:
                hide_address(word)
        elif "://" in value:
            hide_address(value)
        elif _SECRET_NAME.search(name) and not value.startswith("/"):
            hide(value)


def hidden() -> tuple[tuple[str, str], ...]:
    """What is registered, for a process that this one starts: see `hide_again`."""
    return tuple((pattern, part) for pattern, (part, _) in _patterns.items())


def hide_again(patterns: Iterable[tuple[str, str]]) -> None:
    """Registers what `hidden` gave in another process."""
    for pattern, part in patterns:
        _register(part, pattern)


def _register(text: str, pattern: str) -> None:
    """Adds the pattern of a text; the longest patterns come first."""
    global _patterns
    if pattern in _patterns:
        return
    part = max(re.findall("[A-Za-z0-9]+", text), key=len, default="").lower()
    more = _patterns | {pattern: (part, re.compile(pattern))}
    # In one step: other threads read it.
    _patterns = dict(sorted(more.items(), key=lambda item: -len(item[0])))


def forget() -> None:
    """Empties the list, for a test."""
    global _patterns
    _patterns = {}


def _hide_alone(text: str) -> None:
    """Registers a text that is hidden without a neighbour, if it is long or odd enough."""
    if text.casefold() in _COMMON or len(text) < _SHORT:
        return
    tests = (str.islower, str.isupper, str.isdigit, _is_other)
    kinds = sum(any(map(is_kind, text)) for is_kind in tests)
    is_plain = re.fullmatch(r"[A-Za-z]+|[\d.]+", text) is not None
    if len(text) >= _LONG and not is_plain:
        _register(text, f"(?i:{_letters(text)})")
    elif len(text) >= _LONG or kinds > 1:
        _register(text, _SEPARATE.format(_letters(text)))


def _hide_before_at(text: str) -> None:
    _register(text, f"(?<![A-Za-z0-9]){_letters(text)}(?=@)")


def _is_other(character: str) -> bool:
    return not character.isalnum() and character not in "._-"


def _is_token(text: str) -> bool:
    return len(text) >= _TOKEN and any(map(str.isdigit, text)) and text.casefold() not in _COMMON


def _letters(text: str) -> str:
    """A pattern for a text.

    What is no letter and no digit may be escaped as any program does it.
    """
    collapsed = re.sub("/+", "/", re.sub(r"\s+", " ", text))
    return "".join(map(_letter, collapsed))


def _letter(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    once = "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
    forms = {character, once, once.lower(), quote(once), quote(once).lower()}
    forms |= {
        json.dumps(character)[1:-1],
        repr(character)[1:-1],
        ascii(character)[1:-1],
        html.escape(character),
    }
    # JSON in JSON has more backslashes, and a shell has them before any character.
    patterns = {r"\\+" + re.escape(form[1:]) for form in forms if form.startswith("\\")}
    patterns |= {re.escape(form) for form in forms if not form.startswith("\\")}
    patterns.add(r"\\*" + re.escape(character))
    if character == " ":
        patterns |= {r"\s+", r"\+", r"(?:\\[nrt])+", "(?:%0[9AaDd])+"}
    if character == "/":
        patterns |= {"/+"}
    return f"(?:{'|'.join(sorted(patterns, key=lambda pattern: (-len(pattern), pattern)))})"


def _basic(pair: str) -> set[str]:
    """A login as ``Authorization: Basic`` has it."""
    content = pair.encode("utf-8", "surrogateescape")
    return {encode(content).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode)}


# --- what a secret looks like

USER = r"""(?:[^/:?#@\s"<>\[]*:(?!\d*(?:[/?#\s"<>]|$))[^\s"<>]*|[^/?#\s"<>]*)(?=@)"""
"""The user and password of a URL, also with an unencoded ``/`` or ``@``; not a port with a path."""
_SECRET_NAME = re.compile(
    r"(?i)(?:token|secret|passw(?:or)?d|passphrase|_pass|_pwd|(?:api|access|private)_?key"
    r"|credentials?|_auth|_pat)(?:_?\d+)?$"
)
_WORDS = "token|key|secret|pass|pwd|auth|sig|cred|code|session|ticket|jwt"
_VALUE = r"""[^&#\s"'<>]"""
_NAMED = re.compile(
    rf"(?i)((?:[?&;#]|%(?:3F|26|3B|23))[\w.-]*(?:{_WORDS})[\w.-]*(?:=|%3D))({_VALUE}+)"
)
_UNNAMED = re.compile(
    r"(?i)([?&;](?!\w*(?:sha\d|md5|hash|digest|commit|rev))[\w.-]+=)"
    rf"((?={_VALUE}*\d){_VALUE}{{{_TOKEN},}})"
)
"""A value as long as a token, whatever its name is."""
_IN_PATH = re.compile(r"""(?i)(https?:/{1,2}[^/\s"'<>]+(?:/[^\s"'<>]*?)?/t/+)([^/\s"'<>?#]+)""")
"""conda's form of a token."""
_BEGINNING = re.compile(
    r"(?i)\A\s*(?:\w[\w+.-]*://+|//+|(?:\w+\+)?(?:https?|ftps?|ssh|git|s3|gs|file):/*)?"
)
"""The scheme of an address, also of a misspelled one."""
_BEHIND = re.compile(r"([^/?#:\[\]]*):([^/?#]*)")
"""A host and what stands in the place of its port: ``USER@HOST:PASSWORD``."""
_FORMS = (
    (re.compile(rf"(?<=//){USER}"), HIDDEN),
    # `Path` leaves one slash of two.
    (
        re.compile(r"""(?<=\w:/)(?!/)[^/:\s"<>]*:[^\s"<>]*(?=@)"""),
        HIDDEN,
    ),
    # No scheme.
    (
        re.compile(r"""(?<![\w:/@.+%-])[\w.+%-]+:[^\s/:@"'<>]+(?::[^\s/@"'<>]+)?(?=@[\w\[])"""),
        HIDDEN,
    ),
    (_IN_PATH, rf"\1{HIDDEN}"),
    (_NAMED, rf"\1{HIDDEN}"),
    (_UNNAMED, rf"\1{HIDDEN}"),
)
_LOGIN = re.compile(r"(?s):(?!\d*[/?#])[^@]*@|@[^@]*:(?!\d*(?:[/?#\s]|$))")


def without_credentials(text: str) -> str:
    """A text without registered secrets, and without users, passwords and tokens of addresses."""
    known = _patterns
    small = text.lower() if known else ""
    for part, pattern in known.values():
        if part in small:
            text = pattern.sub(HIDDEN, text)
    return _without_forms(text)


def _without_forms(text: str) -> str:
    for pattern, rest in _FORMS:
        text = pattern.sub(rest, text)
    return text


def has_secret(text: str) -> bool:
    """Whether a text that somebody typed or set has the form of a login, a token or a key.

    It need not be an address: ``user:password@host`` or ``user@host:password``, also
    percent-encoded. `ctk.core.address.is_place` says whether it is a path.
    """
    for form in (text, unquote(text), unicodedata.normalize("NFKC", unquote(text))):
        rest = re.sub(r"^\s*(?!file:)\w[\w+.-]*://+", "", form, flags=re.I)
        if _without_forms(form) != form or (_LOGIN.search(rest) and not rest.startswith("file:")):
            return True
    return False


def cleaned(value: Any) -> Any:
    """A JSON value whose texts are without secrets; the names of its keys are ours and stay."""
    if isinstance(value, Mapping):
        return {_key(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return without_credentials(str(value))


def _key(key: Any) -> Any:
    is_name = isinstance(key, str) and re.fullmatch("[a-z_]+", key)
    return key if is_name or not isinstance(key, str) else without_credentials(key)
