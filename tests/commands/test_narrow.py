"""What is printed where there is little room, no colour, or no terminal at all."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from conftest import ROOT, ctk
from ctk.core.pace import Pace
from ctk.core.paths import Workspace
from ctk.core.tables import fitting

ESCAPES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[[\d;]*(3|4|9|10)\d(?=[;m])")  # bold is none
WORDS = st.text(st.sampled_from("abc-. "), max_size=30)


def shown(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int, right: Sequence[str] = ()) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(fitting(columns, rows, right, width))
    return file.getvalue().splitlines()


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_no_line_of_a_table_is_longer_than_the_terminal_and_no_word_is_folded_that_fits(rows: list[list[str]]) -> None:
    columns = [f"heading {n}" for n in range(len(rows[0]))]
    lines = shown(columns, rows, 60)
    assert max(map(len, lines), default=0) <= 60
    found = set(" ".join(lines).split())
    for row in rows:
        for cell in row:
            assert {word for word in cell.split() if len(word) < 30} <= found


def test_a_table_that_fits_has_its_frame_and_a_wider_one_goes_without() -> None:
    rows = [["cuda-version", "13.5", "native_100", "channel"]]
    columns = ["package", "version", "build", "channel"]
    assert shown(columns, rows, 80)[0].startswith("┏")
    close = shown(columns, rows, 42)
    assert close[-1].split() == rows[0] and "│" not in "".join(close)


def test_what_fits_in_no_way_is_a_record_for_each_row() -> None:
    rows = [["a" * 30, "b" * 30, ""], ["c" * 30, "", "d" * 70]]
    lines = shown(["one", "two", "three"], rows, 50)
    assert [line.split()[0] for line in lines if line.strip()][:4] == ["one", "two", "one", "three"]
    assert max(map(len, lines)) <= 50


def in_terminal(*words: str, columns: int = 80, **environment: str) -> tuple[int, str]:
    """What a command prints in a terminal, with all its escapes."""
    process, terminal = pty.fork()
    if process == 0:
        kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI")}
        code = "from ctk.cli.main import main; main()"
        setting = {"COLUMNS": str(columns), "TERM": "xterm-256color", "CTK_ROOT": str(ROOT), **environment}
        os.execve(sys.executable, [sys.executable, "-c", code, *words], {**kept, **setting})
    said = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not piece:
            break
        said += piece
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said.decode().replace("\r\n", "\n")


PLAN = ("plan", "--release", "13.5", "--recipe", "cuda-cudart")
LOOKED_AT = (("release", "list"), PLAN, ("audit", "--list"), ("solve", "no-such-package", "--planned"))


@pytest.mark.parametrize("words", LOOKED_AT, ids=" ".join)
def test_a_terminal_of_80_columns_folds_nothing_by_itself(words: tuple[str, ...]) -> None:
    _, said = in_terminal(*words)
    lines = ESCAPES.sub("", said).splitlines()
    assert lines
    assert max(map(len, lines)) <= 80


def test_colours_are_for_terminals_that_want_them() -> None:
    assert COLOUR.search(in_terminal("no-such-command")[1])
    assert not COLOUR.search(in_terminal("no-such-command", NO_COLOR="1")[1])
    assert not ESCAPES.search(in_terminal("no-such-command", TERM="dumb")[1])
    assert not ESCAPES.search(ctk(Workspace(ROOT), "no-such-command").stderr)
    assert ESCAPES.search(ctk(Workspace(ROOT), "no-such-command", FORCE_COLOR="1").stderr)


@pytest.mark.parametrize("name", ["build", "release add", "env pack"])
def test_the_help_is_the_same_text_in_a_terminal_and_in_a_pipe(name: str) -> None:
    code, said = in_terminal(*name.split(), "--help")
    assert code == 0
    assert ESCAPES.sub("", said) == ctk(Workspace(ROOT), *name.split(), "--help", COLUMNS="80").stdout


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_is_told_once_it_can_be_known_and_not_before() -> None:
    clock = Clock()
    pace = Pace(100, clock=clock)
    assert (str(pace), pace.position) == ("", "0/100")
    clock.now = 10.0
    assert str(pace) == ""  # nothing was done
    pace.advance(10)
    assert str(pace) == ""  # one piece says nothing of the next
    clock.now = 20.0
    pace.advance(10)
    assert str(pace) == "1.0/s, 1:20 left"
    clock.now = 100.0
    pace.advance(80)
    assert (str(pace), pace.position) == ("", "100/100")  # nothing is left


def test_the_pace_forgets_what_was_long_ago() -> None:
    clock = Clock()
    pace = Pace(1e9, bytes_=True, clock=clock)
    for second in range(1, 100):
        clock.now = float(second)
        pace.advance(1e6)
    for second in range(100, 200):
        clock.now = float(second)
        pace.advance(2e6)
    assert str(pace) == "2.0 MB/s, 5:50 left"
    assert pace.position == "299/1000 MB"


def test_the_time_left_of_slow_work_has_hours() -> None:
    clock = Clock()
    pace = Pace(100, clock=clock)
    for _ in range(3):
        clock.now += 20.0
        pace.advance(0.1)
    assert str(pace) == "0.3/min, 5:32:20 left"
