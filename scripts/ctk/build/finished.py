"""Finished builds in the cache: the content key of a build, and its note.

What makes builds is in `ctk.build.runner`, which takes long to import: a plan does without.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rattler_build
import zstandard
from pydantic import TypeAdapter, ValidationError

from ctk.build import LEVEL
from ctk.core.checkout import Workspace
from ctk.core.files import HashNotes, file_sha256, read_json
from ctk.core.inside import wrong_with
from ctk.lock import derived
from ctk.plan.plan import Build, Plan
from ctk.plan.recipes import recipe_commit
from ctk.plan.variants import variant_values

REVISION = 10
"""Raise this when the tooling itself changes the content of packages."""


@dataclass(frozen=True)
class Built:
    """A finished build."""

    id: str  # of the build
    key: str  # content key
    home: Path  # its folder in the cache
    # Path of each ``.conda`` file below that folder -> its record in repodata.
    records: Mapping[str, Mapping[str, Any]]
    tests: Mapping[str, int]  # path of each package with tests -> their number
    seconds: float  # wall time of the run that made it
    cached: bool  # whether an earlier run had made it
    unread: tuple[str, ...] = ()  # keys of its wheels' licence texts that nobody had read

    @property
    def sha256(self) -> dict[str, str]:
        return {name: record["sha256"] for name, record in self.records.items()}

    @property
    def packages(self) -> tuple[Path, ...]:
        return tuple(self.home / name for name in self.records)

    @property
    def size(self) -> int:
        return sum(p.stat().st_size for p in self.packages)

    @property
    def note(self) -> dict[str, Any]:
        """The content of ``build.json`` beside the packages, which `read_note` reads."""
        return {
            "id": self.id,
            "packages": self.records,
            "tests": self.tests,
            "seconds": self.seconds,
            **({"unread": self.unread} if self.unread else {}),
        }


_BUILT = TypeAdapter(Built)


def read_note(
    note: Any, build: Build, key: str, workspace: Workspace, *, cached: bool
) -> Built | None:
    """The build that a note describes; None for one that is damaged, or of an earlier revision."""
    try:
        if any(map(wrong_with, note["packages"])):
            return None
        own = {"id": build.id, "key": key, "home": workspace.builds / key, "cached": cached}
        return _BUILT.validate_python({**note, "records": note["packages"], **own})
    except (ValidationError, TypeError, KeyError):
        return None


def build_key(build: Build) -> str:
    """Digest of everything that can change the packages of a build."""
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        digest.update("\0".join(parts).encode() + b"\1")

    add(str(LEVEL), build.subdir)
    for file in build.recipe.files():
        add(file.name, file_sha256(file))
    for output in build.outputs:
        add(output.subdir, output.file_name, json.dumps(dict(output.variant), sort_keys=True))
    for source in build.derived:
        add(source.target, source.artefact.component, str(derived.REVISION))
    for artefact in sorted(build.artefacts, key=lambda a: a.target):
        add(
            artefact.component, artefact.target, artefact.sha256, build.licenses[artefact.component]
        )
    # The rest of what the SBOM says; an output's variant lacks the keys in its ignore_keys.
    add(
        json.dumps(
            variant_values(build.recipe, build.variant_files, build.subdir, build.outputs),
            sort_keys=True,
        )
    )
    add(
        recipe_commit(build.recipe),
        build.place,
        str(build.timestamp),
        json.dumps(dict(tools(build)), sort_keys=True),
    )
    return digest.hexdigest()[:32]


def tools(build: Build | None = None) -> Mapping[str, str]:
    """The programs that write packages, or those of a build, and their versions."""
    reads_derived = build is not None and build.derived
    writes_derived = {"zig": derived.ZIG_VERSION} if reads_derived else {}
    return {
        "ctk": f"revision {REVISION}",
        "rattler-build": rattler_build.rattler_build_version(),
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
        **writes_derived,
    }


def cached(build: Build, workspace: Workspace) -> Built | None:
    """The build in the cache, if its packages have the sha256 of its note.

    A cache may come from anywhere: they are read, unless nobody can have written to them since an
    earlier run read them. A build whose licence texts have been read since is made again.
    """
    built = _noted(build, workspace)
    return built if built and _is_whole(built, HashNotes.of(workspace).holds) else None


def _noted(build: Build, workspace: Workspace) -> Built | None:
    """The build that a note in the cache describes, whose packages are not looked at."""
    key = build_key(build)
    note = read_json(workspace.builds / key / "build.json")
    built = read_note(note, build, key, workspace, cached=True)
    return None if built is None or _is_read_since(built) else built


def _is_whole(built: Built, holds: Callable[[Path, str], bool]) -> bool:
    return all(holds(built.home / name, expected) for name, expected in built.sha256.items())


def _is_read_since(built: Built) -> bool:
    """Whether a licence text of a build has been read that nobody had read when it was made."""
    if not built.unread:
        return False
    from ctk.lock.redistribution import load  # late: few builds have such a text

    return not load().keys().isdisjoint(built.unread)


def finished(plan: Plan, workspace: Workspace, *, jobs: int | None = None) -> dict[str, Built]:
    """The builds of a plan that are in the cache, by id.

    Reads every package that may have changed.
    """
    notes = HashNotes.of(workspace)
    noted = [built for build in plan.builds if (built := _noted(build, workspace))]
    # Where nothing is to be read, threads would only wait for each other.
    unread = [built for built in noted if not _is_whole(built, notes.knows)]
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        states = pool.map(lambda built: _is_whole(built, notes.holds), unread)
        broken = {built.id for built, is_whole in zip(unread, states, strict=True) if not is_whole}
    return {built.id: built for built in noted if built.id not in broken}
