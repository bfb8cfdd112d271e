"""Which channels a command solves against."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from ctk.cli.options import base_channel
from ctk.core.errors import Unsolvable
from ctk.core.paths import Workspace
from ctk.core.platforms import this_platform
from ctk.core.report import Reporter
from ctk.core.settings import settings
from ctk.plan.recipes import find_recipes, maker_of
from ctk.plan.repodata import write
from ctk.solve.catalogue import Catalogue, Maker
from ctk.verify.channels import planned, universe


def catalogue(
    where: Workspace, base: str, subdir: str, report: Reporter | None = None, as_planned: bool = False
) -> Catalogue:
    """The channel and its base channel, for one platform.

    For another platform than this machine's, what was not built is replaced by what is planned: the channel by what
    recipes and release locks say, a base channel of ours by metadata shaped as conda-forge's. One line says so.

    Args:
        where: The checkout.
        base: What ``--base`` names.
        subdir: The platform.
        report: Where to say it.
        as_planned: Take the plan, whatever was built.
    """
    channels = [where.channel, base_channel(base, where)]
    foreign = subdir != this_platform()
    if as_planned or (foreign and not _has(where.channel, subdir)):
        # The same as `ctk verify` has, so that a scenario which it prints is solved here as it was there.
        channels[0] = write(planned(where), where.cache / "planned" / "channel")
    if base == "local" and (as_planned or (foreign and not _has(where.base_channel, subdir))):
        channels[1] = write(universe(), where.cache / "planned" / "base")
    if report and where.channel not in channels:
        why = "" if as_planned else f"nothing is built for {subdir} here: "
        stand_in = ", with a stand-in for conda-forge" if base == "local" and where.base_channel not in channels else ""
        report.line(f"{why}solved against what recipes and release locks say{stand_in}")
    return Catalogue(channels, subdir, maker=partial(_maker, where))


def installable(where: Workspace, base: str, subdir: str) -> Catalogue:
    """The channel and its base channel, for one platform, with packages that are there and not only planned.

    Raises:
        Unsolvable: Nothing is built for that platform here, or nobody says where its base channel is.
    """
    if subdir != this_platform():
        if not _has(where.channel, subdir):
            raise Unsolvable(f"nothing is built for {subdir} here", f"run `ctk build --platform {subdir}` first")
        if base == "local" and not _has(where.base_channel, subdir):
            raise Unsolvable(
                f"the base channel that is made here has no Python for {subdir}",
                "name one that has, such as --base conda-forge or a folder",
            )
    return Catalogue([where.channel, base_channel(base, where)], subdir, maker=partial(_maker, where))


def _maker(where: Workspace, package: str) -> Maker | None:
    recipe, default = maker_of(package, find_recipes(where.recipes)), settings(where.root).default.recipes
    return Maker(recipe, default is None or recipe in default) if recipe else None


def _has(channel: Path, subdir: str) -> bool:
    """Whether a channel folder has packages for a platform."""
    try:
        return bool(json.loads((channel / subdir / "repodata.json").read_text())["packages.conda"])
    except FileNotFoundError:
        return False
