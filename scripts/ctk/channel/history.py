"""The history of a published folder: the states that readers saw, kept to return to one."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from ctk.core.errors import ChannelBroken, UnknownName
from ctk.core.files import replace_file

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

    def with_state(self, packages: int, now: datetime) -> History:
        """With one more state, which readers see from now on."""
        number = self.next_number
        state = State(number, self.current, now.isoformat(timespec="seconds"), packages)
        return replace(self, states=(*self.states, state), current=number)

    def until(self, now: str) -> History:
        """With no state of the future: what a clock that was wrong said was made `now`."""
        states = (replace(s, made=min(s.made, now, key=datetime.fromisoformat)) for s in self.states)
        return replace(self, states=tuple(states))

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
            step = f"see `ctk rollback {channel}`"
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
