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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ctk.build.runner import Built
from ctk.channel.index_files import FILES, REPODATA, ChannelIndex, Records, read_index, shows, write_index
from ctk.core.errors import ChannelBroken, PublishFailed, UnknownName
from ctk.core.files import disk_errors, holds, listed_packages, make_folder, read_json, replace_file, share
from ctk.core.platforms import NOARCH

KEPT = 3  # states, the current one included: they share the files of packages that are in several
STATES = "history.json"
"""The note of a history, in the folder that has each state under its number."""


@dataclass(frozen=True)
class State:
    """One state that readers saw."""

    number: int  # counts up and is never used again
    before: int | None  # the state that it followed, also after a return to an older one; None for the first
    made: str  # ISO 8601 in UTC, for people
    packages: int  # how many the index names


@dataclass(frozen=True)
class History:
    """The states of a channel that are kept, oldest first, and the number of the one that readers see."""

    states: tuple[State, ...] = ()
    current: int | None = None

    @property
    def shown(self) -> State | None:
        """The state that readers see."""
        return next((s for s in self.states if s.number == self.current), None)

    @property
    def next_number(self) -> int:
        return 1 + max((s.number for s in self.states), default=0)

    def with_state(self, number: int, packages: int, now: datetime | None = None) -> History:
        """With one more state, which readers see from now on."""
        made = (now or datetime.now(UTC)).isoformat(timespec="seconds")
        state = State(number, self.current, made, packages)
        return replace(self, states=(*(s for s in self.states if s.number != number), state), current=number)

    def kept(self, count: int) -> History:
        """With the newest states and the current one only; one that followed a dropped state follows none."""
        newest = {s.number for s in self.states[-count:]} | {self.current}
        states = [replace(s, before=s.before if s.before in newest else None) for s in self.states]
        return replace(self, states=tuple(s for s in states if s.number in newest))

    def target(self, number: int | None, channel: Path) -> State:
        """The state of a channel to return to, by default the one before the current.

        Raises:
            UnknownName: It is not kept, or it is the current one, or there is none before.
        """
        by_number = {s.number: s for s in self.states}
        kept = f"kept are {', '.join(map(str, sorted(by_number)))}" if by_number else "no state is kept"
        if number is None:
            number = self.shown.before if self.shown else None
            if number is None:
                raise UnknownName(f"{channel} has no state before the one it shows; {kept}", "name one with --to")
        if number not in by_number:
            step = f"see `ctk channel history {channel}`"
            raise UnknownName(f"{channel} has no state {number}; {kept}", step)
        if number == self.current:
            raise UnknownName(f"{channel} shows state {number} already; {kept}", "name another with --to")
        return by_number[number]


Note = TypeVar("Note")


def read_note(file: Path, kind: type[Note], lost: str) -> Note | None:
    """A note of a channel; None where there is none. `lost` says what is lost with it.

    Raises:
        ChannelBroken: It is damaged. Whoever went on without it would write over what is kept.
    """
    try:
        return TypeAdapter(kind).validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ChannelBroken(
            f"{file} cannot be read: {error.errors()[0]['msg']}",
            f"put it back from a copy, or delete it (rm {file}): then {lost}",
        ) from None


def load(folder: Path) -> History:
    """The history that lies in a folder with the states; an empty one where it is lost.

    Raises:
        ChannelBroken: Its note is damaged.
    """
    return read_note(folder / STATES, History, "its states are forgotten, and what readers see is kept") or History()


def numbered(folder: Path) -> list[Path]:
    """The folders of states in a folder, whole or not, oldest first."""
    places = [place for place in folder.glob("*/") if re.fullmatch("[1-9][0-9]*", place.name)]
    return sorted(places, key=lambda place: int(place.name))


def save(history: History, folder: Path) -> None:
    """Writes a history into the folder with the states; a reader sees the old one or the new one."""
    replace_file(folder / STATES, json.dumps(asdict(history), indent=1).encode())


@dataclass(frozen=True)
class Staged:
    """A complete, indexed state of a channel that no reader of it sees yet."""

    channel: Path  # that it is meant for
    path: Path  # its folder; clients can use it like a channel
    packages: Mapping[str, int]  # subdir -> how many
    size: int  # bytes of all packages
    changed: bool  # whether it differs from what the channel holds now
    earlier: Mapping[str, str] = field(default_factory=dict)  # file name of a package of another build -> id of that


def stage(
    built: Iterable[Built],
    channel: Path,
    holds: Callable[[Path, str], bool] = holds,
    *,
    without: Collection[str] = (),
) -> Staged:
    """Makes the next state of a channel.

    What the channel holds from other builds stays, but for the builds of `without`; what it held from these builds is
    replaced. `holds` says whether a package has a sha256.

    Raises:
        ChannelBroken: A package of another build is not what that build put into the channel.
        NoSpace: The disk is full; the channel in place stays as it was.
    """
    built, current = tuple(built), channel.resolve()
    before, indexed = _builds(current), _indexed(current)
    made = {b.id: {"key": b.key, "packages": dict(b.sha256)} for b in built}
    kept = {i: note for i, note in before.items() if i not in without}
    wanted = {i: note for i, note in kept.items() if all((current / n).exists() for n in note["packages"])} | made
    stated = {n: sha256 for note in (*wanted.values(), *made.values()) for n, sha256 in note["packages"].items()}
    fresh = {name: b.home / name for b in built for name in b.records}
    # What other builds made is taken from the channel itself: the cache may have been deleted since.
    files = {n: fresh.get(n, current / n) for n in stated}
    records = {**indexed, **{n: record for b in built for n, record in b.records.items()}}
    damaged = {
        n
        for n, sha256 in stated.items()
        if n not in records or (sha256 and not (records[n]["sha256"] == sha256 and holds(current / n, sha256)))
    }
    if lost := sorted(damaged - fresh.keys()):
        raise ChannelBroken(
            f"{channel} has other content than was built under {', '.join(lost)}",
            "build that again, with the options of before, or return to a state that `ctk channel history` lists",
        )
    exports = {name: {"run_exports": records[name].get("run_exports", {})} for name in files}
    subdirs = frozenset({NOARCH, *(name.partition("/")[0] for name in files)})
    index = ChannelIndex({name: records[name] for name in files}, exports, subdirs)
    changed = wanted != before or bool(damaged) or not shows(current, index, built=True)
    path = current
    if changed:
        with disk_errors(channel.parent):
            path = _assemble(channel, wanted, files, index)
    counts = dict(sorted(Counter(name.partition("/")[0] for name in files).items()))
    earlier = {Path(n).name: i for i, note in wanted.items() for n in note["packages"] if n not in fresh}
    return Staged(channel, path, counts, sum(f.stat().st_size for f in files.values()), changed, earlier)


def commit(staged: Staged) -> None:
    """Lets readers see a staged state. The states before it stay on disk until `KEPT` newer ones were staged."""
    if staged.changed:
        known = history(staged.channel)
        _show(known.with_state(int(staged.path.name), sum(staged.packages.values())), staged.channel)


def history(channel: Path) -> History:
    """The states of a built channel that can be returned to.

    Raises:
        UnknownName: It is no built channel.
        ChannelBroken: The note of its states is damaged.
    """
    states, current = _states(channel), None
    if channel.exists():
        if not channel.is_symlink() or channel.resolve().parent != states.resolve():
            step = "name one, or a folder that was published to"
            raise UnknownName(f"{channel} is no channel that ctk built, so it has no states", step)
        current = int(channel.resolve().name)
    known = load(states)
    known = replace(known, states=tuple(s for s in known.states if (states / str(s.number)).is_dir()), current=current)
    if current is not None and known.shown is None:  # a killed run showed it and did not note it
        known = replace(known, current=known.states[-1].number if known.states else None)
        known = known.with_state(current, len(packages(channel)))
    return known


def rollback(channel: Path, number: int | None = None) -> State:
    """Lets readers see an older state of a built channel again, by default the one before; the newer ones stay.

    Raises:
        UnknownName: It is not kept, or this is no built channel.
        ChannelBroken: It is not whole; nothing was changed.
    """
    known = history(channel)
    state = known.target(number, channel)
    folder = _states(channel) / str(state.number)
    if len(packages(folder)) != state.packages or not (folder / "noarch" / REPODATA).exists():
        raise ChannelBroken(f"state {state.number} of {channel} is not whole", "name another with --to, or build again")
    _show(replace(known, current=state.number), channel)
    return state


def is_built(place: Path) -> bool:
    """Whether a real path is a state of a built channel, the folder of its states, or anything in them."""
    return any(re.fullmatch(r"\..+-states", folder.name) for folder in (place, *place.parents))


def packages(channel: Path) -> list[Path]:
    """Every package of a channel, as files of its current state."""
    return sorted(channel.resolve().glob("*/*.conda"))


def _show(known: History, channel: Path) -> None:
    """Lets readers see the current state of a history, and notes it."""
    link = channel.with_name(f".{channel.name}.new")
    with disk_errors(channel.parent):
        link.unlink(missing_ok=True)
        target = os.path.relpath(_states(channel) / str(known.current), channel.parent)
        link.symlink_to(target, target_is_directory=True)
        os.replace(link, channel)
        # Written after the link: what a killed run did not write is read off the link.
        save(known, _states(channel))


def _states(channel: Path) -> Path:
    return channel.parent / f".{channel.name}-states"


def _builds(state: Path) -> dict[str, dict[str, Any]]:
    """Build id -> ``key`` and ``packages`` (name below the state -> sha256) of what made a state, noted beside it."""
    raw = read_json(state.with_suffix(".json"))
    notes = [(i, note, listed_packages(note)) for i, note in raw.items()] if isinstance(raw, dict) else []
    return {i: {"key": note.get("key"), "packages": names} for i, note, names in notes if names is not None}


def _indexed(state: Path) -> Records:
    """The records of a state's index; none where it is damaged."""
    try:
        return read_index(state).records
    except PublishFailed:
        return {}


def _assemble(channel: Path, builds: Mapping[str, Any], files: Mapping[str, Path], index: ChannelIndex) -> Path:
    """The folder of a new state, with its index and the note of its builds; removes states that are too old."""
    states, known = _states(channel), history(channel)
    make_folder(states)
    kept = {s.number for s in known.kept(KEPT - 1).states}  # with the one that is made now, KEPT
    number = known.next_number
    for place in numbered(states):
        number = max(number, int(place.name) + 1)
        if int(place.name) not in kept:  # older ones, and what killed runs left
            shutil.rmtree(place, ignore_errors=True)
            place.with_suffix(".json").unlink(missing_ok=True)
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
        write_index(index, state, subdir, FILES, built=True)
    for path in (state, *state.rglob("*")):
        share(path)
    state.with_suffix(".json").write_text(json.dumps(builds, indent=1, sort_keys=True))
    return state
