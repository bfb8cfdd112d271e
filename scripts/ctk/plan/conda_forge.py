"""The versions that conda-forge and RAPIDS' channel keep of the packages that concern CUDA.

``conda_forge.yaml`` has what was read, and where and when. Versions of the toolkit that are newer
than that come from the release locks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter
from rattler import Version, VersionSpec
from rattler.exceptions import InvalidVersionSpecError

from ctk.core.checkout import Workspace
from ctk.core.document import load_yaml, parse_by_hand
from ctk.plan.recipes import find_recipes, is_output

FILE = Path(__file__).with_name("conda_forge.yaml")
CONDA_FORGE = "conda-forge"
RAPIDS = "rapidsai"
_FILES_END = "-files"  # of the name of a package with the large files of another
# `version: ${{ nvrtc }}` in the context of a recipe: the key of a variant file.
_VERSION_KEY = re.compile(r"^  version: \$\{\{ (\w+) \}\}$", re.M)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True)
class Toolkit:
    """The toolkit's minors; the file says what each field means."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    minors: tuple[str, ...]
    older: tuple[str, ...]
    source: str
    read: date


@dataclass(frozen=True)
class Compiled:
    """The toolkit's minors that packages of a channel are compiled with."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    minors: tuple[str, ...]
    source: str
    read: date


@dataclass(frozen=True)
class Feedstock:
    """What a repository builds; the file says what each field means."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    commit: str
    read: date
    packages: Mapping[str, str]
    versions: str
    cuda12: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)

    def versions_of(self, package: str) -> tuple[str, ...]:
        """The versions that have one of `packages`, oldest first."""
        every = (*self.versions.split(), *self.seen)
        wanted = VersionSpec(self.packages[package] or "*")
        return tuple(version for version in every if wanted.matches(Version(version)))


@dataclass(frozen=True)
class Read:
    """The content of ``conda_forge.yaml``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    toolkit: Toolkit
    compiled: Mapping[str, Compiled]
    ours: tuple[str, ...]
    unread: tuple[str, ...]
    feedstocks: Mapping[str, Feedstock]
    rapids: Mapping[str, Feedstock]


@cache
def read() -> Read:
    """What was read; LockError lists all problems of the file."""
    text = FILE.read_text(encoding="utf-8")
    return parse_by_hand(text, TypeAdapter(Read), FILE.name, f"fix {FILE.name}: it is kept by hand")


@dataclass(frozen=True)
class Kept:
    """The versions of a package in a channel.

    Attributes:
        channel: ``conda-forge`` or ``rapidsai``.
        versions: Oldest first.
        assumed: Newer ones than those, which the release locks have of the same minors of the
            toolkit.
        cuda12: The versions that were built for CUDA 12 or newer, such as ``>=8.8``; "" for all.
    """

    channel: str
    versions: tuple[str, ...]
    assumed: tuple[str, ...] = ()
    cuda12: str = ""


@dataclass(frozen=True)
class OtherChannels:
    """What the other channels keep.

    Attributes:
        components: Output of a recipe, unrendered -> the key of its version in variant files.
        minors: The same -> its version in each minor of the toolkit that conda-forge has, oldest
            first; () for what has a version of its own.
    """

    components: Mapping[str, str]
    minors: Mapping[str, tuple[str, ...]]

    @cached_property
    def _read(self) -> Mapping[str, Kept]:
        """Package, with a star for a platform -> what was read of it."""
        found = {}
        for channel, repositories in ((RAPIDS, read().rapids), (CONDA_FORGE, read().feedstocks)):
            for feedstock in repositories.values():
                for package in feedstock.packages:
                    found[package] = Kept(
                        channel, feedstock.versions_of(package), cuda12=feedstock.cuda12
                    )
        older = read().toolkit.older
        found["cuda-version"] = Kept(CONDA_FORGE, (*older, *read().toolkit.minors))
        return found

    def kept(self, name: str) -> Kept | None:
        """What is kept of a package; None for one that this channel alone has, or not read."""
        if name.endswith(_FILES_END):
            return None
        known = self._read.get(name)
        if not known:
            alike = (self._read[p] for p in self._read if "*" in p and fnmatchcase(name, p))
            known = next(alike, None)
        if not known:
            return None
        outputs = (output for output in self.minors if is_output(name, output))
        minors = self.minors.get(next(outputs, ""), ())
        newest = Version(known.versions[-1])
        newer = tuple(version for version in minors if Version(version) > newest)
        return replace(known, assumed=newer)

    def versions_at(self, name: str) -> tuple[str, ...]:
        """The versions of a package, oldest first; () for one that is not known there."""
        kept = self.kept(name)
        if not kept:
            return ()
        return (*kept.versions, *kept.assumed)

    def has(self, name: str, version: str = "") -> bool | None:
        """Whether a package is kept in a version.

        Args:
            name: The package.
            version: As a spec has it: ``>=12.9,<13``, ``12.9.*``; "" for any.

        Returns:
            None where it is not known: a name that nobody read, a text that is not a version, or a
            version that is newer than all that were read.
        """
        if name in read().ours or name.endswith(_FILES_END):
            return False
        kept = self.kept(name)
        if not kept:
            return None
        try:
            wanted = VersionSpec(version or "*")
        except InvalidVersionSpecError:
            return None
        if any(wanted.matches(Version(known)) for known in (*kept.versions, *kept.assumed)):
            return True
        newest = Version(kept.versions[-1])
        asks_newer = any(Version(number) > newest for number in _NUMBERS.findall(version))
        return None if asks_newer else False


@lru_cache(maxsize=4)
def other_channels(workspace: Workspace) -> OtherChannels:
    """What the other channels keep, by what was read and by the release locks of a checkout."""
    return read_other_channels(workspace)


def read_other_channels(workspace: Workspace) -> OtherChannels:
    """The same, by the locks as they are now."""
    components = dict(_components(workspace))
    values_by_minor = [
        load_yaml((workspace.variants / f"cuda-{minor}.yaml").read_text(encoding="utf-8"))
        for minor in read().toolkit.minors
    ]
    minors = {
        output: tuple(values[key][0] for values in values_by_minor if key in values)
        for output, key in components.items()
    }
    return OtherChannels(components, minors)


def _components(workspace: Workspace) -> Iterator[tuple[str, str]]:
    for recipe in find_recipes(workspace.recipes).values():
        key = _VERSION_KEY.search(recipe.file.read_text(encoding="utf-8"))
        if key:
            yield from ((output, key[1]) for output in recipe.output_names)


def versions_at(workspace: Workspace, name: str) -> tuple[str, ...]:
    """`OtherChannels.versions_at` of a checkout."""
    return other_channels(workspace).versions_at(name)


def has(workspace: Workspace, name: str, version: str = "") -> bool | None:
    """`OtherChannels.has` of a checkout."""
    return other_channels(workspace).has(name, version)
