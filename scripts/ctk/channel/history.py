"""The states that a channel had, kept so that it can return to one: for built channels and for published folders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ctk.core.errors import ChannelBroken, UnknownName
from ctk.core.files import replace_file


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
        kept = f"kept are {_listed(by_number)}" if by_number else "no state is kept"
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
        channel: Whose they are.
        packages: Says how many packages the state in a folder has.
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


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
