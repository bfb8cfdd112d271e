"""The states of a channel: those of a built one, which this module makes, and the history of any, to return to one.

A built channel is a link to a folder that never changes once it is visible. A new state is made beside it, indexed,
and put in place by one rename. What a reader may rely on:

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
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from ctk.build.runner import Built
from ctk.channel.index_files import COMPRESSED, REPODATA, RUN_EXPORTS, Records, read_index
from ctk.core.errors import ChannelBroken, PublishFailed, UnknownName
from ctk.core.files import disk_errors, holds, listed_packages, make_folder, read_json, replace_file, share

KEPT = 3  # states, the current one included: they share the files of packages that are in several


@dataclass(frozen=True)
class State:
    """One state that readers saw.

    Attributes:
        number: Counts up and is never used again.
        before: The state that it followed, None for the first. After a return to an older state, that one.
        made: When, as ISO 8601 in UTC; for people, nothing depends on it.
        packages: How many the index names.
    """

    number: int
    before: int | None
    made: str
    packages: int


@dataclass(frozen=True)
class History:
    """The states of one channel that are kept, oldest first.

    Attributes:
        channel: Whose; for messages.
        current: Number of the one that readers see, None before the first.
    """

    channel: Path
    states: tuple[State, ...] = ()
    current: int | None = None

    @property
    def shown(self) -> State | None:
        """The state that readers see."""
        return next((s for s in self.states if s.number == self.current), None)

    @property
    def next_number(self) -> int:
        return 1 + max((s.number for s in self.states), default=0)

    def with_state(self, number: int, packages: int) -> History:
        """With one more state, which readers see from now on."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        others = tuple(s for s in self.states if s.number != number)
        return replace(self, states=(*others, State(number, self.current, made, packages)), current=number)

    def kept(self, count: int) -> History:
        """With the newest states and the current one only; one that followed a dropped state follows none."""
        newest = {s.number for s in self.states[-count:]} | {self.current}
        return replace(
            self,
            states=tuple(
                replace(s, before=s.before if s.before in newest else None) for s in self.states if s.number in newest
            ),
        )

    def target(self, number: int | None) -> State:
        """The state to return to.

        Args:
            number: The one that is wanted; None for the one before the current.

        Raises:
            UnknownName: It is not kept, or it is the current one, or there is none before.
        """
        by_number = {s.number: s for s in self.states}
        kept = f"kept are {', '.join(map(str, sorted(by_number)))}" if by_number else "no state is kept"
        if number is None:
            number = self.shown.before if self.shown else None
            if number is None:
                raise UnknownName(f"{self.channel} has no state before the one it shows; {kept}", "name one with --to")
        if number not in by_number:
            raise UnknownName(
                f"{self.channel} has no state {number}; {kept}", f"see `ctk channel history {self.channel}`"
            )
        if number == self.current:
            raise UnknownName(f"{self.channel} shows state {number} already; {kept}", "name another with --to")
        return by_number[number]


def load(file: Path, channel: Path) -> History | None:
    """The history that a file has, None where there is no file.

    Raises:
        ChannelBroken: The file is damaged. Whoever went on without it would write over states that are kept.
    """
    try:
        raw = json.loads(file.read_bytes())
        found = History(channel, tuple(_state(**state) for state in raw["states"]), raw["current"])
        if found.current is not None and found.shown is None:
            raise ValueError(f"it has no state {found.current}, which it says is shown")
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ChannelBroken(
            f"{file} cannot be read: {type(error).__name__}: {error}",
            f"put it back, or delete it (rm {file}): then the states are listed anew from their folders beside it",
        ) from None


def listed(folder: Path, channel: Path, packages: Callable[[Path], int]) -> History:
    """The states whose folders lie in a folder, for a channel whose history is lost; which is shown is not known.

    Args:
        folder: Where they lie, each under its number.
        channel: For messages.
        packages: Counts the packages of the state in a folder.
    """
    found: list[State] = []
    for place in sorted(numbered(folder), key=lambda place: int(place.name)):
        made = datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(timespec="seconds")
        found.append(State(int(place.name), found[-1].number if found else None, made, packages(place)))
    return History(channel, tuple(found))


def numbered(folder: Path) -> list[Path]:
    """The folders of states in a folder, whole or not."""
    return [place for place in folder.glob("*/") if re.fullmatch("[1-9][0-9]*", place.name)]


def _state(number: Any, before: Any, made: Any, packages: Any) -> State:
    numbers = (number, packages) if before is None else (number, packages, before)
    if not all(type(value) is int and value >= 0 for value in numbers) or not datetime.fromisoformat(made).tzinfo:
        raise ValueError(f"{number!r} is no state")
    return State(number, before, made, packages)


def save(history: History, file: Path) -> None:
    """Writes a history; a reader sees the old one or the new one."""
    content = {"current": history.current, "states": [asdict(s) for s in history.states]}
    replace_file(file, json.dumps(content, indent=1).encode())


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

    Raises:
        ChannelBroken: A package of another build is not what that build put into the channel.
        NoSpace: The disk is full; the channel in place stays as it was.
    """
    current = channel.resolve()
    before = _contents(current)
    built = tuple(built)
    fresh = {name: b.home / name for b in built for name in b.records}
    made = {b.id: {"key": b.key, "packages": dict(b.sha256)} for b in built}
    wanted = {i: note for i, note in before.items() if all((current / n).exists() for n in note["packages"])} | made
    # What other builds made is taken from the channel itself: the cache may have been deleted since.
    files = {n: fresh.get(n, current / n) for note in wanted.values() for n in note["packages"]}
    stated = {n: sha256 for note in (*wanted.values(), *made.values()) for n, sha256 in note["packages"].items()}
    indexed = _indexed(current)
    records = {**indexed, **{n: record for b in built for n, record in b.records.items()}}
    damaged = sorted(
        n
        for n, sha256 in stated.items()
        if n not in records or (sha256 and not (records[n]["sha256"] == sha256 and holds(current / n, sha256)))
    )
    if lost := [n for n in damaged if n not in fresh]:
        raise ChannelBroken(
            f"{channel} has other content than was built under {', '.join(lost)}",
            "build that again, with the options of before, or return to a state that `ctk channel history` lists",
        )
    changed = wanted != before or bool(damaged) or any(indexed.get(n) != records[n] for n in files)
    changed = changed or not (channel / "noarch" / REPODATA).exists()
    path = current
    if changed:
        with disk_errors(channel.parent):
            path = _assemble(channel, wanted, files, records)
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
    states, current = _states(channel), None
    if channel.exists():
        if not channel.is_symlink() or channel.resolve().parent != states.resolve():
            raise UnknownName(
                f"{channel} is no channel that ctk built, so it has no states",
                "name one, or a folder that was published to",
            )
        current = int(channel.resolve().name)
    known = load(_history_file(channel), channel)
    if known is None:  # lost; those that have no note of their builds beside them are not whole
        known = listed(states, channel, lambda place: len(packages(place)))
        known = replace(known, states=tuple(s for s in known.states if (states / f"{s.number}.json").exists()))
    known = replace(known, states=tuple(s for s in known.states if (states / str(s.number)).is_dir()), current=current)
    if current is not None and known.shown is None:  # a killed run showed it and did not note it
        known = replace(known, current=known.states[-1].number if known.states else None)
        known = known.with_state(current, len(packages(channel)))
    return known


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


def _indexed(state: Path) -> Records:
    """The records of a state's index; none where it is damaged."""
    try:
        return read_index(state).records
    except PublishFailed:
        return {}


def _assemble(
    channel: Path, wanted: Mapping[str, Mapping[str, Any]], files: Mapping[str, Path], records: Records
) -> Path:
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
    for folder in sorted(state.iterdir()):
        _write_index(folder, {p.name: records[f"{folder.name}/{p.name}"] for p in sorted(folder.iterdir())})
    for path in (state, *state.rglob("*")):
        share(path)
    state.with_suffix(".json").write_text(json.dumps(wanted, indent=1, sort_keys=True))
    return state


def _write_index(folder: Path, records: Records) -> None:
    """The index of one subdir, as rattler's indexer writes it; run exports as CEP 12 shapes them."""
    empty = {"info": {"subdir": folder.name}, "packages": {}}
    repodata = {**empty, "packages.conda": records, "repodata_version": 1, "v3": {}}
    text = json.dumps(repodata, sort_keys=True, separators=(",", ":")).encode()
    (folder / REPODATA).write_bytes(text)
    (folder / COMPRESSED).write_bytes(zstandard.ZstdCompressor(level=19).compress(text))
    exports = {name: {"run_exports": record.get("run_exports", {})} for name, record in records.items()}
    content = {"info": {"subdir": folder.name, "version": 1}, "packages": {}, "packages.conda": exports}
    (folder / RUN_EXPORTS).write_text(json.dumps(content, sort_keys=True))
