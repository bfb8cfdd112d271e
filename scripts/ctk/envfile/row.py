"""The answer to a line of a file: its kind, words, and the specs in its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctk.envfile.model import Line, Tool


class Answer(StrEnum):
    """What a line is here."""

    HERE = "here"  # as it asks for it
    OTHER_VERSION = "other-version"  # here, and not in that version
    OTHER_NAME = "other-name"  # here, and called differently
    NOT_BUILT = "not-built"  # recipes and locks here make it; the step builds it
    BASE = "base"  # the base channel has it
    HIDDEN = "hidden"  # the base channel has it, and a package of the same name here hides it
    ELSEWHERE = "elsewhere"  # a channel has it that is not asked
    NOWHERE = "nowhere"  # what it asks for ended
    PIP = "pip"  # a wheel that brings a second CUDA
    LEFT = "left"  # left as it is: nothing is known of it


@dataclass(frozen=True)
class Row:
    """The answer to a line.

    Attributes:
        line: The line.
        answer: Its kind.
        words: What it is here, in words.
        specs: The specs of conda in its place, in any client; None if it stays as it is.
        by_channel: The same where what the base channel has is hidden: specs that name the channel,
            for a client with strict priority. () where that is not needed.
        step: A command that helps, in backticks; or "".
        is_elsewhere: Whether a channel has it that is not asked: it can be written, and not solved.
        is_near: Whether `specs` have another version than the line.
        lock: A command that may lock the version that the line asks for, in backticks; or "".
    """

    line: Line
    answer: Answer
    words: str
    specs: tuple[str, ...] | None = None
    by_channel: tuple[str, ...] = ()
    step: str = ""
    is_elsewhere: bool = False
    is_near: bool = False
    lock: str = ""

    @property
    def asked(self) -> tuple[str, ...]:
        """The specs to solve with; () where pip or nobody has it."""
        if self.is_elsewhere:
            return ()
        if self.by_channel:
            return self.by_channel
        if self.specs is not None:
            return self.specs
        is_there = self.answer in (Answer.HERE, Answer.BASE, Answer.NOT_BUILT, Answer.HIDDEN)
        return (self.line.spec,) if is_there and self.line.tool is Tool.CONDA else ()
