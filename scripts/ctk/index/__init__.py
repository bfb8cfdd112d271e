"""The package index, and the settings that pip has for it."""

from __future__ import annotations

import ast
import os
import re
import sys
from dataclasses import dataclass, field

from ctk.core.address import UNREADABLE, is_address, is_place
from ctk.core.children import run_program
from ctk.core.errors import CtkError, IndexUnavailable
from ctk.core.secrets import has_secret, hide_address

STEP = (
    "check the network and what `pip config list` says, then run the same command again; what was"
    " fetched stays"
)


@dataclass(frozen=True)
class Service:
    """Whom the tool asks for files, in the words of its messages.

    Tries, times and sizes are the same for all.

    Attributes:
        name: ``the package index``.
        keeper: Who can change its answers.
        unavailable: The error if it gives no useful answer.
        login: What to do if it asks for credentials.
        again: What to do if the network or the server fails.
    """

    name: str
    keeper: str
    unavailable: type[CtkError]
    login: str
    again: str
    closed: tuple[int, ...] = (401, 407)
    """Status codes that a login would change."""
    denied: str = ""
    """What to do if it refuses a login; "" for the same as of other answers."""


LARGEST = 1 << 40
"""Bytes of a file, as locks have it."""
INDEX = Service(
    name="the package index",
    keeper="whoever runs the index",
    unavailable=IndexUnavailable,
    login=(
        "give pip the right credentials (index URL, proxy, netrc or keyring), then run the same"
        " command again"
    ),
    again=STEP,
    denied=(
        "if your login should be enough, ask whoever runs the index, or the proxy before it; "
        "`pip config list` shows the index"
    ),
)


class Interrupted(IndexUnavailable):
    """The connection broke off during a response; the rest can be requested."""


_OF_ADDRESSES = ("index-url", "extra-index-url", "find-links")
_NAME = re.compile(r"[\w./~+-]+")  # of a folder, which need not exist
_SECTIONS = ("global", "install", "download", ":env:")  # later sections override


@dataclass(frozen=True)
class IndexSettings:
    """The settings of pip for indexes. Its ``repr`` has no URLs, which may contain credentials.

    Attributes:
        index_url: None for the client library's default.
        timeout: Seconds without a byte.
    """

    index_url: str | None = field(default=None, repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = field(default=None, repr=False)
    timeout: float = 15.0
    retries: int = 5

    @property
    def index_urls(self) -> tuple[str, ...]:
        """Every index in pip's order.

        The default is the client library's: no host is named here.
        """
        if self.no_index:
            return ()
        if self.index_url:
            return (self.index_url, *self.extra_index_urls)
        from unearth import PackageFinder  # slow to import

        return (PackageFinder().sources[0]["url"], *self.extra_index_urls)


def pip_settings(python: str = sys.executable) -> IndexSettings:
    """The settings of a Python's pip: its files, then PIP_* of the environment.

    IndexUnavailable if pip fails.
    """
    asked = run_program([python, "-m", "pip", "config", "list"])
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["no reason given"]
        why = "a line with a login cannot be read" if has_secret(lines[-1]) else lines[-1]
        cause = f"pip does not say which package index to use: {why}"
        raise IndexUnavailable(cause, "repair this Python's pip")
    return parse_settings(asked.stdout)


def settings_of_environment() -> IndexSettings:
    """The settings that variables of the environment give pip, without asking pip."""
    names = ("default_timeout", "timeout", "retries")
    lines = []
    for name in names:
        value = os.environ.get(f"PIP_{name.upper()}")
        if value:
            lines.append(f":env:.{name.replace('_', '-')}={value!r}")
    return parse_settings("\n".join(lines))


def parse_settings(listing: str) -> IndexSettings:
    """The settings in the output of ``pip config list``; their secrets are hidden from then on.

    Raises:
        IndexUnavailable: A number is none, or an address cannot be read: only its setting is named.
    """
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.partition(".")
        if section in sections and value:
            sections[section][key.replace("default-timeout", "timeout")] = str(
                ast.literal_eval(value)
            )
    merged = {key: value for values in sections.values() for key, value in values.items()}
    for section, values in sections.items():
        for key, value in values.items():
            _hide_setting(value)
            _refuse_setting(section, key, value)

    def words(key: str) -> tuple[str, ...]:
        return tuple(merged.get(key, "").split())

    try:
        timeout = float(merged.get("timeout") or IndexSettings.timeout)
        retries = int(merged.get("retries") or IndexSettings.retries)
    except ValueError as error:
        step = "`pip config debug` shows where it is set"
        raise IndexUnavailable(
            f"pip's timeout or retries has a value that cannot be read: {error}", step
        ) from None
    return IndexSettings(
        index_url=merged.get("index-url") or None,
        extra_index_urls=words("extra-index-url"),
        find_links=words("find-links"),
        no_index=merged.get("no-index", "").lower() in ("1", "true", "yes", "on"),
        trusted_hosts=words("trusted-host"),
        cert=merged.get("cert") or None,
        client_cert=merged.get("client-cert") or None,
        proxy=merged.get("proxy") or None,
        timeout=timeout,
        retries=retries,
    )


def _hide_setting(value: str) -> None:
    for text in {value, *value.split()}:
        hide_address(text)


def _refuse_setting(section: str, key: str, value: str) -> None:
    """Raises IndexUnavailable for an address without a scheme, or with blanks or another host."""
    texts = [value.strip()] if key == "index-url" else value.split()
    if key not in _OF_ADDRESSES or all(map(_is_readable, filter(None, texts))):
        return
    name = f"pip's setting {section}.{key}"
    if section == ":env:":
        name = f"PIP_{key.upper().replace('-', '_')}"
    raise IndexUnavailable(
        f"{name} has {UNREADABLE}",
        "write it as https://HOST/PATH, with a login in front of HOST or in a netrc file; "
        "`pip config debug` shows where it is set",
    )


def _is_readable(text: str) -> bool:
    return is_address(text) or is_place(text) or _NAME.fullmatch(text) is not None
