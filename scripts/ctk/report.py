"""How long work is shown: progress bars on a terminal, timestamped lines elsewhere, a table at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


class Task(Protocol):
    """One piece of long work."""

    def advance(self, amount: float, note: str = "") -> None: ...


class Reporter:
    """Says what happens, in the form that fits where the output goes."""

    def __init__(self, console: Console | None = None) -> None:
        # Outside a terminal nobody sees the width: 120 columns keep a table's rows whole in logs.
        plain = not sys.stdout.isatty()
        self.console = console or Console(width=120 if plain and "COLUMNS" not in os.environ else None, highlight=False)
        self.live = self.console.is_terminal and "CI" not in os.environ

    def say(self, text: str) -> None:
        """One line of progress."""
        stamp = "" if self.live else time.strftime("%H:%M:%S ")
        self.console.print(f"{stamp}{text}", markup=False, soft_wrap=True)

    @contextmanager
    def task(self, title: str, total: float, *, bytes_: bool = False) -> Iterator[Task]:
        """Shows work of a known size.

        Args:
            title: What is done.
            total: Its size, in bytes or pieces.
            bytes_: Whether the size is in bytes.
        """
        if self.live:
            size = DownloadColumn() if bytes_ else MofNCompleteColumn()
            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                size,
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            ]
            with Progress(*columns, console=self.console, transient=True) as progress:
                yield _Bar(progress, progress.add_task(title, total=total, note=""))
        else:
            yield _Lines(self, title, total, bytes_)

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
    ) -> None:
        """A table of plain cells; the columns named in `right` are numbers."""
        self.console.print(
            title, style="bold", markup=False, soft_wrap=True
        )  # as a table's own title it would be folded
        table = Table()
        for name in columns:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        self.console.print(table)


class _Bar:
    def __init__(self, progress: Progress, task: object) -> None:
        self._progress, self._task = progress, task

    def advance(self, amount: float, note: str = "") -> None:
        self._progress.update(self._task, advance=amount, **({"note": note} if note else {}))


class _Lines:
    """A line for each note; for bytes without notes, a line every few seconds."""

    def __init__(self, reporter: Reporter, title: str, total: float, bytes_: bool) -> None:
        self._reporter, self._title, self._total, self._bytes = reporter, title, total, bytes_
        self._done = 0.0
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        self._done += amount
        now = time.monotonic()
        if note or now - self._last > 5:
            self._last = now
            self._reporter.say(f"{self._title} {self._position()}{': ' if note else ''}{note}")

    def _position(self) -> str:
        if self._bytes:
            return f"{self._done / 1e6:.0f}/{self._total / 1e6:.0f} MB"
        return f"{self._done:.0f}/{self._total:.0f}"


def count(number: int, noun: str) -> str:
    """``1 build``, ``2 builds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def megabytes(size: float) -> str:
    """Bytes as megabytes with a sensible number of digits."""
    return f"{size / 1e6:.1f}" if size < 1e8 else f"{size / 1e6:.0f}"
