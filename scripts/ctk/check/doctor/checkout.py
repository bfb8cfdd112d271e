"""The checkout: its release locks, its cache, and what was made in it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from ctk.check.doctor.check import Check, Seen, Where, missing, ok, problem
from ctk.core.console import count

_LEAST = 6e9  # bytes: the default channel, its base channel, the artefacts of both, and room to build in
_PATIENCE = 4.0  # seconds for adding up the cache


class Locks(Check):
    """The release locks say what is built."""

    name = "release locks"
    needed = True

    def look(self, where: Where) -> Seen:
        from ctk.core.errors import CtkError
        from ctk.lock.lock import release_locks

        try:
            locks = list(release_locks(where.workspace).values())
        except CtkError as error:
            return problem(error.cause.splitlines()[0], error.step or "git checkout variants")
        minors = [lock.minor for lock in locks if lock.is_ctk]
        if not minors:
            return problem(f"there is none in {where.workspace.variants}", "git checkout variants")
        others = f"and {len(locks) - len(minors)} of Python projects"
        return ok(f"{count(len(minors), 'CTK release')}, {minors[0]} to {minors[-1]}, {others}")


class Cache(Check):
    """Downloads and finished builds; it can be deleted at any time."""

    name = "cache"
    needed = True

    def look(self, where: Where) -> Seen:
        place = where.workspace.cache
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            return problem(f"{place} cannot be written: {error.strerror}", "make it writable, or mend its owner")
        size, whole = _size(place)
        return ok(f"{size / 1e9:.1f} GB{'' if whole else ' or more'} in {place}")


class FreeSpace(Check):
    """Room for artefacts, builds and channels."""

    name = "free space"
    needed = True

    def look(self, where: Where) -> Seen:
        free = shutil.disk_usage(where.workspace.root).free
        text = f"{free / 1e9:.1f} GB"
        if free < _LEAST and not where.workspace.channel.exists():
            return problem(f"{text}, and the first build takes {_LEAST / 1e9:.0f} GB", "free some")
        return ok(text)


class BaseChannel(Check):
    """Python, numpy and so on, where conda-forge is not used."""

    name = "base channel"

    def look(self, where: Where) -> Seen:
        age, packages = _built(where.workspace.base_channel)
        return ok(age) if packages else missing("not made yet", "ctk build makes it")


class Channel(Check):
    """What `ctk build` made last."""

    name = "channel"

    def look(self, where: Where) -> Seen:
        age, packages = _built(where.workspace.channel)
        if not packages:
            return missing("not built yet", "./scripts/build makes it")
        locked = [file.stem.removeprefix("cuda-") for file in where.workspace.variants.glob("cuda-*.lock")]
        newest = max(locked, key=_by_number, default="")
        if newest and not any(name.startswith(f"cuda-version-{newest}-") for name in packages):
            return missing(f"{age}, without {newest}, the newest locked release", "ctk build brings it up to date")
        return ok(age)


def _built(channel: Path) -> tuple[str, list[str]]:
    """How large and how old a channel is, and its packages; none where there is no channel."""
    indexes = sorted(channel.glob("*/repodata.json"))
    packages = [name for file in indexes for name in json.loads(file.read_text(encoding="utf-8"))["packages.conda"]]
    made = os.lstat(channel).st_mtime if packages else 0
    return f"{count(len(packages), 'package')}, made {_ago(time.time() - made)} ago", packages


def _by_number(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


def _ago(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return count(int(seconds // size), name)
    return count(max(0, int(seconds)), "second")


def _size(folder: Path) -> tuple[int, bool]:
    """Bytes on disk below a folder, links counted once, and whether there was time for all of it."""
    seen: set[int] = set()
    total, end, todo = 0, time.monotonic() + _PATIENCE, [folder]
    while todo:
        if time.monotonic() > end:
            return total, False
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(Path(entry.path))
                        continue
                    stat = entry.stat(follow_symlinks=False)
                    if stat.st_ino not in seen:
                        seen.add(stat.st_ino)
                        total += stat.st_size
        except OSError:
            continue  # a run at work has just removed it
    return total, True
