"""The channels of a user without a checkout: those they kept, or those that this ctk came from.

A file of the user comes before one that an administrator wrote for all users, and both before the
records of the conda environment that ctk is installed in.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import site_config_path, user_config_path

from ctk.core.disk import disk_errors
from ctk.core.errors import BadValue
from ctk.core.files import make_folder, replace_file
from ctk.core.secrets import hide_address

_NAME = "config.toml"
_KEYS = {"channels", "base"}
_STEP = (
    'write channels = ["https://..."] and, if it is not conda-forge, base = "..."; or remove the'
    " file"
)


@dataclass(frozen=True)
class OwnChannels:
    """The channels that commands ask where none is named.

    Attributes:
        channels: As --channel takes them, the most important first.
        base: The base channel, as --base takes it; "" for conda-forge.
        source: The file that says so.
    """

    channels: tuple[str, ...]
    base: str
    source: Path

    @property
    def is_kept(self) -> bool:
        """Whether a configuration file has them, and not the records of an environment."""
        return self.source.name == _NAME


def own_channels() -> OwnChannels | None:
    """The channels that are kept, or else those that this ctk was installed from.

    Raises:
        BadValue: A configuration file cannot be read.
    """
    for file in (user_file(), site_config_path("ctk") / _NAME):
        if file.is_file():
            return _read(file)
    return _installed_from(Path(sys.prefix))


def user_file() -> Path:
    """The user's configuration file, which need not exist."""
    return user_config_path("ctk") / _NAME


def keep(channels: Sequence[str], base: str) -> Path:
    """Keeps channels in the user's configuration; folders become absolute paths."""
    file = user_file()
    lines = [f"channels = {json.dumps([_lasting(name) for name in channels])}"]
    if base:
        lines.append(f"base = {json.dumps(_lasting(base))}")
    with disk_errors(file.parent):
        make_folder(file.parent)
        replace_file(file, "".join(f"{line}\n" for line in lines).encode())
    return file


def _lasting(name: str) -> str:
    """A folder as its absolute path; other channels as they are."""
    return os.path.abspath(os.path.expanduser(name)) if Path(name).expanduser().is_dir() else name


def _read(file: Path) -> OwnChannels:
    try:
        stated: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"{file} cannot be read: {error}", _STEP) from error
    channels, base = stated.get("channels"), stated.get("base", "")
    are_names = isinstance(channels, list) and all(isinstance(name, str) for name in channels)
    if stated.keys() - _KEYS or not (are_names and channels and isinstance(base, str)):
        raise BadValue(f"{file} does not name channels", _STEP)
    return _without_secrets(OwnChannels(tuple(channels), base, file))


def _without_secrets(found: OwnChannels) -> OwnChannels:
    """The same channels; a login or a token in an address is hidden from then on."""
    for name in (*found.channels, found.base):
        hide_address(name)
    return found


def _installed_from(prefix: Path) -> OwnChannels | None:
    """The channels that ctk and Python of a conda environment came from; None for other places."""
    of_ctk = next(_records(prefix, "ctk"), None)
    if of_ctk is None:
        return None
    source, channel = of_ctk
    python = next(_records(prefix, "python"), None)
    found = OwnChannels((channel,), python[1] if python else "", source)
    return _without_secrets(found)


def _records(prefix: Path, name: str) -> Iterator[tuple[Path, str]]:
    """The records of a package, and the channel that each names."""
    for file in prefix.glob(f"conda-meta/{name}-*.json"):
        try:
            record = json.loads(file.read_bytes())
            is_of_name = record["name"] == name
            channel = str(record["url"]).rsplit("/", 2)[0]
        except (OSError, ValueError, KeyError, TypeError):  # conda itself could not read it
            continue
        if is_of_name and "/" in channel:
            yield file, channel
