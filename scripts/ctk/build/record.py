"""What a finished build is, the key that names it, and its folder in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.build.provenance import recipe_commit, tools
from ctk.core.checkout import Workspace
from ctk.core.files import holds, listed_packages, read_json
from ctk.plan.dag import Build


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        id: Of the build.
        key: Content key.
        home: Its folder in the cache.
        sha256: Path of each ``.conda`` file below that folder -> its sha256.
        seconds: Wall time of the build; of the run that made it, when it was cached.
        cached: Whether an earlier run had made it.
    """

    id: str
    key: str
    home: Path
    sha256: Mapping[str, str]
    seconds: float
    cached: bool

    @property
    def packages(self) -> tuple[Path, ...]:
        """The ``.conda`` files."""
        return tuple(self.home / name for name in self.sha256)

    @property
    def size(self) -> int:
        """Bytes of all its packages."""
        return sum(p.stat().st_size for p in self.packages)


@dataclass(frozen=True)
class Failure:
    """A build that was not made: its own error, or the one of a build it needs."""

    id: str
    message: str


@dataclass(frozen=True)
class BuildReport:
    """What became of every build of a plan."""

    built: tuple[Built, ...]
    failed: tuple[Failure, ...]
    skipped: tuple[Failure, ...]


def build_key(build: Build, level: int) -> str:
    """Digest of everything that can change the packages of a build."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update("\0".join(parts).encode() + b"\1")

    add(str(level), build.subdir)
    for file in build.recipe.files():
        add(file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    for output in build.outputs:
        add(output.subdir, output.file_name, json.dumps(dict(output.variant), sort_keys=True))
    for artefact in sorted(build.artefacts, key=lambda a: a.target):
        add(artefact.component, artefact.target, artefact.sha256, build.licenses[artefact.component])
    # What the SBOM says; `tools` and the variant, as far as it is used, are above.
    add(recipe_commit(build.recipe), build.place, str(build.timestamp), json.dumps(dict(tools()), sort_keys=True))
    return digest.hexdigest()[:32]


def cached(
    build: Build, workspace: Workspace, level: int, damaged: Callable[[str], None] = lambda what: None
) -> Built | None:
    """The build as an earlier run left it, if it did. The folder may come from anywhere: each package is read.

    Args:
        build: The build.
        workspace: The checkout.
        level: zstd compression level of the packages.
        damaged: Told of a package that is not what the build left.
    """
    key = build_key(build, level)
    home = workspace.builds / key
    note = read_json(home / "build.json")
    sha256 = listed_packages(note)
    if not sha256 or not all(sha256.values()) or not isinstance(note.get("seconds"), int | float):
        return None
    for name, expected in sha256.items():
        if not holds(home / name, expected):
            damaged(f"{build.id}: {name.rpartition('/')[2]} in the cache is damaged; it is built again")
            return None
    return Built(build.id, key, home, sha256, note["seconds"], True)


def note(built: Built) -> dict[str, Any]:
    """What is kept of a build beside its packages."""
    return {"id": built.id, "packages": dict(built.sha256), "seconds": built.seconds}


def keep(folder: Path, built: Built) -> Built:
    """Puts finished packages into the cache by one rename; the scratch folder may be on another file system.

    Args:
        folder: Where they are; they are moved away.
        built: The build.
    """
    finished = built.home.with_name(f".tmp-finished-{built.home.name}-{os.getpid()}")
    try:
        for name in built.sha256:
            (finished / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / name, finished / name)
        (finished / "build.json").write_text(json.dumps(note(built), indent=1))
        if built.home.exists():  # an incomplete folder of that name: `cached` refused it
            shutil.rmtree(built.home)
        os.replace(finished, built.home)
    finally:
        shutil.rmtree(finished, ignore_errors=True)
    return built
