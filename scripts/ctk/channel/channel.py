"""The channel station: indexes packages and publishes them atomically.

A channel is a link to a folder that never changes once it is visible. A new state is made beside it, indexed, and put
in place by one rename. What a reader may rely on:

- Who follows the link once and stays in the folder that it led to sees one state, whole, until `KEPT` newer ones were
  made. All of ctk reads that way (`ctk.solve.solve.channel_url`).
- Who goes through the link for every file sees each file whole, but may get an index from one state and look for its
  packages in the next, where a package may be gone, or another under the same name: here, where recipes are being
  worked on, a package may be replaced. So a web server is not given this link but a folder that `ctk publish --to`
  fills, where neither can happen (`ctk.channel.folder`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rattler import Subdir
from rattler.index import index_fs
from rattler.package_streaming import PackageArchive

from ctk.build.runner import Built
from ctk.channel.history import History, State, listed, load, numbered, save
from ctk.channel.steady_index import settle
from ctk.core.errors import ChannelBroken, UnknownName
from ctk.core.files import disk_errors, holds, listed_packages, make_folder, read_json, share
from ctk.core.process import run

KEPT = 3  # states, the current one included: they share the files of packages that are in several


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
        ChannelBroken: A package of another build is not what that build put into the channel.
        NoSpace: The disk is full; the channel in place stays as it was.
    """
    current = channel.resolve()
    before = _contents(current)
    fresh = {name: b.home / name for b in built for name in b.sha256}
    made = {b.id: {"key": b.key, "packages": dict(b.sha256)} for b in built}
    wanted = {i: note for i, note in before.items() if all((current / n).exists() for n in note["packages"])} | made
    # What other builds made is taken from the channel itself: the cache may have been deleted since.
    files = {n: fresh.get(n, current / n) for note in wanted.values() for n in note["packages"]}
    stated = {n: sha256 for note in (*wanted.values(), *made.values()) for n, sha256 in note["packages"].items()}
    damaged = sorted(n for n, sha256 in stated.items() if sha256 and not holds(current / n, sha256))
    if lost := [n for n in damaged if n not in fresh]:
        raise ChannelBroken(
            f"{channel} has other content than was built under {', '.join(lost)}",
            "build that again, with the options of before, or return to a state that `ctk channel history` lists",
        )
    changed = wanted != before or bool(damaged) or not (channel / "noarch" / "repodata.json").exists()
    path = current
    if changed:
        with disk_errors(channel.parent):
            path = _assemble(channel, wanted, files)
    counts = dict(sorted(Counter(name.partition("/")[0] for name in files).items()))
    return Staged(channel, path, counts, sum(f.stat().st_size for f in files.values()), changed)


def commit(staged: Staged) -> None:
    """Lets readers see a staged state. The states before it stay on disk until `KEPT` newer ones were staged."""
    if staged.changed:
        with disk_errors(staged.channel.parent):
            before = history(staged.channel)
            _show(staged.channel, staged.path)
            # Written after the link: what a killed run did not write is read off the link.
            save(before.with_state(int(staged.path.name), sum(staged.packages.values())), _history_file(staged.channel))


def history(channel: Path) -> History:
    """The states of a built channel that can be returned to.

    Raises:
        UnknownName: It is no built channel.
        ChannelBroken: The note of its states is damaged.
    """
    if channel.exists() and not _is_link(channel):
        raise UnknownName(
            f"{channel} is no channel that ctk built, so it has no states",
            "name one, or a folder that was published to",
        )
    current = int(channel.resolve().name) if channel.exists() else None
    found = load(_history_file(channel), channel)
    if found is None:  # lost; those that have no note of their builds beside them are not whole
        found = listed(_states(channel), channel, lambda place: len(packages(place)))
        found = replace(
            found, states=tuple(s for s in found.states if (_states(channel) / f"{s.number}.json").exists())
        )
    whole = (s for s in found.states if (_states(channel) / str(s.number)).is_dir())
    found = replace(found, states=tuple(whole), current=current)
    if current is not None and current not in {s.number for s in found.states}:
        last = replace(found, current=found.states[-1].number if found.states else None)
        found = last.with_state(current, len(packages(channel)))
    return found


def rollback(channel: Path, number: int | None = None) -> State:
    """Lets readers see an older state again; the newer ones stay until others are made.

    Args:
        channel: A built channel.
        number: Which state; the one before the current by default.

    Raises:
        UnknownName: It is not kept, or this is no built channel.
        ChannelBroken: It is not whole; nothing was changed.
    """
    known = history(channel)
    state = known.target(number)
    folder = _states(channel) / str(state.number)
    if len(packages(folder)) != state.packages or not (folder / "noarch" / "repodata.json").exists():
        raise ChannelBroken(f"state {state.number} of {channel} is not whole", "name another with --to, or build again")
    with disk_errors(channel.parent):
        _show(channel, folder)
        save(replace(known, current=state.number), _history_file(channel))
    return state


def _show(channel: Path, state: Path) -> None:
    link = channel.with_name(f".{channel.name}.new")
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(state, channel.parent), target_is_directory=True)
    os.replace(link, channel)


def _states(channel: Path) -> Path:
    return channel.parent / f".{channel.name}-states"


def _is_link(channel: Path) -> bool:
    return channel.is_symlink() and channel.resolve().parent == _states(channel).resolve()


def _history_file(channel: Path) -> Path:
    return _states(channel) / "history.json"


def packages(channel: Path) -> list[Path]:
    """Every package of a channel, as files of its current state."""
    return sorted(channel.resolve().glob("*/*.conda"))


def _contents(state: Path) -> dict[str, dict[str, Any]]:
    """Build id -> ``key`` and ``packages`` (name below the state -> sha256) of what made a state. Kept beside it."""
    found = read_json(state.with_suffix(".json"))
    entries = found.items() if isinstance(found, dict) else ()
    known = ((i, note, listed_packages(note)) for i, note in entries)
    return {i: {"key": note.get("key"), "packages": names} for i, note, names in known if names is not None}


def _assemble(channel: Path, wanted: Mapping[str, Mapping[str, Any]], files: Mapping[str, Path]) -> Path:
    states = _states(channel)
    make_folder(states)
    known = history(channel)
    kept = {s.number for s in known.kept(KEPT - 1).states}  # with the one that is made now, KEPT
    numbers = [int(p.name) for p in numbered(states)]
    for number in numbers:
        if number not in kept:  # older ones, and what killed runs left
            shutil.rmtree(states / str(number), ignore_errors=True)
            (states / f"{number}.json").unlink(missing_ok=True)
    state = states / str(max(known.next_number, 1 + max(numbers, default=0)))
    (state / "noarch").mkdir(parents=True)
    for name, file in sorted(files.items()):
        target = state / name
        target.parent.mkdir(exist_ok=True)
        try:
            os.link(file, target)
        except OSError:
            shutil.copyfile(file, target)
    run(_index(state))
    shutil.rmtree(state / ".tmp", ignore_errors=True)  # rattler's, empty
    for path in (state, *state.rglob("*")):
        share(path)
    state.with_suffix(".json").write_text(json.dumps(wanted, indent=1, sort_keys=True))
    return state


async def _index(state: Path) -> None:
    for folder in [p for p in sorted(state.iterdir()) if not p.name.startswith(".")]:
        await index_fs(state, target_platform=Subdir(folder.name), write_zst=True, write_shards=False)
        settle(folder)
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
