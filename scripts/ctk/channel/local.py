"""The built channel: a link to its current state.

A state is a folder that never changes once it is visible. The next state is written beside it,
indexed, and put in place by one rename. Guarantees for readers:

- A reader that follows the link once and stays in that folder sees one whole state, until `KEPT`
  newer states were made. All of ctk reads in this way (`ctk.solve.solve.channel_url`).
- A reader that follows the link for each file sees whole files, but may get the index of one state
  and the packages of the next, in which a package may be gone or replaced: here, where recipes are
  developed, a file name is reused. So a web server must not serve this link, but a folder that `ctk
  publish --to` fills (`ctk.channel.publish`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctk.build.finished import Built
from ctk.channel.history import numbered
from ctk.channel.repodata import FILES, ChannelIndex, Records, read_index, shows, write_index
from ctk.core.console import listing
from ctk.core.disk import disk_errors
from ctk.core.errors import AuditFailed, ChannelBroken, UnknownName
from ctk.core.files import holds, listed_packages, make_folder, read_json, share
from ctk.core.platforms import NOARCH
from ctk.package.reader import record_of

KEPT = 3  # states, including the current one; they share the files of their common packages


@dataclass(frozen=True)
class Staged:
    """A complete, indexed state of a channel that no reader sees yet."""

    channel: Path  # the channel of the state
    path: Path  # the folder of the state, which clients can use like a channel
    packages: Mapping[str, int]  # subdir -> number of packages
    size: int  # bytes of all packages
    changed: bool  # whether it differs from the current state


@dataclass(frozen=True)
class Candidates:
    """The packages of the next state of a channel."""

    channel: Path
    builds: Mapping[str, Any]  # build id -> its key and packages
    # ``subdir/file`` -> the package, in the folder of its build or in the current state.
    files: Mapping[str, Path]
    records: Records
    is_new: bool  # whether builds or packages differ from those of the current state
    earlier: Mapping[str, str]  # file name of a package of an earlier run -> build id
    # Ids of builds of earlier runs of which the current state has lost a package.
    gone: Sequence[str]


def candidates(
    built: Iterable[Built],
    channel: Path,
    holds: Callable[[Path, str], bool] = holds,
    *,
    without: Collection[str] = (),
    cache: Path | None = None,
) -> Candidates:
    """The packages of a channel's next state: those of `built`, and of other builds that it has.

    Args:
        built: Builds, whose packages replace earlier packages of the same builds.
        channel: The channel; it may not exist yet.
        holds: Whether a package file has a sha256.
        without: Ids of builds whose packages leave the channel.
        cache: The folder that has each build under its key: packages that the channel has lost are
            taken from there.

    Raises:
        ChannelBroken: A package of another build was changed in the channel, and is not in the
            cache.
    """
    built, current = tuple(built), channel.resolve()
    before = _builds(current)
    made = {b.id: {"key": b.key, "packages": dict(b.sha256)} for b in built}
    kept = {i: note for i, note in before.items() if i not in without}
    fresh = {name: b.home / name for b in built for name in b.records}
    restored = _restored(kept.values(), current, cache, holds) if cache else {}
    there = {
        n
        for note in kept.values()
        for n in note["packages"]
        if n in restored or (current / n).exists()
    }
    wanted = {i: note for i, note in kept.items() if there.issuperset(note["packages"])} | made
    stated = {
        n: sha256
        for note in (*wanted.values(), *made.values())
        for n, sha256 in note["packages"].items()
    }
    files = {n: fresh.get(n) or restored.get(n, current / n) for n in stated}
    records = _records(built, current, stated, files)
    damaged = _damaged(stated, records, current, holds)
    if lost := sorted(damaged - fresh.keys() - restored.keys()):
        raise ChannelBroken(
            f"{channel} has other content than what was built as {listing(lost, most=3)}",
            "build these packages again, with the options of the earlier build",
        )
    return Candidates(
        channel,
        builds=wanted,
        files=files,
        records={name: records[name] for name in files},
        is_new=wanted != before or bool(damaged),
        earlier=_makers(wanted, without=fresh),
        gone=[i for i in kept if i not in wanted],
    )


def _damaged(
    stated: Mapping[str, str], records: Records, current: Path, holds: Callable[[Path, str], bool]
) -> set[str]:
    """The packages without a record, and those that differ from the stated sha256, if one is."""
    damaged = set()
    for name, sha256 in stated.items():
        if (
            name not in records
            or (sha256 and records[name]["sha256"] != sha256)
            or (sha256 and not holds(current / name, sha256))
        ):
            damaged.add(name)
    return damaged


def _makers(builds: Mapping[str, Any], without: Collection[str]) -> dict[str, str]:
    """File name of a package -> id of its build, without some packages."""
    return {
        Path(n).name: i for i, note in builds.items() for n in note["packages"] if n not in without
    }


def _restored(
    kept: Iterable[Mapping[str, Any]],
    current: Path,
    cache: Path,
    holds: Callable[[Path, str], bool],
) -> dict[str, Path]:
    """Packages of earlier builds that the channel has lost -> their files in the cache.

    The others come from the channel itself, since the cache may have been deleted.
    """
    return {
        n: cache / note["key"] / n
        for note in kept
        for n, sha256 in note["packages"].items()
        if note["key"] and not holds(current / n, sha256) and holds(cache / note["key"] / n, sha256)
    }


def _records(
    built: Iterable[Built], current: Path, names: Collection[str], files: Mapping[str, Path]
) -> dict[str, Any]:
    """The records of packages: of the builds, of the index, else of the packages themselves."""
    records = dict(_indexed(current))
    for build in built:
        records.update(build.records)
    for name in set(names) - records.keys():  # the index is damaged
        with suppress(AuditFailed):
            records[name] = record_of(files[name])
    return records


def stage(found: Candidates) -> Staged:
    """Writes the next state of a channel.

    Raises:
        NoSpace: The disk is full; the current state stays as it was.
    """
    channel, current = found.channel, found.channel.resolve()
    exports = {
        name: {"run_exports": record.get("run_exports", {})}
        for name, record in found.records.items()
    }
    subdirs = frozenset({NOARCH, *(name.partition("/")[0] for name in found.files)})
    index = ChannelIndex(found.records, exports, subdirs)
    changed = found.is_new or not shows(current, index)
    path = current
    if changed:
        with disk_errors(channel.parent):
            path = _assemble(channel, found.builds, found.files, index)
    counts = dict(sorted(Counter(name.partition("/")[0] for name in found.files).items()))
    return Staged(
        channel, path, counts, sum(f.stat().st_size for f in found.files.values()), changed
    )


def commit(staged: Staged) -> None:
    """Makes a staged state the current state.

    Older states stay on disk until `KEPT` newer states were staged.
    """
    channel = staged.channel
    if staged.changed:
        link = channel.with_name(f".{channel.name}.new")
        with disk_errors(channel.parent):
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(staged.path, channel.parent), target_is_directory=True)
            os.replace(link, channel)


def is_built(place: Path) -> bool:
    """Whether a real path is in a state of a built channel, or in the folder of its states."""
    return any(re.fullmatch(r"\..+-states", folder.name) for folder in (place, *place.parents))


def packages(channel: Path) -> list[Path]:
    """The package files of a channel's current state."""
    return sorted(channel.resolve().glob("*/*.conda"))


def _states(channel: Path) -> Path:
    return channel.parent / f".{channel.name}-states"


def _builds(state: Path) -> dict[str, dict[str, Any]]:
    """Build id -> ``key`` and ``packages`` of a state, from the file beside it.

    The packages are ``subdir/file`` -> sha256.
    """
    raw = read_json(state.with_suffix(".json"))
    notes = (
        [(i, note, listed_packages(note)) for i, note in raw.items()]
        if isinstance(raw, dict)
        else []
    )
    return {
        i: {"key": note.get("key"), "packages": names}
        for i, note, names in notes
        if names is not None
    }


def _indexed(state: Path) -> Records:
    """The records in the index of a state; no records if the index is damaged."""
    try:
        return read_index(state).records
    except ChannelBroken:
        return {}


def _assemble(
    channel: Path, builds: Mapping[str, Any], files: Mapping[str, Path], index: ChannelIndex
) -> Path:
    """Writes a new state with its index and the list of its builds, and removes old states.

    Returns its folder.
    """
    states, place = _states(channel), channel.resolve()
    if channel.exists() and (not channel.is_symlink() or place.parent != states.resolve()):
        raise UnknownName(
            f"{channel} is not a channel that ctk built",
            "name one, or a folder that does not exist yet",
        )
    make_folder(states)
    before = numbered(states)
    shown = int(place.name) if channel.exists() else 0
    kept = [old for old in before if int(old.name) <= shown][1 - KEPT :]  # and the new state
    for old in before:
        if old not in kept:  # older states, and those of killed runs
            shutil.rmtree(old, ignore_errors=True)
            old.with_suffix(".json").unlink(missing_ok=True)
    number = max((int(old.name) for old in before), default=0) + 1
    state = states / str(number)
    state.mkdir()
    for name, file in sorted(files.items()):
        target = state / name
        target.parent.mkdir(exist_ok=True)
        try:
            os.link(file, target)
        except OSError:
            shutil.copyfile(file, target)
    for subdir in index.subdirs:
        write_index(index, state, subdir, FILES)
    for path in (state, *state.rglob("*")):
        share(path)
    state.with_suffix(".json").write_text(json.dumps(builds, indent=1, sort_keys=True))
    return state
