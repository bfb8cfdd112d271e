"""What the channels have, and what is known of names that they lack, for the lines of a file."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property

from packaging.requirements import InvalidRequirement, Requirement

from ctk.core.errors import BadValue
from ctk.envfile.model import Line, Tool
from ctk.plan.conda_forge import CONDA_FORGE
from ctk.plan.names import foreign_channel, is_about_cuda_elsewhere, pip_project_with_cuda
from ctk.solve.advice import checkout_of, planned_of
from ctk.solve.solve import (
    Catalogue,
    Pick,
    Scenario,
    channel_name,
    channel_url,
    parse_spec,
)

_ABOUT_CUDA = re.compile(r"cuda|cudnn|[-_]cu1\d|(?:^|[-_])gpu(?:[-_]|$)")
CUDA_BUILD = re.compile(r"cuda|gpu|cu1\d", re.IGNORECASE)
# Channels whose packages conda-forge's took the place of.
_REPLACED = re.compile(r"(?:nvidia|pytorch(?:-\w+)?|defaults|main)(?:/.*)?")
TOOLKIT = "cuda-version"


def is_replaced(channel: str) -> bool:
    """Whether packages here, or conda-forge's, took the place of a channel's."""
    return bool(_REPLACED.fullmatch(channel))


class Shelf:
    """What the channels have, and what is known of names that they lack."""

    def __init__(self, catalogue: Catalogue, machine: Scenario) -> None:
        self.catalogue = catalogue
        self.machine = machine
        self.names = checkout_of(catalogue).known_names()
        self.others = checkout_of(catalogue).other_channels()

    @cached_property
    def own(self) -> set[str]:
        """The names of the packages in the channels before the base channel."""
        subdirs = [self.catalogue.subdir, "noarch"]
        return self.catalogue.names(subdirs, self.catalogue.channels[:-1])

    @cached_property
    def there(self) -> set[str]:
        """The names of the packages in all channels."""
        return self.catalogue.names([self.catalogue.subdir, "noarch"])

    @property
    def base(self) -> str:
        """The base channel, as a spec names it."""
        return channel_url(self.catalogue.channels[-1]).rstrip("/")

    @property
    def base_name(self) -> str:
        """The base channel, as people call it."""
        return channel_name(self.base)

    def asks(self, channel: str) -> bool:
        """Whether a channel is one of those that are asked."""
        addresses = [channel_url(asked).rstrip("/") for asked in self.catalogue.channels]
        return any(address.endswith(f"/{channel}") or address == channel for address in addresses)

    def channel_of(self, name: str) -> str:
        """The channel, not conda-forge, that a package is of; "" for others."""
        kept = self.others.kept(name)
        if kept and kept.channel != CONDA_FORGE:
            return kept.channel
        return foreign_channel(name)

    def is_about_cuda(self, line: Line) -> bool:
        """Whether a line is about CUDA: by recipes and locks, and by names that are known."""
        name = line.name
        if name in self.names.own or name in self.own or self.others.kept(name):
            return True
        if name in self.names.base:
            return False
        if self.names.renamed(name) or is_about_cuda_elsewhere(name) or foreign_channel(name):
            return True
        if line.tool is Tool.PIP and pip_project_with_cuda(name):
            return True
        if re.match(r"nvidia(?:/|$)", line.channel):
            return True
        return bool(_ABOUT_CUDA.search(name)) or asks_for_cuda_build(line)

    def solves_there(self, *specs: str) -> bool:
        """Whether specs have a solution on the machine."""
        return self.catalogue.solves(replace(self.machine, specs=specs))

    def solves(self, *specs: str) -> bool:
        """Whether specs have a solution on a machine that can do anything."""
        return self.pick(*specs) is not None

    def pick(self, *specs: str) -> Pick | None:
        """The pick of specs on a machine that can do anything; None without a solution."""
        return self.catalogue.pick(replace(self.machine.ideal, specs=specs))

    def planned(self, *specs: str) -> bool:
        """Whether specs have a solution if all recipes and locks here were built."""
        planned = planned_of(self.catalogue)
        return planned is not None and planned.solves(replace(self.machine.ideal, specs=specs))


def asks_for_cuda_build(line: Line) -> bool:
    """Whether the build string or the extras of a line ask for CUDA."""
    if line.tool is Tool.PIP:
        return any(CUDA_BUILD.search(extra) for extra in extras_of(line))
    try:
        return bool(CUDA_BUILD.search(parse_spec(line.spec).build))
    except BadValue:
        return False


def is_for_cuda_only(line: Line) -> bool:
    """Whether what a line of pip asks for is of use with CUDA only, and not on macOS."""
    name = line.name
    return bool(_ABOUT_CUDA.search(name)) or name.startswith("nvidia-") or asks_for_cuda_build(line)


def extras_of(line: Line) -> set[str]:
    """The extras of a requirement of pip."""
    try:
        return Requirement(line.spec).extras
    except InvalidRequirement:
        return set()
