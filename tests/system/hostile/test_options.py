"""Whatever stands in the place of a value, each command answers with words: every option of each,
as typer has them.
"""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import settings

from conftest import ROOT
from ctk.cli import main
from ctk.core import console, errors

ODD = (
    "",
    " ",
    "-",
    "\x1b[31m",
    "\u202e",
    "\uff11\uff13",  # digits of other alphabets
    "\u0661\u0662.\u0664",
    "9" * 30,
    "9" * 5000,
    "-1",
    "nan",
    "1e999",
    "../..",
    "/dev/null",
    "/proc/self/mem",
    "a" * 300,
    "a" * 5000,
    "a/" * 200,
    "\udcff",
    "a\nb",
    "'",
    "$(x)",
    "*",
    "[",
    "{}",
    "%s",
    "==",
    "a==1.*.*",
    "https://",
    "http://[",
    "file://",
    "file:///%00",
)
"""What is none of the values that an option is for, or only looks like one."""


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


COMMANDS = dict(commands(typer.main.get_command(main.app)))


def chosen(param: Any) -> Iterator[str]:
    """The odd values for an option: all with ``--all``, else each option has some, and together
    they have all.
    """
    every = settings.default is not None and settings.default.max_examples > 100
    start = zlib.crc32(param.name.encode())
    for number, odd in enumerate(ODD):
        if every or (number - start) % len(ODD) < 3:
            yield odd


def lines(words: tuple[str, ...], command: Any) -> Iterator[list[str]]:
    """Command lines with an odd value each, and a plain one for all else that is required."""
    values = [
        param
        for param in command.params
        if not getattr(param, "is_flag", False) and param.name != "help"
    ]
    for param in values:
        others = [other for other in values if other is not param and other.required]
        for odd in chosen(param):
            line = [*words]
            for other in others:
                line += [other.opts[0], "x"] if other.param_type_name == "option" else []
            line += [f"{param.opts[0]}={odd}"] if param.param_type_name == "option" else []
            positions = [other for other in values if other.param_type_name == "argument"]
            positions = [other for other in positions if other is param or other.required]
            yield [*line, *(odd if other is param else "x" for other in positions)]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with nothing in it, without an index: what a value lets through finds nothing to
    work with.
    """
    for name in ("recipes", "variants"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")  # no channel answers here, however often it is asked
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(3000)  # a value that has no end
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_odd_value_of_any_option_is_answered_with_words(
    words: tuple[str, ...],
    empty: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for line in lines(words, COMMANDS[words]):
        monkeypatch.setattr("sys.argv", ["ctk", *line])
        console.begin()
        capfd.readouterr()
        code = main._code()
        said = capfd.readouterr().err
        shown = ascii(shlex.join(line))[:300]
        assert code != errors.CtkError.exit_code, f"{shown}: {said}"
        assert "Traceback" not in said and "panicked" not in said, f"{shown}: {said}"
        assert code == 0 or "error: " in said, f"{shown}: {code}"
        assert all(c.isprintable() or c in "\n\t" for c in said), shown


def test_the_lines_are_those_of_every_command() -> None:
    assert {words[0] for words in COMMANDS} == set(main.COMMANDS)
    solve = {line[1].partition("=")[0] for line in lines(("solve",), COMMANDS[("solve",)])}
    assert solve >= {"--driver", "--arch", "--python", "--platform", "--channel", "--base"}


def test_each_odd_value_is_given_to_some_option() -> None:
    names = [param for command in COMMANDS.values() for param in command.params]
    assert {odd for param in names for odd in chosen(param)} == set(ODD)


@pytest.mark.parametrize("words", ["version", "solve cuda-core --json", "doctor"])
def test_a_deleted_working_directory_is_said(words: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = _started(words, lambda: (os.chdir(gone), gone.rmdir()))
    assert done.returncode == errors.NoSpace.exit_code
    assert (
        "the working directory cannot be used: No such file or directory"
        in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("most", [12, 40])
def test_too_few_open_files_are_said(most: int) -> None:
    done = _started(
        "solve cuda-core", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    )
    said = (
        f"error: a process may open {most} files at once here\nnext: raise `ulimit -n`, as in"
        " `ulimit -n 1024`\n"
    )
    assert (done.returncode, done.stderr) == (errors.NoSpace.exit_code, said)


def _started(words: str, before: Any) -> subprocess.CompletedProcess[str]:
    main_line = "from ctk.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", main_line, *words.split()],
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
    )
