"""A checkout: where its folders are, and its settings, the table ``[tool.ctk]`` of its ``pyproject.toml``."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ctk.core.errors import BadValue, problems
from ctk.core.platforms import PLATFORMS


class Below:
    """A folder of a `Workspace`."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def __get__(self, workspace: Workspace, owner: type) -> Path:
        return workspace.root.joinpath(*self.parts)


@dataclass(frozen=True)
class Workspace:
    """The folders of one checkout; git ignores the two below which everything is made.

    Attributes:
        root: The checkout.
        cache: Everything that can be made again: artefacts, builds, package caches.
        store: Fetched files, named by their sha256.
        artefacts: What recipes read: ``<component>/<version>/<target>.zip``, hard links into the store.
        builds: Finished builds, one folder for each content key.
        output: What users of the checkout look at: channels and environments.
    """

    root: Path
    recipes = Below("recipes")
    base_recipes = Below("base")
    variants = Below("variants")
    build_config = Below("conda_build_config.yaml")
    cache = Below(".cache")
    store = Below(".cache", "sha256")
    artefacts = Below(".cache", "artefacts")
    builds = Below(".cache", "builds")
    output = Below("output")
    channel = Below("output", "channel")
    base_channel = Below("output", "base")
    environments = Below("output", "envs")


_given: dict[str, str] = {}


def remember_environment() -> None:
    """Keeps the environment variables as this process got them; to be called before it changes any."""
    _given.update(os.environ)


def given_environment() -> dict[str, str]:
    """The environment variables for a program of the user's: as they were kept, else as they are."""
    return dict(_given or os.environ)


def workspace() -> Workspace:
    """The checkout this package is in, or the one that ``CTK_ROOT`` names."""
    override = os.environ.get("CTK_ROOT")
    return Workspace(Path(override).resolve() if override else Path(__file__).resolve().parents[3])


def checkout() -> Workspace:
    """The same, for a command that needs the recipes and release locks of a checkout.

    Raises:
        BadValue: ``CTK_ROOT`` names a place that has nothing of a checkout.
    """
    where = workspace()
    if os.environ.get("CTK_ROOT") and not any(
        part.exists() for part in (where.recipes, where.variants, where.build_config)
    ):
        raise BadValue(
            f"CTK_ROOT={os.environ['CTK_ROOT']} is no checkout: it has no recipes and no variants",
            "name a checkout with it, or unset it: then it is the one that ctk was installed from",
        )
    return where


_STRICT = {"extra": "forbid", "strict": True}


@dataclass(frozen=True)
class Default:
    """What is built when a command names no release, or no recipe. None means all of them.

    Attributes:
        releases: CTK minors; the words ``oldest`` and ``newest`` are those of each CUDA major.
        recipes: Folder names below ``recipes/``.
    """

    __pydantic_config__: ClassVar = _STRICT
    releases: list[str] | None = None
    recipes: list[str] | None = None


@dataclass(frozen=True)
class FeedstockSettings:
    """What exported feedstocks say.

    Attributes:
        maintainers: GitHub names or teams.
    """

    __pydantic_config__: ClassVar = _STRICT
    maintainers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    """The whole table.

    Attributes:
        default: What is built by default.
        feedstock: What exported feedstocks say.
        runners: Platform -> label of the CI machine that builds for it.
    """

    __pydantic_config__: ClassVar = _STRICT
    default: Default = Default()
    feedstock: FeedstockSettings = field(default_factory=FeedstockSettings)
    runners: Mapping[str, str] = field(default_factory=dict)

    def runner(self, subdir: str) -> str:
        """The CI machine for a platform.

        Raises:
            BadValue: None is set.
        """
        try:
            return self.runners[subdir]
        except KeyError:
            step = "add it to [tool.ctk.runners] of pyproject.toml"
            raise BadValue(f"no CI machine is set for {subdir}", step) from None


def settings(root: Path) -> Settings:
    """The settings of a checkout; the defaults where it has no ``pyproject.toml``.

    Raises:
        BadValue: The file is no TOML, or the table has unknown keys or values; every problem is listed.
    """
    from pydantic import TypeAdapter, ValidationError  # the list of commands does without it

    try:
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
        table: Any = tomllib.loads(text).get("tool", {}).get("ctk", {})
    except FileNotFoundError:
        table = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadValue(f"pyproject.toml cannot be read: {error}", "mend the file") from error
    try:
        # As JSON: strict about types, but not about who made the objects.
        found = TypeAdapter(Settings).validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        lines = [f"tool.ctk.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise problems(BadValue, "pyproject.toml", lines, "mend the table [tool.ctk]") from error
    unknown = [f"tool.ctk.runners.{name}: no platform" for name in found.runners if name not in PLATFORMS]
    if unknown:
        raise problems(BadValue, "pyproject.toml", unknown, f"platforms are {', '.join(PLATFORMS)}")
    return found
