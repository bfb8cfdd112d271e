"""How a run is shown: results on stdout, and on stderr what happens, as bars on a terminal and as lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Task as RichTask
from rich.text import Text

from ctk.core import output
from ctk.core.pace import Pace
from ctk.core.tables import fitting


class Task(Protocol):
    """One piece of long work."""

    def advance(self, amount: float, note: str = "") -> None: ...


class Reporter:
    """Says what is found and what happens, in the form that the run's `output.Mode` and the terminal ask for.

    Attributes:
        console: For results, on stdout; silent with --json.
        notes: For what happens, on stderr; silent with -q.
        live: Whether progress is drawn, and not written as lines.

    Args:
        results: Whether results are shown at all, where a command prints them in a form of its own.
    """

    def __init__(self, *, results: bool = True) -> None:
        mode = output.mode()
        self.verbose = mode.verbose
        self.console = _console(sys.stdout.isatty(), quiet=mode.json or not results)
        self.notes = _console(sys.stderr.isatty(), quiet=mode.quiet, stderr=True)
        drawn = sys.stderr.isatty() and not self.notes.is_dumb_terminal
        self.live = drawn and not mode.quiet and "CI" not in os.environ

    def say(self, text: str) -> None:
        """A line of what happens."""
        stamp = "" if self.live else time.strftime("%H:%M:%S ")
        write(self.notes, f"{stamp}{text}")

    def detail(self, text: str) -> None:
        """A line that only -v shows."""
        if self.verbose:
            self.say(text)

    def line(self, text: str | Text, style: str | None = None) -> None:
        """A line of the result, however long."""
        write(self.console, text, style)

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
    ) -> None:
        """A part of the result: plain cells; the columns named in `right` are numbers."""
        self.line(title, "bold")  # as a table's own title it would be folded
        self.console.print(fitting(columns, rows, right, self.console.width))

    def result(self, **values: Any) -> None:
        """What the JSON document has of the result, by key: nothing is printed of it without --json."""
        output.add(values)

    @contextmanager
    def task(self, title: str, total: float, *, bytes_: bool = False) -> Iterator[Task]:
        """Shows work of a known size, with its pace and the time that is left, as soon as they can be known.

        Args:
            title: What is done.
            total: Its size, in bytes or pieces.
            bytes_: Whether the size is in bytes.
        """
        pace = Pace(total, bytes_=bytes_)
        if self.live:
            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                _PaceColumn(pace),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            ]
            with Progress(*columns, console=self.notes, transient=True) as progress:
                yield _Bar(progress, progress.add_task(title, total=total, note=""), pace)
        else:
            yield _Lines(self, title, pace)


def _console(terminal: bool, *, quiet: bool, stderr: bool = False) -> Console:
    # Outside a terminal nobody sees the width: 120 columns keep a table's rows whole in logs.
    width = None if terminal or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, quiet=quiet, width=width, highlight=False)


def write(console: Console, text: str | Text, style: str | None = None) -> None:
    """A line or several: folded between words on a terminal, and elsewhere as they are."""
    console.print(text, style=style, markup=False, soft_wrap=not console.file.isatty())


class _PaceColumn(ProgressColumn):
    """``34/560 MB 3.4 MB/s, 0:32 left``."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: RichTask) -> Text:
        return Text(f"{self._pace.position} {self._pace}".rstrip())


class _Bar:
    def __init__(self, progress: Progress, task: TaskID, pace: Pace) -> None:
        self._progress, self._task, self._pace = progress, task, pace

    def advance(self, amount: float, note: str = "") -> None:
        self._pace.advance(amount)
        fields: dict[str, Any] = {"note": note} if note else {}
        self._progress.update(self._task, advance=amount, **fields)


class _Lines:
    """A line for each note, and without notes one every few seconds."""

    def __init__(self, reporter: Reporter, title: str, pace: Pace) -> None:
        self._reporter, self._title, self._pace = reporter, title, pace
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        self._pace.advance(amount)
        now = time.monotonic()
        if note or now - self._last > 5:
            self._last = now
            pace = f" ({self._pace})" if str(self._pace) else ""
            self._reporter.say(f"{self._title} {self._pace.position}{pace}{': ' if note else ''}{note}")


def count(number: int, noun: str) -> str:
    """``1 build``, ``2 builds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def megabytes(size: float) -> str:
    """Bytes as megabytes with a sensible number of digits."""
    return f"{size / 1e6:.1f}" if size < 1e8 else f"{size / 1e6:.0f}"
