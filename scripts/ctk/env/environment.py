"""Environments that are created from a pick, and changed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import rattler
from packaging.utils import canonicalize_name

from ctk.core.console import Reporter
from ctk.core.disk import disk_errors, refuse_breaking_path
from ctk.core.errors import BadValue
from ctk.core.files import free_folder, read_json
from ctk.core.inside import is_file_name, place_in
from ctk.core.locks import alone
from ctk.env.activation import STARTUP, compile_modules, remove_bytecode, write_activation
from ctk.env.install import install, key_of, make_cache
from ctk.env.outside import refuse_packages, refuse_reaching_out, unpacked
from ctk.env.prefix import LOCK, NOTE, Installed, Note
from ctk.env.record_files import path_in_prefix
from ctk.env.request import write_history
from ctk.env.terms import NOTHING_LOST, Terms, refuse_loss
from ctk.solve.solve import Pick

_RENAME = "name another folder: letters, digits, spaces and most signs work"


@dataclass(frozen=True)
class Environment:
    """An environment on disk.

    Attributes:
        prefix: Its folder.
        pick: Its packages.
        changed: Whether this run made or changed it.
        changes: Kind of change -> packages in words, of one that was there.
    """

    prefix: Path
    pick: Pick
    changed: bool
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.prefix / "bin/python"


def refuse_other_folder(prefix: Path) -> None:
    """Refuses a place where an environment would overwrite the user's own files.

    Raises:
        BadValue: A folder with other files, a file, or a path that would break packages.
    """
    refuse_breaking_path(prefix, _RENAME)
    step = "name a new or empty folder, or an environment"
    there = next(place for place in (prefix, *prefix.parents) if place.exists())
    if not there.is_dir():
        raise BadValue(f"{there} is a file, so no environment can be created at {prefix}", step)
    if there == prefix and not (prefix / "conda-meta").is_dir() and any(prefix.iterdir()):
        raise BadValue(
            f"{prefix} contains files but is not an environment: it has no conda-meta", step
        )


def refuse_missing(prefix: Path) -> None:
    """Refuses a place without an environment.

    Raises:
        BadValue: There is none, or its path breaks packages.
    """
    refuse_breaking_path(prefix, _RENAME)
    if (prefix / "conda-meta").is_dir():
        return
    if prefix.is_dir():
        reason = "has no conda-meta"
    elif prefix.exists():
        reason = "is not a folder"
    else:
        reason = "is not there"
    place = free_folder("my-env") if prefix.exists() else shlex.quote(str(prefix))
    step = f"name one, or create one: `ctk env create cuda-core --prefix {place}`"
    raise BadValue(f"{prefix} is not an environment: it {reason}", step)


def refuse_unfinished(prefix: Path) -> None:
    """Refuses a place without an environment, and an environment that `create` did not finish.

    Raises:
        BadValue: It is one of these.
    """
    refuse_missing(prefix)
    note = Note.read(prefix)
    if note and note.asked and not note.stamp:
        cause = f"{prefix} is incomplete: the run that creates it was stopped, or is still at work"
        raise BadValue(cause, f"wait for that run, or `{note.again(prefix)}`")


@dataclass(frozen=True)
class _Order:
    """What `create` was called with."""

    pick: Pick
    prefix: Path
    cache: Path
    asked: tuple[str, ...]
    terms: Terms

    @cached_property
    def wanted(self) -> dict[str, str]:
        """The key of each package of the pick -> its name."""
        return {key_of(record): str(record.name.normalized) for record in self.pick.records}

    def refuse(self, note: Note | None, installed: Installed) -> None:
        """Refuses an environment that reaches outside, or that would lose too much."""
        refuse_reaching_out(self.prefix, installed.records)
        refuse_loss(self.terms, note, installed, self.pick, self.asked)

    def is_noted(self, note: Note) -> bool:
        """Whether a note has this request; a caller that states none leaves it as it is."""
        return not self.asked or note.asked == self.asked


def create(
    pick: Pick,
    prefix: Path,
    cache: Path,
    say: Callable[[str], None] = lambda text: None,
    asked: Sequence[str] = (),
    terms: Terms = NOTHING_LOST,
    report: Reporter | None = None,
) -> Environment:
    """Gives an environment exactly the packages of a pick, with bytecode and activation scripts.

    Its files are hard links into the cache of unpacked packages. Runs at the same prefix wait for
    each other.

    Args:
        pick: The packages.
        prefix: The folder; an environment that is there is changed.
        cache: The folder of unpacked packages.
        say: Is called with a line about missing bytecode, and while another run is waited for.
        asked: The request as the user typed it, for the note.
        terms: What the change may take away.
        report: Shows the progress of downloads, and rattler's bars where it draws bars.

    Raises:
        BadValue, WouldLose, Busy: Those of `refuse_loss`.
        NotReady: A record or a link in the prefix, and so what would be changed, leads out of it.
        ChannelBroken: A package would be installed outside of the prefix.
        NoSpace: No files can be written there.
    """
    order = _Order(pick, prefix, cache, tuple(asked), terms)
    note, installed = Note.read(prefix), Installed.read(prefix)
    refuse_reaching_out(prefix, installed.records)
    if note and _is_untouched(order, note, installed):
        return Environment(prefix, pick, False)
    order.refuse(note, installed)
    make_cache(cache)  # before anything is written
    refuse_packages(pick, prefix, cache)  # `install` does it, too, but later
    with disk_errors(prefix.parent), alone(prefix / LOCK, f"at {prefix}", say):
        # again: another run may just have ended
        note, installed = Note.read(prefix), Installed.read(prefix)
        order.refuse(note, installed)
        altered = _altered(installed)
        if note and _is_whole(note, installed, order.wanted) and not altered:
            _note_request(order, note, installed)
            return Environment(prefix, pick, False)
        of_pip = _change(order, note, installed, altered, say, report)
    if not installed.records:
        return Environment(prefix, pick, True)
    new = [name for key, name in order.wanted.items() if key not in installed.packages]
    changes = _changes(installed, pick, {*altered, *new})
    changes["replaced, of pip"] = of_pip
    return Environment(prefix, pick, True, changes)


def _is_untouched(order: _Order, note: Note, installed: Installed) -> bool:
    """Whether an environment is as `create` left it, for the same request."""
    if not order.is_noted(note) or not _is_whole(note, installed, order.wanted):
        return False
    return installed.stamp == note.stamp and not installed.scripts_of_others


def _is_whole(note: Note, installed: Installed, wanted: Iterable[str]) -> bool:
    """Whether `create` finished with these packages, and nothing else is in their place.

    There are no other packages, and no wheels that replace one.
    """
    is_all = set(wanted) == set(note.packages) == installed.packages.keys()
    if not note.stamp or not is_all or installed.broken:
        return False
    return not _replaced(installed.of_pip, installed)


def _altered(installed: Installed) -> dict[str, Collection[str]]:
    """Package -> its files that are not as they were installed.

    In an environment that was moved, they are those that have the old path in them, too.
    """
    found: dict[str, Collection[str]] = {**installed.damage()}
    if installed.scripts_of_others:
        found.update(installed.with_prefix)
    return found


def _note_request(order: _Order, note: Note, installed: Installed) -> None:
    """Notes the request of an environment that has all packages of it."""
    if not order.is_noted(note):
        write_history(order.pick, order.prefix, time.localtime())
    asked = order.asked or note.asked
    replace(note, asked=asked, stamp=installed.stamp).write(order.prefix)


def _change(
    order: _Order,
    note: Note | None,
    installed: Installed,
    altered: Mapping[str, Collection[str]],
    say: Callable[[str], None],
    report: Reporter | None,
) -> list[str]:
    """Makes an environment what was ordered.

    Returns what pip had installed and packages bring now, in words.
    """
    prefix = order.prefix
    # Before any change: if this run is stopped, the note says whose the environment is, and what
    # may be half there.
    half: tuple[str, ...] = ()
    if note and not note.stamp:
        half = note.packages
    packages = set(half).union(order.wanted, installed.packages)
    Note(tuple(sorted(packages)), order.asked).write(prefix)
    of_pip = installed.of_pip
    leftovers = _paths_of(half, prefix, order.cache) | installed.named_files
    _remove_what_is_in_the_way(installed, altered)
    install(order.pick, prefix, order.cache, altered, report)
    replaced = _replaced(of_pip, Installed.read(prefix))
    _remove_leftovers(leftovers.union(*replaced.values()), prefix)
    if why := compile_modules(prefix):
        say(f"without bytecode, so that Python starts slower: {why}")
    write_activation(order.pick, prefix)
    write_history(order.pick, prefix, time.localtime())
    stamp = Installed.read(prefix).stamp
    Note(tuple(sorted(order.wanted)), order.asked, stamp).write(prefix)
    return [*replaced]


def _remove_what_is_in_the_way(
    installed: Installed, altered: Mapping[str, Collection[str]]
) -> None:
    """Removes what rattler would keep, or what would keep it from installing packages."""
    prefix = installed.prefix
    remove_bytecode(installed)
    unreadable = [record for record in installed.records if not _is_readable(record)]
    for file in (*installed.broken, *unreadable):
        file.unlink()
    # It would keep the folder of another Python.
    startups = prefix.glob(f"lib/python3*/site-packages/{STARTUP.name}")
    _remove([path.relative_to(prefix) for path in startups], prefix)
    for paths in altered.values():
        _remove(paths, prefix)


def _is_readable(record: Path) -> bool:
    """Whether rattler reads a record. Beside one that it cannot read, it would install nothing."""
    try:
        rattler.PrefixRecord.from_path(record)
    except Exception:  # rattler has errors of its own
        return False
    return True


def _remove(paths: Iterable[Path | str], prefix: Path) -> None:
    """Removes files and links of a prefix.

    What is outside, or behind a link that leads out, stays.
    """
    for path in paths:
        place = place_in(prefix, str(path))
        if place is not None and (place.is_symlink() or place.is_file()):
            place.unlink()


def _paths_of(packages: Iterable[str], prefix: Path, cache: Path) -> set[str]:
    """Where files of packages, by their keys in a note, may be in a prefix.

    The files of a package that is no longer unpacked are not known.
    """
    folders = [path.relative_to(prefix) for path in prefix.glob("lib/python3*/site-packages")]
    sites = [folder.as_posix() for folder in folders] or ["site-packages"]
    found = set()
    for key in packages:
        file, _, _ = key.partition("#")
        if not is_file_name(file):  # anybody may have written the note
            continue
        info = unpacked(file, cache) / "info"
        for entry in (read_json(info / "paths.json") or {}).get("paths", ()):
            found |= {path_in_prefix(str(entry["_path"]), site) for site in sites}
        noarch = (read_json(info / "link.json") or {}).get("noarch") or {}
        for line in noarch.get("entry_points") or ():
            command, _, _ = str(line).partition("=")
            found.add(f"bin/{command.strip()}")
    return found


def _replaced(
    of_pip: Mapping[Path, frozenset[str]], installed: Installed
) -> dict[str, frozenset[str]]:
    """What pip had installed and packages bring now: distribution in words -> its files."""
    found = {}
    for info, files in of_pip.items():
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if canonicalize_name(name) in installed.distributions:
            found[f"{canonicalize_name(name)} {version}"] = files
    return found


def _remove_leftovers(paths: Collection[str], prefix: Path) -> None:
    """Removes files of a stopped run or of pip that no package has now, and folders left empty.

    Python would find what a dist-info names.
    """
    installed = Installed.read(prefix)
    kept = set(installed.named_files)
    for info, files in installed.of_pip.items():
        record = f"{info.relative_to(prefix)}/RECORD"
        if record not in paths:  # pip installed it, perhaps over a package of ours
            kept |= files
    for path in paths:
        place = None if path in kept else place_in(prefix, path)
        if place is None or place.parent == prefix / NOTE.parent:
            continue
        if place.is_symlink() or place.is_file():
            place.unlink()
        _remove_empty_folders(place, prefix)


def _remove_empty_folders(place: Path, prefix: Path) -> None:
    """Removes the folders above a place in a prefix that are empty now."""
    for folder in place.parents:
        if folder == prefix or folder.is_symlink():
            return
        if not folder.is_dir() or any(folder.iterdir()):
            return
        folder.rmdir()


def _changes(installed: Installed, pick: Pick, again: Collection[str]) -> dict[str, list[str]]:
    """What a pick changes in an environment: kind of change -> packages in words.

    `again` are the names of packages that are installed, whatever was there.
    """
    was = {
        str(record["name"]): (str(record.get("version")), str(record.get("build")))
        for record in installed.records.values()
    }
    now = {
        record.name.normalized: (str(record.version), str(record.build)) for record in pick.records
    }
    both = sorted(was.keys() & now.keys())
    return {
        "removed": [f"{name} {was[name][0]}" for name in sorted(was.keys() - now.keys())],
        "added": [f"{name} {now[name][0]}" for name in sorted(now.keys() - was.keys())],
        "replaced": [
            f"{name} {_difference(was[name], now[name])}" for name in both if was[name] != now[name]
        ],
        "installed again": [name for name in both if was[name] == now[name] and name in again],
    }


def _difference(was: tuple[str, str], now: tuple[str, str]) -> str:
    """The difference of two versions with their builds, in words."""
    version, build = was
    new_version, new_build = now
    if version != new_version:
        return f"{version} by {new_version}"
    return f"{version} {build} by {new_build}"
