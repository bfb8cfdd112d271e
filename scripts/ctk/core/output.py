"""What a run prints, and where: results on stdout, what happens meanwhile on stderr, and with --json one document.

A command's options and those of the groups around it set the `Mode` of the run; whoever prints asks `mode()`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from ctk.core.errors import CtkError, NoSpace, ReaderGone


@dataclass
class Mode:
    """How one run speaks.

    Attributes:
        json: stdout gets one JSON document and nothing else.
        level: -1 for results and errors only, 0 for what happens as well, 1 for each step of it.
        debug: Errors come with a traceback.
        document: What the JSON document will hold.
        printed: Whether it was printed.
    """

    json: bool = False
    level: int = 0
    debug: bool = False
    document: dict[str, Any] = field(default_factory=dict)
    printed: bool = False

    @property
    def quiet(self) -> bool:
        return self.level < 0

    @property
    def verbose(self) -> bool:
        return self.level > 0


_mode = Mode()


def mode() -> Mode:
    """That of this run."""
    return _mode


def begin() -> None:
    """A new run, in which nothing is set yet."""
    global _mode
    _mode = Mode()


def add(values: Mapping[str, Any]) -> None:
    """Adds keys to the JSON document of this run; without --json nothing is printed of them."""
    mode().document.update(values)


def finish(error: CtkError | None = None) -> None:
    """Prints the JSON document, with the error that ended the run; once, and only with --json.

    What a command found before it failed stays in the document.

    Raises:
        NoSpace: Standard output cannot be written, and no error is what it should have got.
        ReaderGone: Nobody reads it, and no error is what it should have got.
    """
    now = mode()
    # What ends a run early may come before the option was read.
    wanted = now.json or (error is not None and "--json" in sys.argv)
    if wanted and not now.printed:
        said = {} if error is None else {"error": as_json(error)}
        text = json.dumps({**now.document, **said}, indent=2, default=str)
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            now.printed = True
        except (NoSpace, ReaderGone):
            if error is None:
                raise


def as_json(error: CtkError) -> dict[str, Any]:
    """An error in the document: its class, cause, next step and exit code."""
    return {
        "kind": type(error).__name__,
        "cause": error.cause,
        "next": error.step or None,
        "exit_code": error.exit_code,
    }


def guard() -> None:
    """From here on stdout that cannot be written is an error of its own, and stderr that cannot be written is none."""
    sys.stdout = _guarded(sys.stdout, _Results, 1)
    sys.stderr = _guarded(sys.stderr, _Notes, 2)


def _guarded(stream: TextIO | None, kind: type[_Results | _Notes], number: int) -> TextIO:
    if isinstance(stream, kind):
        return cast(TextIO, stream)
    return cast(TextIO, kind(stream or _closed(number)))


def _closed(number: int) -> TextIO:
    """Stands for a stream that was closed before the run began (``>&-``): results cannot be written, and notes vanish.

    It takes the stream's number, or the next file that is opened would have it, and get what processes print.
    """
    place = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_WRONLY)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(place, number)
        place = number
    os.set_inheritable(place, True)
    return open(place, "w", encoding="utf-8")


class _Stream:
    """What a stream is, but for its writing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        """What is still to be written goes nowhere, or Python would try once more at its end, and complain."""
        with suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)


class _Notes(_Stream):
    """Standard error: what is said there is no result."""


class _Results(_Stream):
    """Standard output. What failed once goes on failing: half of a result is none."""

    _lost: CtkError | None = None

    def write(self, text: str) -> int:
        if self._lost is not None:
            raise self._lost
        return super().write(text)

    def _failed(self, error: OSError) -> None:
        super()._failed(error)
        self._lost = NoSpace(
            f"standard output cannot be written: {error.strerror}", "look at where it goes, and run the command again"
        )
        if isinstance(error, BrokenPipeError):
            self._lost = ReaderGone("nobody reads standard output any more")
        raise self._lost from error
