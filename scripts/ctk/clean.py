"""The caches of a checkout: runs keep them bounded, and `ctk clean` removes all that nothing needs.

A file with a hard link in an environment or a channel is in use. docs/maintainers.md lists the
groups.
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
from ctk.core.locks import left
from ctk.fetch.channels import Archives

MONTH = 30 * 86400
"""Seconds for which what was used stays by itself."""
BOUND = 5 << 30
"""Bytes of builds that no channel has, which stay by themselves."""
_LOCKS = (
    *("variants/*.lock", "base/*.lock", "tests/**/*.lock"),
    *(".cache/notes/base/*.json", ".cache/notes/derived/*.json"),
)


@dataclass(frozen=True)
class Group:
    """A part of the caches.

    Attributes:
        name: ``builds``.
        rule: Which files may be removed: ``what no channel has``.
        size: Bytes of all files; hard links count once.
        goes: Files and folders that may be removed now.
        freed: Bytes that this frees.
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
    """Removes all that nothing names or uses, unless `dry_run`.

    The caller holds the checkout's lock.

    Raises:
        OSError: A file belongs to another user.
    """
    store, builds, notes = (
        (workspace.store, workspace.artefacts),
        (workspace.builds,),
        (workspace.notes, workspace.logs),
    )
    with ExitStack() as locks:
        archives = Archives.beside(workspace.packages)
        unused = [*unused_packages(workspace.packages, locks), *unused_archives(archives, locks)]
        groups = [
            Group.of(
                "packages", "what no environment has", [workspace.packages, archives.folder], unused
            ),
            Group.of("notes", "what nothing read for a month", notes, _old_notes(workspace)),
            Group.of("temporary", "what killed runs left", [workspace.temporary], _left(workspace)),
        ]
        if workspace.cache == workspace.own_cache:
            groups += [
                Group.of("downloads", "what no lock names", store, _downloads(workspace)),
                Group.of("builds", "what no channel has", builds, unused_builds(workspace)),
            ]
        known = {workspace.rattler, workspace.temporary}.union(store, builds, notes)
        others = [path for path in workspace.cache.glob("*") if path not in known]
        groups.append(Group.of("others", "nothing", others))
        if not dry_run:
            for group in groups:
                _remove(group.goes)
    return groups


def trim(workspace: Workspace, made: Collection[str]) -> None:
    """Keeps the caches bounded, after a run with the builds of these keys.

    The caller holds the checkout's lock.
    """
    with suppress(OSError), ExitStack() as locks:
        _remove(unused_builds(workspace, BOUND, made))
        _remove(unused_packages(workspace.packages, locks, MONTH))
        _remove(unused_archives(Archives.beside(workspace.packages), locks, MONTH))
        _remove([*_old_notes(workspace), *_left(workspace)])


def trim_packages(cache: Path) -> None:
    """Removes unpacked packages that no environment has, and that were not used for a month."""
    with suppress(OSError), ExitStack() as locks:
        _remove(unused_packages(cache, locks, MONTH))
        _remove(unused_archives(Archives.beside(cache), locks, MONTH))


def forget_older(packages: Iterable[Path]) -> None:
    """Removes what is unpacked of earlier packages with these names.

    rattler-build would test it, and build against it. A package that is built again keeps its name.
    rattler itself compares sha256.
    """
    if (cache := os.environ.get("RATTLER_CACHE_DIR")) is None:
        return
    for package in packages:
        unpacked = Path(cache, "pkgs", package.name.removesuffix(".conda"))
        if unpacked.is_dir() and unpacked.stat().st_mtime < package.stat().st_mtime:
            shutil.rmtree(unpacked)


def unused_builds(workspace: Workspace, keep: int = 0, made: Collection[str] = ()) -> list[Path]:
    """Builds without a package in a channel.

    Not `made`, nor the last used ones, up to `keep` bytes.
    """
    free = [
        home
        for home in workspace.builds.glob("[!.]*")
        if home.name not in made and _is_unlinked(home)
    ]
    found = []
    for home in sorted(free, key=lambda home: _used(home / "build.json"), reverse=True):
        keep -= _sizes([home])[0]
        found += [home] if keep < 0 else []
    return found


def unused_packages(cache: Path, locks: ExitStack, age: float = 0) -> list[Path]:
    """Unpacked packages that no environment has, unused for `age` seconds, with their locks.

    Empty while rattler makes an environment from them: it holds this lock. It waits for `locks`.
    """
    try:
        if cache.is_dir():
            locks.enter_context(FileLock(cache / ".cache.lock", timeout=0))
    except Timeout:
        return []
    packages = [(folder, folder.with_name(f"{folder.name}.lock")) for folder in cache.glob("*/")]
    free = [
        pair for pair in packages if _used(pair[1]) <= time.time() - age and _is_unlinked(pair[0])
    ]
    return [part for pair in free for part in pair if part.exists()]


def unused_archives(archives: Archives, locks: ExitStack, age: float = 0) -> list[Path]:
    """Downloaded packages that stopped runs left, and that were not used for `age` seconds.

    Empty during a run.
    It waits for `locks`.
    """
    try:
        if archives.folder.is_dir():
            locks.enter_context(FileLock(archives.lock, timeout=0))
    except Timeout:
        return []
    found = (file for file in archives.folder.glob("*") if file != archives.lock)
    return [file for file in found if _used(file) <= time.time() - age]


def _downloads(workspace: Workspace) -> list[Path]:
    """Artefacts whose sha256 no lock has, and their names in the folder that recipes read."""
    texts = [
        file.read_text("utf-8", "replace") for lock in _LOCKS for file in workspace.root.glob(lock)
    ]
    named = {sha256 for text in texts for sha256 in re.findall(r"\b[0-9a-f]{64}\b", text)}
    gone = [file for file in workspace.store.glob("*/*") if file.name not in named]
    inodes = {file.lstat().st_ino for file in gone}
    read = [file for file in workspace.artefacts.glob("*/*/*") if file.lstat().st_ino in inodes]
    return [*gone, *read]


def _old_notes(workspace: Workspace) -> list[Path]:
    files = (
        file
        for folder in (workspace.notes, workspace.logs)
        for file in folder.rglob("*")
        if file.is_file()
    )
    return [file for file in files if _used(file) < time.time() - MONTH]


def _left(workspace: Workspace) -> Iterator[Path]:
    """Files and folders of killed runs, also in memory; a running build has a lock there."""
    if (
        workspace.cache == workspace.own_cache
    ):  # else it belongs to another user, who may be building
        yield from workspace.builds.glob(".tmp-*")
    for folder in left(workspace.temporary):
        yield from (p for p in map(folder.with_suffix, ("", ".lock")) if p.exists())
    for place in (one.in_memory(workspace), one.for_tests(workspace)):
        if place.exists() and len(list(place.glob("*.lock"))) == len(list(left(place))):
            yield place


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                if not path.name.startswith("."):  # if this is killed, nobody uses half a folder
                    shutil.rmtree(going := path.with_name(f".tmp-{path.name}"), ignore_errors=True)
                    path = path.rename(going)
                shutil.rmtree(path)
            else:
                path.unlink()


def _used(file: Path) -> float:
    """The last time that a file was read or written, as far as the disk notes that.

    0.0 for a missing file.
    """
    with suppress(OSError):
        return max(file.lstat().st_atime, file.lstat().st_mtime)
    return 0.0


def _is_unlinked(folder: Path) -> bool:
    """Whether no file in a folder has a hard link elsewhere."""
    held, freed = _sizes([folder])
    return held == freed


def _sizes(places: Iterable[Path]) -> tuple[int, int]:
    """Bytes of all files in some places, of hard links once.

    And of those that have no link elsewhere.
    """
    found: dict[tuple[int, int], list[int]] = {}  # -> bytes, links, links here
    for place in places:
        inner = (
            os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names
        )
        for file in inner if place.is_dir() else [place]:
            with suppress(OSError):  # a run at work has just removed it
                status = os.lstat(file)
                found.setdefault(
                    (status.st_dev, status.st_ino), [status.st_size, status.st_nlink, 0]
                )[2] += 1
    return sum(size for size, *_ in found.values()), sum(
        s for s, links, here in found.values() if links <= here
    )
