"""Where a package comes from: what its SBOM says, and what `ctk rebuild` needs to make it again."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import rattler_build
import zstandard

from ctk.lock.lock import Artefact
from ctk.plan.dag import Build
from ctk.plan.recipes import Recipe, variant_values

REVISION = 6
"""Raise this when the tooling itself changes what ends up in a package."""


@dataclass(frozen=True)
class Input:
    """An artefact that a package was made of.

    Attributes:
        artefact: By distribution, version, file and sha256.
        license: As the wheels of its component declare it.
    """

    artefact: Artefact
    license: str


@dataclass(frozen=True)
class Provenance:
    """Everything that decided the bytes of the packages of one build.

    Attributes:
        recipe: Name of the feedstock.
        digest: sha256 over the names and contents of the recipe's files, shared ones too.
        commit: The last commit that touched one of those files; "" where git does not know it.
        place: The platform it was built for; ``noarch`` for what is the same from every platform.
        timestamp: Seconds since 1970, from the release lock; every time in the package is this one.
        inputs: What it was made of; nothing for a package that holds metadata only.
        variant: Every variant key that the recipe can see -> its values.
        level: zstd compression level.
        tools: Name -> version of what wrote the package.
    """

    recipe: str
    digest: str
    commit: str
    place: str
    timestamp: int
    inputs: tuple[Input, ...]
    variant: Mapping[str, tuple[str, ...]]
    level: int
    tools: Mapping[str, str]


def provenance(build: Build, level: int) -> Provenance:
    """That of a build's packages, if they were made now."""
    return Provenance(
        recipe=build.recipe.name,
        digest=recipe_digest(build.recipe),
        commit=recipe_commit(build.recipe),
        place=build.place,
        timestamp=build.timestamp,
        inputs=tuple(Input(a, build.licenses[a.component]) for a in sorted(build.artefacts, key=lambda a: a.file)),
        variant=variant_values(build.recipe, build.variant_files, build.subdir, build.outputs),
        level=level,
        tools=tools(),
    )


def tools() -> Mapping[str, str]:
    """What decides the bytes of a package besides what it is made of."""
    return {
        "ctk": f"revision {REVISION}",
        "rattler-build": rattler_build.rattler_build_version(),
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
    }


def recipe_digest(recipe: Recipe) -> str:
    """sha256 over everything that a recipe consists of, wherever the checkout lies."""
    digest = hashlib.sha256()
    for file in recipe.files():
        name = os.path.relpath(file, recipe.folder)
        digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\1".encode())
    return digest.hexdigest()


def recipe_commit(recipe: Recipe) -> str:
    """The last commit that touched a recipe's files.

    "" outside a git checkout, with changes that are not committed, and in a shallow clone that does not reach back to
    that commit: a wrong commit would be worse than none.
    """
    if recipe.commit is not None:
        return recipe.commit
    return _commit(recipe.folder.resolve(), tuple(f.resolve() for f in recipe.files()))


@lru_cache
def _commit(folder: Path, files: tuple[Path, ...]) -> str:
    names = [os.path.relpath(f, folder) for f in files]
    if _git(folder, "status", "--porcelain", "--", *names) != "":
        return ""
    commit = _git(folder, "log", "-1", "--format=%H", "--", *names) or ""
    return "" if commit in _shallow(folder) else commit


@lru_cache
def _shallow(folder: Path) -> frozenset[str]:
    """The commits at which a shallow clone ends: to git, all files seem to appear in them."""
    place = _git(folder, "rev-parse", "--git-path", "shallow")
    file = folder / place if place else None
    return frozenset(file.read_text(encoding="ascii").split()) if file and file.is_file() else frozenset()


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None where it cannot answer."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
