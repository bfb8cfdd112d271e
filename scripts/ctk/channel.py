"""The channel station: indexes packages and publishes them atomically.

A channel is a link to a folder that never changes once it is visible. A new state is made beside it, indexed, and put
in place by one rename: a reader sees the old channel or the new one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rattler import Subdir
from rattler.index import index_fs
from rattler.package_streaming import PackageArchive

from ctk.build import Built
from ctk.coroutines import run
from ctk.fetch import disk_errors


@dataclass(frozen=True)
class Staged:
    """A complete, indexed state of a channel that no reader of it sees yet.

    Attributes:
        channel: The channel it is meant for.
        path: Its folder; clients can use it like a channel.
        packages: Subdir -> number of packages.
        size: Bytes of all packages.
        changed: Whether it differs from what the channel holds now.
    """

    channel: Path
    path: Path
    packages: Mapping[str, int]
    size: int
    changed: bool


def stage(built: Iterable[Built], channel: Path) -> Staged:
    """Makes the next state of a channel.

    What the channel holds from other builds stays; what it held from these builds is replaced.

    Args:
        built: Finished builds.
        channel: Where the channel is, or will be.

    Raises:
        NoSpace: The disk is full; the channel in place stays as it was.
    """
    before = _contents(channel.resolve())
    wanted = {**before, **{b.id: [str(p) for p in b.packages] for b in built}}
    wanted = {i: files for i, files in wanted.items() if all(Path(f).exists() for f in files)}
    files = sorted({f for group in wanted.values() for f in group})
    changed = wanted != before or not (channel / "noarch" / "repodata.json").exists()
    path = channel.resolve()
    if changed:
        with disk_errors(channel.parent):
            path = _assemble(channel, wanted, files)
    counts = dict(sorted(Counter(Path(f).parent.name for f in files).items()))
    return Staged(channel, path, counts, sum(Path(f).stat().st_size for f in files), changed)


def commit(staged: Staged) -> None:
    """Lets readers see a staged state. The state before it stays on disk until the next one is staged."""
    if staged.changed:
        with disk_errors(staged.channel.parent):
            link = staged.channel.with_name(f".{staged.channel.name}.new")
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(staged.path, staged.channel.parent), target_is_directory=True)
            os.replace(link, staged.channel)


def packages(channel: Path) -> list[Path]:
    """Every package of a channel, as files of its current state."""
    return sorted(channel.resolve().glob("*/*.conda"))


def _contents(state: Path) -> dict[str, list[str]]:
    """Build id -> package files of a state. Kept beside it: it names files of this machine."""
    try:
        return json.loads(state.with_suffix(".json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _assemble(channel: Path, wanted: Mapping[str, list[str]], files: list[str]) -> Path:
    states = channel.parent / f".{channel.name}-states"
    states.mkdir(parents=True, exist_ok=True)
    current = channel.resolve()
    numbers = [int(p.name) for p in states.iterdir() if p.name.isdigit()]
    for old in (states / str(n) for n in numbers):  # the state before the current one, and what killed runs left
        if old != current:
            shutil.rmtree(old, ignore_errors=True)
            old.with_suffix(".json").unlink(missing_ok=True)
    state = states / str(1 + max(numbers, default=0))
    (state / "noarch").mkdir(parents=True)
    for file in map(Path, files):
        target = state / file.parent.name / file.name
        target.parent.mkdir(exist_ok=True)
        try:
            os.link(file, target)
        except OSError:
            shutil.copyfile(file, target)
    run(_index(state))
    shutil.rmtree(state / ".tmp", ignore_errors=True)  # rattler's, empty
    state.with_suffix(".json").write_text(json.dumps(wanted, indent=1, sort_keys=True))
    return state


async def _index(state: Path) -> None:
    for folder in [p for p in sorted(state.iterdir()) if not p.name.startswith(".")]:
        await index_fs(state, target_platform=Subdir(folder.name), write_zst=True, write_shards=False)
        run_exports = folder / "run_exports.json"
        if not run_exports.exists():
            run_exports.write_text(json.dumps(await _run_exports(folder), sort_keys=True))


async def _run_exports(folder: Path) -> dict[str, object]:
    """The run exports of every package of a subdir, as CEP 12 shapes them."""
    found = {}
    for package in sorted(folder.glob("*.conda")):
        archive = await PackageArchive.from_path(package)
        content = await archive.read_file("info/run_exports.json")
        found[package.name] = {"run_exports": json.loads(content) if content else {}}
    return {"info": {"subdir": folder.name, "version": 1}, "packages": {}, "packages.conda": found}
