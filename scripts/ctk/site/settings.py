"""Files of settings for clients: with one of them, nobody types the channels again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO

from rattler import Channel, Config
from ruamel.yaml import YAML

_CONDA_FORGE = "conda-forge"
_YAML_HEAD = "# {title}: the settings of conda and mamba.\n"
_PIXI_HEAD = "# {title}: the settings of pixi. They hold for new workspaces.\n"


@dataclass(frozen=True)
class Settings:
    """A file of settings.

    Attributes:
        path: Below the folder of the site.
        clients: Who reads it.
        place: Where it goes for one user.
        shared: Where it goes for all users of a machine; "" if nobody reads it there.
        text: What is in it.
    """

    path: str
    clients: str
    place: str
    shared: str
    text: str


@dataclass(frozen=True)
class _Channels:
    """The channels of the settings, and the mirrors behind their names.

    Attributes:
        listed: Names or addresses, by priority.
        mirrors: Name -> the address that stands for it.
    """

    listed: tuple[str, ...]
    mirrors: Mapping[str, str] = field(default_factory=dict)


def settings(channels: Sequence[str], title: str) -> tuple[Settings, ...]:
    """The files of settings for channels, by priority.

    A mirror of conda-forge goes by that name: who types ``-c conda-forge`` gets the mirror.
    """
    named = _named(channels)
    title = " ".join(title.split())
    conda = _YAML_HEAD.format(title=title) + _for_conda(named)
    pixi = _PIXI_HEAD.format(title=title) + _for_pixi(named)
    return (
        Settings("clients/condarc", "conda, mamba", "~/.condarc", "/etc/conda/condarc", conda),
        Settings("clients/mambarc", "mamba alone", "~/.mambarc", "", conda),
        Settings(
            "clients/config.toml", "pixi", "~/.pixi/config.toml", "/etc/pixi/config.toml", pixi
        ),
    )


def _named(channels: Sequence[str]) -> _Channels:
    mirrors = {}
    listed = []
    for channel in channels:
        if _is_mirror(channel):
            mirrors[_CONDA_FORGE] = channel.rstrip("/")
            channel = _CONDA_FORGE
        listed.append(channel)
    return _Channels(tuple(listed), mirrors)


def _is_mirror(channel: str) -> bool:
    """Whether an address ends in conda-forge's name and is not where clients look for it."""
    name = channel.rstrip("/").rpartition("/")[2]
    is_address = "://" in channel
    return is_address and name == _CONDA_FORGE and channel.rstrip("/") != _usual_address(name)


def _usual_address(name: str) -> str:
    """Where clients look for a channel that has only a name."""
    return Channel(name).base_url.rstrip("/")


def _for_conda(channels: _Channels) -> str:
    content: dict[str, object] = {
        "channels": list(channels.listed),
        "channel_priority": "flexible",
    }
    if channels.mirrors:
        # conda and mamba add the name to the address themselves.
        content["custom_channels"] = {
            name: address.rpartition("/")[0] for name, address in channels.mirrors.items()
        }
    yaml = YAML()
    yaml.width = 1000  # an address stays on its line
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    yaml.dump(content, text)
    return text.getvalue()


def _for_pixi(channels: _Channels) -> str:
    config = Config()
    config.set("default-channels", json.dumps(channels.listed))
    for name, address in channels.mirrors.items():
        config.set(f"mirrors.{json.dumps(_usual_address(name))}", json.dumps([address]))
    return config.to_toml()
