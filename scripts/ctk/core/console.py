"""What a command prints: results on stdout, progress on stderr, and with --json one document on stdout."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO, cast

from ctk.core.errors import CtkError, NoSpace, ReaderGone, printable, without_credentials

if TYPE_CHECKING:  # TAB is answered without: it takes longer to be imported than the answer to be found
    from rich.console import Console, RenderableType
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text


@dataclass
class Mode:
    """How one run prints, as its options say; the JSON document, and whether it was printed."""

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


def begin() -> None:
    """Starts a new run, in which no option is set."""
    global _mode
    _mode = Mode()


def finish(error: CtkError | None = None) -> None:
    """Prints the JSON document once, with the error that ended the run; does nothing without --json.

    NoSpace or ReaderGone, where stdout cannot be written, unless there is an error that matters more.
    """
    now = mode()
    # A run may end before the option was read.
    wanted = now.json or (error is not None and "--json" in sys.argv)
    if wanted and not now.printed:
        text = json.dumps(now.document | ({"error": error_as_json(error)} if error else {}), indent=2, default=str)
        try:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            now.printed = True
        except (NoSpace, ReaderGone):
            if error is None:
                raise


def error_as_json(error: CtkError) -> dict[str, Any]:
    """The class, cause, next step and exit code of an error."""
    return {
        "kind": type(error).__name__,
        "cause": error.cause,
        "next": error.step or None,
        "exit_code": error.exit_code,
    }


def print_error(error: CtkError) -> None:
    """Prints the cause and the next step on stderr."""
    from rich.console import Console

    stderr = Console(stderr=True, highlight=False)
    _write(stderr, f"error: {printable(error.cause)}", "bold red")
    if error.step:
        _write(stderr, f"next: {printable(error.step)}")


class StandardStream:
    """Standard output or error. What cannot be written is dropped; of results (`required`) that is an error."""

    def __init__(self, stream: TextIO, required: bool) -> None:
        self._stream, self._required = stream, required
        self._lost: CtkError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._lost is not None:  # half of a result is none
            raise self._lost
        self._try(lambda: self._stream.write(without_credentials(text)))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            # Otherwise Python would try to write the rest at its end, and complain.
            with suppress(OSError, ValueError):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, self._stream.fileno())
                os.close(nothing)
            if self._required:
                cause = f"standard output cannot be written: {error.strerror}"
                self._lost = NoSpace(cause, "look at where it goes, and run the command again")
                if isinstance(error, BrokenPipeError):
                    self._lost = ReaderGone("nobody reads standard output any more")
                raise self._lost from error


def guard() -> None:
    """Makes stdout that cannot be written an error with a cause, and ignores stderr that cannot be written."""
    sys.stdout = cast(TextIO, StandardStream(sys.stdout or _closed(1), required=True))
    sys.stderr = cast(TextIO, StandardStream(sys.stderr or _closed(2), required=False))


def _closed(number: int) -> TextIO:
    """Stands for a stream that was closed before the run (``>&-``): writing to stdout fails, to stderr does nothing.

    It takes the stream's number: otherwise the next opened file would have it, and get what child processes print.
    """
    place = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_WRONLY)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(place, number)
        place = number
    os.set_inheritable(place, True)
    return open(place, "w", encoding="utf-8")


class Reporter:
    """Prints results on `console` (stdout) and progress on `notes` (stderr), as the run's `Mode` allows.

    Progress is a bar where it is `live`, else lines. Results are left out where a command prints them in another form.
    """

    def __init__(self, *, results: bool = True) -> None:
        self.verbose, quiet = mode().verbose, mode().quiet
        self.console = _console(sys.stdout.isatty(), quiet=mode().json or not results)
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
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
    ) -> None:
        """A table of the result; the columns named in `right` are numbers."""
        self.line(title, "bold")  # as a table's own title it would be folded
        self.console.print(fitting(columns, rows, right, self.console))

    def result(self, **values: Any) -> None:
        """Adds keys to the JSON document; without --json nothing is printed of them."""
        mode().document.update(values)

    @contextmanager
    def task(self, title: str, total: float, *, bytes_: bool = False) -> Iterator[Task]:
        """Shows progress of work whose size is known, in bytes or pieces."""
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        size = (DownloadColumn(), TransferSpeedColumn()) if bytes_ else (MofNCompleteColumn(),)
        text, note = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[note]}", markup=False)
        columns = (text, BarColumn(), *size, TimeRemainingColumn(compact=True), TimeElapsedColumn(), note)
        progress = Progress(
            *columns, console=self.notes, transient=True, disable=not self.live, speed_estimate_period=60
        )
        with progress:
            yield Task(self, progress, title, total, bytes_)


class Task:
    """Work whose progress is shown: as a bar, or as a line for each note and every few seconds."""

    def __init__(self, reporter: Reporter, progress: Progress, title: str, total: float, bytes_: bool) -> None:
        self._reporter, self._progress, self._bytes = reporter, progress, bytes_
        self._id = progress.add_task(title, total=total, note="")
        self._last = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        """Says that more of the work is done; thread-safe."""
        fields: dict[str, Any] = {"note": note} if note else {}
        self._progress.update(self._id, advance=amount, **fields)
        now = time.monotonic()
        if not self._reporter.live and (note or now - self._last > 5):
            self._last = now
            (task,) = self._progress.tasks
            unit, name = (1e6, " MB") if self._bytes else (1, "")
            left = f" ({timedelta(seconds=task.time_remaining)} left)" if task.time_remaining else ""
            position = f"{task.completed / unit:.0f}/{(task.total or 0) / unit:.0f}{name}"
            self._reporter.say(f"{task.description} {position}{left}{': ' if note else ''}{note}")


def fitting(
    columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str], console: Console
) -> RenderableType:
    """A table of plain cells for the width there is.

    With a frame, or without one; with names that go on in the next line; as several tables of at least three columns,
    each with the first one; or, where nothing of that has room, one record a row.
    """
    from rich.console import Group
    from rich.padding import Padding

    cells = [["\n".join(map(str.strip, without_credentials(str(cell)).splitlines())) for cell in row] for row in rows]
    for size in range(len(columns), min(3, len(columns)) - 1, -1):
        if table := _narrow_enough(columns[:size], [row[:size] for row in cells], right, console):
            if size == len(columns):
                return table
            rest = [[row[0], *row[size:]] for row in cells]
            return Group(table, "", fitting([columns[0], *columns[size:]], rest, right, console))
    return Group(*(Padding(_record(columns, row), (0, 0, 1, 0)) for row in cells))


def _narrow_enough(
    columns: Sequence[str], cells: list[list[str]], right: Sequence[str], console: Console
) -> Table | None:
    """The widest form of a table that the console has room for; None where it has for none."""
    from rich.table import Table

    unlimited = console.options.update(width=10**4)

    def fits(table: Table, bound: str) -> bool:
        return bool(getattr(console.measure(table, options=unlimited), bound) <= console.width)

    framed, close = _table(columns, cells, right, Table()), _close_table(columns, cells, right)
    for bound in ("maximum", "minimum"):
        for table in (framed, close):
            if fits(table, bound):
                return table
    longest = max((len(word) for row in cells for cell in row for word in cell.split()), default=0)
    for width in range(longest - 1, _SHORTEST, -1):
        folded = [[re.sub(r"\S+", lambda m: _folded(m[0], width), cell) for cell in row] for row in cells]  # noqa: B023
        if fits(table := _close_table(columns, folded, right), "minimum"):
            return table
    return None


_SHORTEST = 11  # columns: a name in shorter pieces is none that anybody reads


def _folded(word: str, width: int) -> str:
    """A name as lines of about this width: it goes on behind a hyphen, underscore or slash, or before a capital."""
    lines = [""]
    for piece in re.split(r"(?<=[-_/])|(?<=[a-z])(?=[A-Z])", word):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _close_table(columns: Sequence[str], cells: list[list[str]], right: Sequence[str]) -> Table:
    """A table without a frame; headings of several words, or of parts between hyphens, are below each other."""
    from rich import box
    from rich.table import Table

    narrow = {name: re.sub(r"(?<=-)(?=.)|(?<=\w) +(?=\w)", "\n", name) for name in columns}
    close = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    return _table(list(narrow.values()), cells, [narrow[name] for name in right if name in narrow], close)


def _table(columns: Sequence[str], cells: list[list[str]], right: Sequence[str], table: Table) -> Table:
    from rich.text import Text

    for i, name in enumerate(columns):
        # Names, versions and paths are not folded at just any letter: a reader copies them.
        words = all(len(line.split()) < 2 for row in cells for line in row[i].splitlines())
        table.add_column(Text(name), justify="right" if name in right else "left", no_wrap=words, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _record(columns: Sequence[str], row: Sequence[str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    record = Table.grid(padding=(0, 2))
    record.add_column(min_width=min(max(map(len, columns)), 24), style="bold")
    record.add_column(overflow="fold", ratio=1)
    for name, cell in zip(columns, row, strict=True):
        if cell:
            record.add_row(Text(name), Text(cell))
    return record


def _console(terminal: bool, *, quiet: bool, stderr: bool = False) -> Console:
    from rich.console import Console

    # Outside a terminal nobody sees the width: 120 columns keep a table's rows whole in logs.
    width = None if terminal or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, quiet=quiet, width=width, highlight=False)


def _write(console: Console, text: str | Text, style: str | None = None) -> None:
    """A line or several: folded between words on a terminal, and elsewhere as they are."""
    text = without_credentials(text) if isinstance(text, str) else text  # before it is folded
    console.print(text, style=style, markup=False, soft_wrap=not console.file.isatty())


def count(number: int, noun: str) -> str:
    """``1 build``, ``2 builds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listing(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join([part for part in (", ".join(words[:-1]), words[-1]) if part]) if words else "none"


def megabytes(size: float) -> str:
    """Bytes as megabytes with a sensible number of digits."""
    return f"{size / 1e6:.1f}" if size < 1e8 else f"{size / 1e6:.0f}"
