"""A build as pure data, for a worker that has no checkout: files by their place in the checkout and their sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import rattler_build
from pydantic import TypeAdapter

from ctk.build.provenance import recipe_commit
from ctk.build.record import build_key
from ctk.core.checkout import Workspace
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256
from ctk.fetch.fetch import laid_out
from ctk.plan.dag import Build
from ctk.plan.recipes import Recipe


@dataclass(frozen=True)
class Engine:
    """What must be the same wherever a run builds.

    Attributes:
        ctk: Digest of this package's modules.
        rattler_build: Its version.
    """

    ctk: str
    rattler_build: str

    def __str__(self) -> str:
        return f"ctk {self.ctk} with rattler-build {self.rattler_build}"


@lru_cache
def engine() -> Engine:
    """That of this process."""
    root = Path(__file__).resolve().parents[1]
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\0{file_sha256(file)}\1".encode())
    return Engine(whole.hexdigest()[:12], rattler_build.rattler_build_version())


@dataclass(frozen=True)
class Blob:
    """A file of the checkout that a build reads."""

    sha256: str
    executable: bool


@dataclass(frozen=True)
class Order:
    """What a worker is told.

    Attributes:
        run: Token of the run and the try; marks of what died are counted under it.
        store: URL.
        engine: What the worker must be.
        build: Its recipe's folder and its variant files are relative to the checkout.
        key: Of the build.
        level: zstd compression level of the packages.
        files: The recipe's files, shared ones too, and the variant files: place in the checkout -> content.
    """

    run: str
    store: str
    engine: Engine
    build: Build
    key: str
    level: int
    files: Mapping[str, Blob]


_ADAPTER = TypeAdapter(Order)


def to_json(order: Order) -> str:
    return _ADAPTER.dump_json(order).decode()


def from_json(text: str) -> Order:
    return _ADAPTER.validate_json(text)


def order(build: Build, workspace: Workspace, level: int, run: str, store: str) -> Order:
    """The order for a build of a checkout.

    Raises:
        RecipeError: It reads a file outside the checkout.
    """
    files = {_place(f, workspace): _blob(f) for f in (*build.recipe.files(), *build.variant_files)}
    moved = replace(
        build,
        recipe=Recipe(build.recipe.name, Path(_place(build.recipe.folder, workspace)), recipe_commit(build.recipe)),
        variant_files=tuple(Path(_place(f, workspace)) for f in build.variant_files),
    )
    return Order(run, store, engine(), moved, build_key(build, level), level, files)


def placed(given: Order, workspace: Workspace) -> Build:
    """The build of an order in a checkout of the worker."""
    build = given.build
    return replace(
        build,
        recipe=replace(build.recipe, folder=workspace.root / build.recipe.folder),
        variant_files=tuple(workspace.root / f for f in build.variant_files),
    )


def contents(given: Order, workspace: Workspace) -> dict[Path, str]:
    """Everything that a build reads: file in a checkout -> sha256."""
    files = {workspace.root / place: blob.sha256 for place, blob in given.files.items()}
    return files | {laid_out(a, workspace): a.sha256 for a in given.build.artefacts}


def _place(path: Path, workspace: Workspace) -> str:
    try:
        return path.resolve().relative_to(workspace.root.resolve()).as_posix()
    except ValueError:
        raise RecipeError(
            f"{path} is not in the checkout, so no worker can have it", "keep what recipes read inside the checkout"
        ) from None


def _blob(file: Path) -> Blob:
    return Blob(file_sha256(file), bool(file.stat().st_mode & 0o100))
