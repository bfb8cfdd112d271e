"""The places that `ctk check` is given: channels, folders of packages, and packages."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.errors import UnknownName


def is_channel(name: str) -> bool:
    return "://" in name or next(Path(name).glob("*/repodata.json"), None) is not None


def is_built(name: str, workspace: Workspace) -> bool:
    """Whether a channel is one that `ctk build` makes: the channel, or its base channel."""
    return is_at(name, workspace.channel) or is_at(name, workspace.base_channel)


def is_at(name: str, place: Path) -> bool:
    return "://" not in name and os.path.realpath(name) == os.path.realpath(place)


def packages_in(places: Iterable[Path], *, empty_ok: bool = False) -> list[Path]:
    """The package files among some places, in folders, and in the folders of these.

    Raises:
        UnknownName: A place has none, without `empty_ok`.
    """
    found: dict[Path, None] = {}
    for place in places:
        if place.is_file():
            files = [place]
        else:
            files = sorted({*place.glob("*.conda"), *place.glob("*/*.conda")})
        if not files and not empty_ok:
            raise UnknownName(
                f"there are no packages in {place}",
                "name packages, or a folder with *.conda in it or in folders such as noarch"
                " below it",
            )
        found |= dict.fromkeys(files)
    return list(found)
