"""A file that asks for packages, as data: its environments, and the line of each package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Format(StrEnum):
    """The formats that are read."""

    ENVIRONMENT = "environment.yml"
    EXPLICIT = "explicit list"
    CONDA_LOCK = "conda-lock.yml"
    PIXI = "pixi.toml"
    PYPROJECT = "pyproject.toml"
    PIXI_LOCK = "pixi.lock"
    REQUIREMENTS = "requirements.txt"
    PYLOCK = "pylock.toml"

    @property
    def is_lock(self) -> bool:
        """Whether it names each package exactly, and another file was there before it."""
        return self in (Format.EXPLICIT, Format.CONDA_LOCK, Format.PIXI_LOCK, Format.PYLOCK)


class Tool(StrEnum):
    """Who installs what a line asks for."""

    CONDA = "conda"
    PIP = "pip"


@dataclass(frozen=True)
class Line:
    """A package that a file asks for.

    Attributes:
        number: Its line in the file, from 1.
        text: What the file says there, without the bullet of a list, quotes and comments:
            ``pytorch::pytorch=2.5``, ``cuda-nvcc = "*"``.
        tool: Who installs it.
        name: The package. In lower case; that of pip's as the standard of names has it, with ``-``.
        spec: As conda or pip has it, without channel and platform: ``pytorch=2.5``,
            ``cuda-version 12.0.*``, ``jax[cuda12]>=0.4``.
        channel: The channel that the line names; or "".
        subdirs: The platforms that it is for; () is all of the file.
        part: Its table in the file, without the ending for a kind of dependency: ``feature.cu-12``,
            ``feature.cuda-backends.target.linux``; "" for the main one.
    """

    number: int
    text: str
    tool: Tool
    name: str
    spec: str
    channel: str = ""
    subdirs: tuple[str, ...] = ()
    part: str = ""

    def is_for(self, subdir: str) -> bool:
        """Whether it is for a platform."""
        return not self.subdirs or subdir in self.subdirs


@dataclass(frozen=True)
class FileEnvironment:
    """One of the environments of a file; most formats have one.

    Attributes:
        name: Its name; "" in a format that has one.
        lines: What it asks for, on any platform, in the order of the file.
        channels: The most important first.
        subdirs: The platforms that the file names; () if it names none.
        drivers: Platform -> the CUDA version of the driver that the file states for it
            (``system-requirements``, or ``cuda`` of a platform).
        archs: Platform -> the compute capability that it states beside such a driver: ``9.0``.
        with_driver: The platforms for which it always states a driver: no entry of ``platforms`` is
            for a machine without one.
        is_unused: Whether it is a feature of pixi that no environment has.
    """

    name: str
    lines: tuple[Line, ...]
    channels: tuple[str, ...] = ()
    subdirs: tuple[str, ...] = ()
    drivers: Mapping[str, str] = field(default_factory=dict)
    archs: Mapping[str, str] = field(default_factory=dict)
    with_driver: tuple[str, ...] = ()
    is_unused: bool = False


@dataclass(frozen=True)
class EnvironmentFile:
    """A file that asks for packages.

    Attributes:
        path: Where it is, as the user wrote it.
        format: Its format.
        text: Its content.
        environments: Its environments: the default one first.
        notes: Sentences about what it has besides and is not read, such as another file that it
            includes.
    """

    path: Path
    format: Format
    text: str
    environments: tuple[FileEnvironment, ...]
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines, each once, in the order of the file."""
        every = {line: None for environment in self.environments for line in environment.lines}
        return tuple(sorted(every, key=lambda line: line.number))
