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
from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, fitting

ESCAPES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[[\d;]*(3|4|9|10)\d(?=[;m])")  # bold is none
NAMES = st.text(st.sampled_from("abc-."), max_size=20)
SENTENCES = st.text(st.sampled_from("abc-. "), max_size=60)


def shown(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(fitting(columns, rows, (), console))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@given(st.lists(st.tuples(NAMES, SENTENCES, NAMES), min_size=1, max_size=4), st.sampled_from([100, 120]))
def test_no_line_of_a_table_is_longer_than_the_terminal_and_no_name_is_folded(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    lines = shown(["a name", "what", "another-name"], rows, width)
    assert max(map(len, lines)) <= width
    words = set(" ".join(lines).split())
    assert {name for first, _, last in rows for name in (first, last) if name} <= words
    letters = "".join(re.sub(r"[\s│┃─━]", "", line) for line in lines)
    assert sum(letters.count(c) for c in "abc") >= sum(cell.count(c) for row in rows for cell in row for c in "abc")


@given(st.lists(st.tuples(NAMES, SENTENCES, NAMES, NAMES), min_size=1, max_size=4), st.integers(40, 60))
def test_nothing_is_lost_however_narrow_a_table_is(rows: list[tuple[str, str, str, str]], width: int) -> None:
    lines = shown(["a name", "what", "another-name", "last"], rows, width)
    assert max(map(len, lines)) <= width
    assert sum("".join(lines).count(c) for c in "bc") >= sum(
        cell.count(c) for row in rows for cell in row for c in "bc"
    )


def test_a_table_becomes_closer_then_folds_its_names_then_is_split_and_then_it_is_records() -> None:
    rows = [["cuda-version", "13.5", "native_100", "channel"]]
    columns = ["package", "version", "build", "channel"]
    assert shown(columns, rows, 80)[0].startswith("┏")
    close = shown(columns, rows, 42)
    assert close[-1].split() == rows[0] and "│" not in "".join(close)
    folded = shown(["build", "size"], [["cuda-cudart-static_linux-64-cuda13.5", "3.1"]], 30)
    assert [line.split() for line in folded[2:]] == [["cuda-cudart-static_", "3.1"], ["linux-64-cuda13.5"]]
    split = [
        line.split() for line in shown(["first", "b" * 9, "c" * 9, "d" * 9, "e" * 9], [[*"12345"]], 40) if line.strip()
    ]
    assert [split[0], split[2]] == [["first", "b" * 9, "c" * 9, "d" * 9], [*"1234"]]
    assert [word for line in split[3:] for word in line if word.isalnum()] == ["first", "e" * 9, "1", "5"]
    rows = [["a" * 30, "b" * 30, ""], ["c" * 30, "", "d" * 70]]
    lines = shown(["one", "two", "three"], rows, 50)
    assert [line.split()[0] for line in lines if line.strip()][:4] == ["one", "two", "one", "three"]
    assert max(map(len, lines)) <= 50


@pytest.mark.parametrize(
    "words",
    [
        "plan --release 13.5 --recipe cuda-cudart",
        "release list",
        "audit --list",
        "release diff 13.4 13.5 --no-binaries",
    ],
)
def test_a_terminal_of_60_columns_keeps_at_least_three_of_a_table(words: str) -> None:
    _, said = in_terminal(*words.split(), columns=60)
    lines = ESCAPES.sub("", said).splitlines()
    assert max(map(len, lines)) <= 60
    rules = [set(line.strip()) for line in lines]
    assert any(rule == {"─"} or "┳" in rule for rule in rules), "its heading has a line below it, or a frame"


def test_in_a_log_progress_is_a_line_with_each_note(capsys: pytest.CaptureFixture[str]) -> None:
    console.begin()
    with Reporter().task("fetching", 5e6, bytes_=True) as task:
        task.advance(1e6)
        task.advance(1e6, "a [file]")
    with Reporter().task("builds", 3) as task:
        task.advance(1, "done")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert re.fullmatch(r"\d\d:\d\d:\d\d fetching 2/5 MB( \(.* left\))?: a \[file\]", said[0])
    assert said[1].endswith(" builds 1/3: done")


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


@pytest.mark.parametrize("words", [PLAN, ("audit", "--list"), ("solve", "no-such-package", "--planned")], ids=" ".join)
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


def test_the_help_is_the_same_text_in_a_terminal_and_in_a_pipe() -> None:
    code, said = in_terminal("env", "pack", "--help")
    assert code == 0
    assert ESCAPES.sub("", said) == ctk(Workspace(ROOT), "env", "pack", "--help", COLUMNS="80").stdout
