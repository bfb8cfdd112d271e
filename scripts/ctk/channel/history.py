"""The states of a channel: numbered folders, and the history that a published folder keeps."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Set
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from ctk.core.errors import ChannelBroken, UnknownName
from ctk.core.files import NotPlain, read_plain

STATES = "history.json"
"""The file of a history, in the folder that has each state under its number."""


@dataclass(frozen=True)
class State:
    """A state that readers saw."""

    number: int  # counts up; that of a kept state is never reused
    before: int | None  # the number of the state that readers saw before; None for the first state
    made: str  # ISO 8601 in UTC, for display
    packages: int  # the number of packages in the index


@dataclass(frozen=True)
class History:
    """The states that are kept, oldest first, and the number of the state that readers see."""

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
        """The history with a new state, which readers see from now on."""
        number = self.next_number
        state = State(number, self.current, now.isoformat(timespec="seconds"), packages)
        return replace(self, states=(*self.states, state), current=number)

    def until(self, now: str) -> History:
        """The history without times after `now`, which a wrong clock stated: they become `now`."""
        states = (
            replace(s, made=min(s.made, now, key=datetime.fromisoformat)) for s in self.states
        )
        return replace(self, states=tuple(states))

    def kept(self, count: int) -> History:
        """The history with only the newest states and the current state."""
        newest = {s.number for s in self.states[-count:]} | {self.current}
        return self.without({s.number for s in self.states} - newest)

    def without(self, numbers: Set[int]) -> History:
        """The history without some states, which are no longer a `before` either."""
        states = (s for s in self.states if s.number not in numbers)
        return replace(
            self,
            states=tuple(
                replace(s, before=None if s.before in numbers else s.before) for s in states
            ),
        )

    def target(self, number: int | None, channel: str, step: str = "") -> State:
        """The state to return to: by default the state before the current one.

        Args:
            number: The number of the state.
            channel: How messages call the channel.
            step: What to do if it has no such state; without it, to look at the states.

        Raises:
            UnknownName: The state is not kept, or does not exist.
        """
        by_number = {s.number: s for s in self.states}
        kept = (
            f"kept are {', '.join(map(str, sorted(by_number)))}"
            if by_number
            else "no state is kept"
        )
        if number is None:
            number = self.shown.before if self.shown else None
            if number is None:
                raise UnknownName(
                    f"{channel} has no state before the one it shows; {kept}", "name one with --to"
                )
        if number not in by_number:
            step = step or f"see `ctk rollback {shlex.quote(channel)}`"
            raise UnknownName(f"{channel} has no state {number}; {kept}", step)
        return by_number[number]


Note = TypeVar("Note")


def read_note(file: Path, kind: type[Note], lost: str) -> Note | None:
    """The content of a note of a published folder, or None without the file.

    Args:
        file: The note.
        kind: The type of its content.
        lost: The consequence of deleting the file, for the error's next step.

    Raises:
        ChannelBroken: The file is damaged. A run without it would overwrite states that are kept.
    """
    try:
        return TypeAdapter(kind).validate_json(read_plain(file))
    except FileNotFoundError:
        return None
    except (ValidationError, NotPlain) as error:
        why = error.strerror if isinstance(error, NotPlain) else error.errors()[0]["msg"]
        raise ChannelBroken(
            f"{file} cannot be read: {why}",
            f"put it back from a copy, or delete it (rm {shlex.quote(str(file))}): then {lost}",
        ) from None


def load(folder: Path) -> History:
    """The history in a folder of states; an empty history without the file.

    Raises:
        ChannelBroken: The file is damaged.
    """
    return (
        read_note(
            folder / STATES, History, "its states are forgotten, and what readers see is kept"
        )
        or History()
    )


def numbered(folder: Path) -> list[Path]:
    """The folders of states, complete or not, oldest first."""
    places = [place for place in folder.glob("*/") if re.fullmatch("[1-9][0-9]*", place.name)]
    own = [place for place in places if not place.is_symlink()]  # no run makes a link
    return sorted(own, key=lambda place: int(place.name))


def dump(history: History) -> bytes:
    """The content of the file of a history."""
    return json.dumps(asdict(history), indent=1).encode()
