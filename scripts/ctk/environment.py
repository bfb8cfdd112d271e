"""Creates environments from a pick, once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rattler
from rattler import Subdir

from ctk import notes
from ctk.coroutines import run
from ctk.disk import disk_errors
from ctk.errors import BadValue
from ctk.solve import Pick


@dataclass(frozen=True)
class Environment:
    """An environment on disk.

    Attributes:
        prefix: Its folder.
        pick: What is in it.
        changed: Whether this run made or changed it.
    """

    prefix: Path
    pick: Pick
    changed: bool

    @property
    def python(self) -> Path:
        """Its interpreter."""
        windows = self.pick.scenario.subdir.startswith("win-")
        return self.prefix / ("python.exe" if windows else "bin/python")


def check(prefix: Path) -> None:
    """Refuses a place where an environment would overwrite what is somebody's own.

    Raises:
        BadValue: There is a file, or a folder that is neither empty nor an environment.
    """
    step = "name a new or empty folder, or an environment"
    there = next(place for place in (prefix, *prefix.parents) if place.exists())
    if not there.is_dir():
        raise BadValue(f"{there} is a file: no environment can be at {prefix}", step)
    if there == prefix and not (prefix / "conda-meta").is_dir() and any(prefix.iterdir()):
        raise BadValue(f"{prefix} holds files and is no environment: it has no conda-meta", step)


def create(pick: Pick, prefix: Path, cache: Path) -> Environment:
    """Makes an environment hold exactly the packages of a pick.

    Args:
        pick: What to install.
        prefix: Where.
        cache: Where unpacked packages are kept, hard-linked into environments.

    Raises:
        NoSpace: The disk is full; run again to continue.
    """
    wanted = sorted(f"{r.file_name}#{r.sha256.hex() if r.sha256 else ''}" for r in pick.records)
    note = prefix / "conda-meta" / "ctk.json"
    if notes.read(note) == wanted:
        return Environment(prefix, pick, False)
    with disk_errors(prefix.parent):
        note.parent.mkdir(parents=True, exist_ok=True)  # first of all: what a run leaves half made can be told by it
        note.unlink(missing_ok=True)
    install(pick, prefix, cache)
    with disk_errors(prefix.parent):
        # conda's own list of files in conda-meta ignores names it does not know.
        note.write_text(json.dumps(wanted, indent=1))
    return Environment(prefix, pick, True)


def install(pick: Pick, prefix: Path, cache: Path) -> None:
    """Installs the packages of a pick, and removes others that are there. No package's own programs are run.

    Raises:
        NoSpace: The disk is full; run again to continue.
    """
    with disk_errors(prefix.parent):
        run(_install(pick, prefix, cache))


async def _install(pick: Pick, prefix: Path, cache: Path) -> None:
    await rattler.install(
        list(pick.records),
        target_prefix=prefix,
        cache_dir=cache,
        platform=Subdir(pick.scenario.subdir),
        reinstall_packages=_altered(pick, _installed(prefix)) or None,
        show_progress=False,
    )


def _installed(prefix: Path) -> list[dict[str, Any]]:
    """What a prefix says of its packages. Half a note, of a run that broke off, is removed: it is installed again."""
    found = []
    for file in (prefix / "conda-meta").glob("*-*.json"):
        record = notes.read(file)
        if isinstance(record, dict):
            found.append(record)
        else:
            file.unlink()
    return found


def _altered(pick: Pick, installed: Iterable[Mapping[str, Any]]) -> set[str]:
    """Packages installed under the same file name with other content: local rebuilds keep their name."""
    wanted = {r.file_name: r for r in pick.records}
    altered = set()
    for record in installed:
        name = record.get("fn")
        match = wanted.get(name) if isinstance(name, str) else None
        if match is not None and match.sha256 and record.get("sha256") != match.sha256.hex():
            altered.add(match.name.normalized)
    return altered
