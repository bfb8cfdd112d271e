"""What a finished build is, the key that names it, and its folder in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk import notes
from ctk.dag import Build
from ctk.paths import Workspace
from ctk.provenance import recipe_commit, tools


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        id: Of the build.
        key: Content key.
        packages: The ``.conda`` files, below the build's folder in the cache.
        seconds: Wall time of the build; of the run that made it, when it was cached.
        cached: Whether an earlier run had made it.
    """

    id: str
    key: str
    packages: tuple[Path, ...]
    seconds: float
    cached: bool

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


def cached(build: Build, workspace: Workspace, level: int) -> Built | None:
    """The build as an earlier run left it, if it did."""
    key = build_key(build, level)
    note = notes.read(workspace.builds / key / "build.json")
    names = notes.packages(note)
    if names is None or not isinstance(note.get("seconds"), int | float):
        return None
    packages = tuple(workspace.builds / key / name for name in names)
    return Built(build.id, key, packages, note["seconds"], True) if all(p.exists() for p in packages) else None


def keep(folder: Path, home: Path, note: Mapping[str, Any]) -> Path:
    """Puts finished packages into the cache by one rename; the scratch folder may be on another file system.

    Args:
        folder: Where they are; they are moved away.
        home: The build's folder in the cache.
        note: ``id``, ``packages`` (names below the folder) and ``seconds``.
    """
    finished = home.with_name(f".tmp-finished-{home.name}-{os.getpid()}")
    try:
        for name in note["packages"]:
            (finished / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / name, finished / name)
        (finished / "build.json").write_text(json.dumps(note, indent=1))
        if home.exists():  # an incomplete folder of that name: `cached` refused it
            shutil.rmtree(home)
        os.replace(finished, home)
    finally:
        shutil.rmtree(finished, ignore_errors=True)
    return home
