"""The states that a channel had, kept so that it can return to one: for built channels and for published folders."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ctk.durable import replace_file
from ctk.errors import UnknownName


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
        current = by_number.get(self.current) if self.current is not None else None
        kept = f"kept are {_listed(by_number)}" if by_number else "no state is kept"
        if number is None:
            number = current.before if current else None
            if number is None:
                raise UnknownName(f"{self.channel} has no state before the one it shows; {kept}", "name one with --to")
        if number not in by_number:
            raise UnknownName(
                f"{self.channel} has no state {number}; {kept}", f"see `ctk channel history {self.channel}`"
            )
        if number == self.current:
            raise UnknownName(f"{self.channel} shows state {number} already; {kept}", "name another with --to")
        return by_number[number]


def load(file: Path, channel: Path) -> History:
    """The history that a file has; an empty one where there is none that can be read."""
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        return History(channel, tuple(State(**s) for s in raw["states"]), raw["current"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return History(channel)


def save(history: History, file: Path) -> None:
    """Writes a history; a reader sees the old one or the new one."""
    content = {"current": history.current, "states": [asdict(s) for s in history.states]}
    replace_file(file, json.dumps(content, indent=1).encode())


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
