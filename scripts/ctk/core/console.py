"""The output of commands: results on stdout, progress on stderr.

With --json, one document on stdout.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from ctk.core.errors import CtkError, NoSpace, printable
from ctk.core.secrets import cleaned, without_credentials

if TYPE_CHECKING:  # completion does not need it, and it is slow to import
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text


# The streams of this process: a reader that has enough ends a command silently, as in all programs.


class _Output(io.FileIO):
    """Standard output: what cannot be written is an error with words."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritten(str(error.strerror)) from None


class _ClosedOutput(io.FileIO):
    """Standard output of a process that was started without it."""

    def write(self, data: Any) -> NoReturn:
        raise _unwritten("it is closed")


class _Notes(io.FileIO):
    """Standard error: a line that cannot be written ends no work."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            return len(data)


def _unwritten(why: str) -> NoSpace:
    return NoSpace(
        f"cannot write standard output: {why}", "send it to a file with room, or to /dev/null"
    )


def use_streams() -> None:
    """Has the streams of this process fail as described above, also those that are closed."""
    closed = [number for number in range(3) if not _is_open(number)]
    # Each gets the lowest free number, which a file of ours would have otherwise.
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)
    sys.stdout = _text(
        _ClosedOutput(1, "w", closefd=False) if 1 in closed else _Output(1, "w", closefd=False)
    )
    sys.stderr = _text(_Notes(2, "w", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO) -> io.TextIOWrapper:
    """A stream for texts, which writes each line to a terminal at once.

    Characters that it lacks are escaped.
    """
    encoding = sys.__stdout__.encoding if sys.__stdout__ else "utf-8"
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered, encoding, "backslashreplace", line_buffering=raw.fileno() == 2 or raw.isatty()
    )


@dataclass
class Mode:
    """The output options of a run, its JSON document, and whether that was printed."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    document: dict[str, Any] = field(default_factory=dict)
    printed: bool = False


_mode = Mode()


def mode() -> Mode:
    """The mode of this run."""
    return _mode


def can_ask() -> bool:
    """Whether a command can ask: someone at a terminal reads its results, and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not mode().json


def begin() -> None:
    """Starts a new run, without options."""
    global _mode
    _mode = Mode()


def finish(error: CtkError | None = None) -> None:
    """Prints the JSON document once, with the error that ended the run; only with --json."""
    now = mode()
    # A run may end before the option was read.
    wanted = now.json or (error is not None and "--json" in sys.argv)
    if wanted and not now.printed:
        document = now.document | ({"error": error_as_json(error)} if error else {})
        # `cleaned` leaves the names of keys, which the guard could take for secrets.
        stdout = sys.stdout.stream if isinstance(sys.stdout, Guarded) else sys.stdout
        stdout.write(f"{json.dumps(cleaned(document), indent=2, default=str)}\n")
        stdout.flush()
        now.printed = True


def error_as_json(error: CtkError) -> dict[str, Any]:
    """The class, cause, next step and exit code of an error."""
    return {
        "kind": type(error).__name__,
        "cause": error.cause,
        "next": error.step or None,
        "exit_code": error.exit_code,
    }


class Guarded:
    """A stream that hides secrets in all that no `Reporter` prints: warnings, tracebacks."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(without_credentials(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guard_streams() -> None:
    """Puts `Guarded` before both standard streams of this process; a stream may be closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Guarded):
            setattr(sys, name, Guarded(stream))


def print_error(error: CtkError) -> None:
    """Prints the cause and the next step on stderr."""
    from rich.console import Console

    stderr = Console(stderr=True, highlight=False)
    _write(stderr, f"error: {printable(error.cause)}", "bold red")
    if error.step:
        _write(stderr, f"next: {printable(error.step)}")


class Reporter:
    """Prints results on stdout (`console`), progress on stderr (`notes`), as the `Mode` allows.

    Progress is a bar if it is `live`, else lines.
    """

    def __init__(self) -> None:
        self.verbose, quiet = mode().verbose, mode().quiet
        self.console = _console(sys.stdout.isatty(), quiet=mode().json)
        self.notes = _console(sys.stderr.isatty(), quiet=quiet, stderr=True)
        drawn = sys.stderr.isatty() and not self.notes.is_dumb_terminal
        self.live = drawn and not quiet and "CI" not in os.environ

    def say(self, text: str) -> None:
        """A line of progress."""
        stamp = "" if self.live else time.strftime("%H:%M:%S ")
        _write(self.notes, f"{stamp}{text}")

    def detail(self, text: str) -> None:
        """A line of progress that only -v shows."""
        if self.verbose:
            self.say(text)

    def line(self, text: str | Text, style: str | None = None) -> None:
        """A line of the result, however long."""
        _write(self.console, text, style)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        right: Sequence[str] = (),
    ) -> None:
        """A table of the result; the columns named in `right` are numbers."""
        self.line(title, "bold")  # as a table's own title it would be folded
        table = table_of(columns, rows, right)
        # The terminal folds too long lines: rich would break names and paths, which a reader
        # copies.
        least = self.console.measure(
            table, options=self.console.options.update(width=10**4)
        ).minimum
        table.width = least if least > self.console.width else None
        self.console.print(table, crop=False)

    def result(self, **values: Any) -> None:
        """Adds keys to the JSON document."""
        mode().document.update(values)

    @contextmanager
    def task(
        self, title: str, total: float, *, of: str = "", bytes_: bool = False
    ) -> Iterator[Task]:
        """Shows the progress of work with a known size, in bytes or in pieces such as `of`."""
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        size: list[ProgressColumn] = [DownloadColumn(), TransferSpeedColumn()]
        if not bytes_:
            size = [MofNCompleteColumn(), TextColumn(of, markup=False)]
        text, note = (
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[note]}", markup=False),
        )
        columns = (
            text,
            BarColumn(),
            *size,
            TimeRemainingColumn(compact=True),
            TimeElapsedColumn(),
            note,
        )
        progress = Progress(
            *columns,
            console=self.notes,
            transient=True,
            disable=not self.live,
            speed_estimate_period=60,
        )
        with progress:
            yield Task(self, progress, printable(title), total, "MB" if bytes_ else of)

    def reading(self, title: str, files: Iterable[Path]) -> AbstractContextManager[Task]:
        """Shows the progress of files that are read, in bytes."""
        return self.task(
            title, sum(file.stat().st_size for file in files if file.is_file()), bytes_=True
        )


class Task:
    """The progress of some work: a bar, or a line for each note and every few seconds."""

    def __init__(
        self, reporter: Reporter, progress: Progress, title: str, total: float, unit: str
    ) -> None:
        self._reporter, self._progress, self._unit = reporter, progress, unit
        self._id = progress.add_task(title, total=total, note="")
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        """Adds to the finished work; thread-safe."""
        fields: dict[str, Any] = {"note": printable(note)} if note else {}
        self._progress.update(self._id, advance=amount, **fields)
        now = time.monotonic()
        if not self._reporter.live and (note or now - self._last > 5):
            self._last = now
            (task,) = self._progress.tasks
            size = 1e6 if self._unit == "MB" else 1
            left = (
                f" ({timedelta(seconds=task.time_remaining)} left)" if task.time_remaining else ""
            )
            total = task.total or 0
            position = f"{task.completed / size:.0f}/{total / size:.0f} {self._unit}".rstrip()
            said = f": {note}" if note else ""
            self._reporter.say(f"{task.description} {position}{left}{said}")


def table_of(
    columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
) -> Table:
    """A table of plain cells; the columns named in `right` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    cells = [[_cell(value) for value in row] for row in rows]
    # Without lines between them, five columns of packages fit into 80 characters.
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(columns):
        words = all(len(line.split()) < 2 for row in cells for line in row[i].splitlines())
        table.add_column(
            Text(name), justify="right" if name in right else "left", no_wrap=words, overflow="fold"
        )
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _cell(value: object) -> str:
    """The text of a cell, which may have several lines."""
    lines = without_credentials(str(value)).split("\n")
    return "\n".join(printable(line.strip()) for line in lines)


def _console(terminal: bool, *, quiet: bool, stderr: bool = False) -> Console:
    from rich.console import Console

    # Logs have no width: 120 columns keep the rows of tables whole.
    width = None if terminal or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, quiet=quiet, width=width, highlight=False)


def _write(console: Console, text: str | Text, style: str | None = None) -> None:
    """Prints lines; a terminal gets them folded between words."""
    if isinstance(text, str):
        text = printable(without_credentials(text))  # before it is folded
    else:
        text.plain = printable(text.plain)
    console.print(text, style=style, markup=False, emoji=False, soft_wrap=not console.file.isatty())


def count(number: int, noun: str) -> str:
    """``1 build``, ``2 builds``."""
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def listing(words: Sequence[str], last: str = "and", most: int = 0) -> str:
    """``a``, ``a and b``, ``a, b and c``; with `most`, a longer list ends with ``5 more``."""
    if most and len(words) > most:
        words = [*words[:most], f"{len(words) - most} more"]
    if not words:
        return "none"
    before = ", ".join(words[:-1])
    return f"{before} {last} {words[-1]}" if before else words[-1]


def megabytes(size: float) -> str:
    """Bytes as megabytes with a sensible number of digits."""
    return f"{size / 1e6:.1f}" if size < 1e8 else f"{size / 1e6:.0f}"
