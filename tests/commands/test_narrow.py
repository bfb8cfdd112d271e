"""What is printed where there is little room, no colour, or no terminal at all."""

from __future__ import annotations

import io
import os
import pty
import re
import sys

import pytest

from conftest import ROOT, ctk
from ctk.core import console
from ctk.core.checkout import Workspace
from ctk.core.console import Reporter

ESCAPES = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
COLOUR = re.compile(r"\x1b\[[\d;]*(3|4|9|10)\d(?=[;m])")  # bold is none


def test_a_table_breaks_sentences_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    console.begin()
    monkeypatch.setenv("COLUMNS", "30")
    report, name = Reporter(), "cuda-cudart-static_linux-64-cuda13.5"
    report.console.file = io.StringIO()
    report.table("packages", ["build", "what"], [[name, "it is a sentence of some words"]])
    lines = report.console.file.getvalue().splitlines()
    assert any(name in line for line in lines) and len(lines) > 6


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


@pytest.mark.parametrize("words", [("audit", "--list"), ("solve", "no-such-package", "--planned")], ids=" ".join)
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
