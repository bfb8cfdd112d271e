"""What of a checkout's caches may go: runs keep them bounded, and `ctk clean` removes the rest.

Environments and channels are never touched: what has a hard link there is in use. docs/maintainers.md lists what goes.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ctk.build import one
from ctk.core.checkout import Workspace
from ctk.core.files import left

MONTH = 30 * 86400
"""Seconds for which what was used stays by itself."""
BOUND = 5 << 30
"""Bytes of builds that no channel has, which stay by themselves."""
_DAY = 86400
_LOCKS = ("variants/*.lock", "base/*.lock", "tests/**/*.lock", ".cache/base/machine.json")
_NOTES = ("admitted", "audit", "contents", "gpu-code", "laid-out", "logs", "proofs", "rendered", "site", "surfaces")
_TEMPORARY = ("check", "packing", "rebuild", "recipes", "tmp")


@dataclass(frozen=True)
class Group:
    """A part of the caches.

    Attributes:
        name: ``builds``.
        rule: What of it goes: ``what no channel has``.
        size: Bytes that it holds, of hard links once.
        goes: What may go now.
        freed: Bytes that are free without that.
    """

    name: str
    rule: str
    size: int
    goes: tuple[Path, ...]
    freed: int

    @classmethod
    def of(cls, name: str, rule: str, places: Iterable[Path], goes: Iterable[Path] = ()) -> Group:
        goes = tuple(goes)
        return cls(name, rule, _sizes(places)[0], goes, _sizes(goes)[1])


def clean(workspace: Workspace, *, dry_run: bool = False) -> list[Group]:
    """Removes all that nothing names or uses, or only says what that is. The caller holds the checkout's lock.

    Raises:
        OSError: Something may not be removed, as it is somebody else's.
    """
    cache, store, builds = workspace.cache, [workspace.store, workspace.artefacts], [workspace.builds]
    packages, notes = [cache / "packages", cache / "rattler" / "pkgs"], [cache / name for name in _NOTES]
    temporary = [cache / name for name in _TEMPORARY]
    known = {path.relative_to(cache).parts[0] for path in (*packages, *notes, *temporary)}
    with ExitStack() as locks:
        unused = [path for place in packages for path in unused_packages(place, locks)]
        groups = [
            Group.of("packages", "what no environment has", packages, unused),
            Group.of("notes", "what nothing read for a month", notes, _old_notes(cache)),
            Group.of("temporary", "what killed runs left", temporary, _left(workspace)),
        ]
        if cache == workspace.own_cache:
            known |= {path.name for path in (*store, *builds)}
            groups += [
                Group.of("downloads", "what no lock names", store, _downloads(workspace)),
                Group.of("builds", "what no channel has", builds, unused_builds(workspace)),
            ]
        groups.append(Group.of("others", "nothing", (path for path in cache.glob("*") if path.name not in known)))
        for group in groups if not dry_run else ():
            _remove(group.goes)
    return groups


def trim(workspace: Workspace, made: Collection[str]) -> None:
    """Keeps the caches bounded, after a run with the builds of these keys; the caller holds the checkout's lock."""
    with suppress(OSError), ExitStack() as locks:
        _remove(unused_builds(workspace, BOUND, made))
        _remove(unused_packages(workspace.cache / "rattler" / "pkgs", locks, MONTH))
        _remove([*_old_notes(workspace.cache), *_left(workspace)])


def trim_packages(cache: Path) -> None:
    """Removes the unpacked packages that no environment has, and that none was made from for a month."""
    with suppress(OSError), ExitStack() as locks:
        _remove(unused_packages(cache, locks, MONTH))


def unused_builds(workspace: Workspace, keep: int = 0, made: Collection[str] = ()) -> list[Path]:
    """The builds of which no channel has a package, but for `made`, and so many bytes of those that were used last."""
    free = [home for home in workspace.builds.glob("[!.]*") if home.name not in made and _is_unlinked(home)]
    found = []
    for home in sorted(free, key=lambda home: _used(home / "build.json"), reverse=True):
        keep -= _sizes([home])[0]
        found += [home] if keep < 0 else []
    return found


def unused_packages(cache: Path, locks: ExitStack, age: float = 0) -> list[Path]:
    """The unpacked packages that no environment has, and that were not used for so many seconds.

    None where rattler is at work with them: it holds this lock while it makes an environment, and waits for `locks`.
    """
    try:
        if cache.is_dir():
            locks.enter_context(FileLock(cache / ".cache.lock", timeout=0))
    except Timeout:
        return []
    packages = [(folder, folder.with_name(f"{folder.name}.lock")) for folder in cache.glob("*/")]
    free = [pair for pair in packages if _used(pair[1]) <= time.time() - age and _is_unlinked(pair[0])]
    return [part for pair in free for part in pair if part.exists()]


def _downloads(workspace: Workspace) -> list[Path]:
    """Artefacts of which no lock has the sha256, and what recipes would read of them."""
    texts = [file.read_text("utf-8", "replace") for lock in _LOCKS for file in workspace.root.glob(lock)]
    named = {sha256 for text in texts for sha256 in re.findall(r"\b[0-9a-f]{64}\b", text)}
    gone = [file for file in workspace.store.glob("*/*") if file.name not in named]
    inodes = {file.lstat().st_ino for file in gone}
    read = [file for file in workspace.artefacts.glob("*/*/*") if file.lstat().st_ino in inodes]
    return [*gone, *read]


def _old_notes(cache: Path) -> list[Path]:
    files = (file for name in _NOTES for file in (cache / name).rglob("*") if file.is_file())
    return [file for file in files if _used(file) < time.time() - MONTH]


def _left(workspace: Workspace) -> Iterator[Path]:
    """What killed runs left; in memory that of other checkouts, too, where nothing has been at work for a day.

    There only what has locks, none of them held, or nothing: by a clock that is wrong, what is at work looks old.
    """
    if workspace.cache == workspace.own_cache:  # else it is its owner's, who may be at work
        yield from (*workspace.own_cache.glob("rebuild"), *workspace.builds.glob(".tmp-*"))
    for name in _TEMPORARY:
        for folder in left(workspace.cache / name):
            yield from (p for p in map(folder.with_suffix, ("", ".done", ".lock")) if p.exists())
    for place in one.MEMORY.glob("ctk-*"):
        with suppress(OSError):  # it has just gone
            is_ours = place.lstat().st_uid == os.getuid() and re.fullmatch(r"ctk-[0-9a-f]{12}(\.tests)?", place.name)
            inside, locks = list(place.iterdir()), len(list(place.glob("*.lock")))
            if is_ours and locks == len(list(left(place))):
                changed = max(path.lstat().st_mtime for path in (place, *inside))
                if place.name == workspace.name or ((locks or not inside) and changed < time.time() - _DAY):
                    yield place


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):  # another checkout's run may remove what is left in memory
            if path.is_dir() and not path.is_symlink():
                if not path.name.startswith("."):  # nobody takes half a folder for a whole one, if this is killed
                    shutil.rmtree(going := path.with_name(f".tmp-{path.name}"), ignore_errors=True)
                    path = path.rename(going)
                shutil.rmtree(path)
            else:
                path.unlink()


def _used(file: Path) -> float:
    """When a file was read or written last, as far as the disk notes that; 0.0 where it is not there."""
    with suppress(OSError):
        return max(file.lstat().st_atime, file.lstat().st_mtime)
    return 0.0


def _is_unlinked(folder: Path) -> bool:
    """Whether no file in a folder has a hard link elsewhere."""
    held, freed = _sizes([folder])
    return held == freed


def _sizes(places: Iterable[Path]) -> tuple[int, int]:
    """Bytes of all files in some places, of hard links once; and of those that have no link elsewhere."""
    found: dict[tuple[int, int], list[int]] = {}  # -> bytes, links, links here
    for place in places:
        inner = (os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names)
        for file in inner if place.is_dir() else [place]:
            with suppress(OSError):  # a run at work has just removed it
                status = os.lstat(file)
                found.setdefault((status.st_dev, status.st_ino), [status.st_size, status.st_nlink, 0])[2] += 1
    return sum(size for size, *_ in found.values()), sum(s for s, links, here in found.values() if links <= here)
