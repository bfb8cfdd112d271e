"""Where things are in a checkout. Everything that is made lies under two folders that git ignores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ctk.core.errors import BadValue


@dataclass(frozen=True)
class Workspace:
    """The folders of one checkout.

    Attributes:
        root: The checkout.
    """

    root: Path

    @property
    def recipes(self) -> Path:
        return self.root / "recipes"

    @property
    def base_recipes(self) -> Path:
        return self.root / "base"

    @property
    def variants(self) -> Path:
        return self.root / "variants"

    @property
    def build_config(self) -> Path:
        return self.root / "conda_build_config.yaml"

    @property
    def cache(self) -> Path:
        """Everything that can be made again: artefacts, builds, package caches."""
        return self.root / ".cache"

    @property
    def store(self) -> Path:
        """Fetched files, named by their sha256."""
        return self.cache / "sha256"

    @property
    def artefacts(self) -> Path:
        """What recipes read: ``<component>/<version>/<target>.zip``, hard links into the store."""
        return self.cache / "artefacts"

    @property
    def builds(self) -> Path:
        """Finished builds, one folder for each content key."""
        return self.cache / "builds"

    @property
    def output(self) -> Path:
        """What users of the checkout look at: channels and environments."""
        return self.root / "output"

    @property
    def channel(self) -> Path:
        return self.output / "channel"

    @property
    def base_channel(self) -> Path:
        return self.output / "base"

    @property
    def environments(self) -> Path:
        return self.output / "envs"


_given: dict[str, str] = {}


def remember_environment() -> None:
    """Keeps the environment variables as this process got them; to be called before it changes any."""
    _given.update(os.environ)


def given_environment() -> dict[str, str]:
    """The variables for a program of the user's: as they were kept, else as they are."""
    return dict(_given or os.environ)


def workspace() -> Workspace:
    """The checkout this package is in, or the one that ``CTK_ROOT`` names."""
    override = os.environ.get("CTK_ROOT")
    return Workspace(Path(override).resolve() if override else Path(__file__).resolve().parents[3])


def checkout() -> Workspace:
    """The same, for a command that is of no use without the recipes and release locks of a checkout.

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
