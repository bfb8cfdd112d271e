"""Where results go: a reader that has enough ends a command, and --debug adds a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from conftest import ROOT, ctk
from ctk.core import errors
from ctk.core.checkout import Workspace

HERE = Workspace(ROOT)


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_pipe_whose_reader_has_enough_ends_the_command_silently(options: str) -> None:
    main = f"{sys.executable} -c 'from ctk.cli.main import main; main()'"
    line = (  # gone before anything is written
        f"{main} check --list {options} | true; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{errors.ReaderGone.exit_code}\n", "")


def test_debug_adds_a_traceback_and_takes_nothing_away() -> None:
    words = "build x"
    plain, debug = ctk(HERE, *words.split()), ctk(HERE, "--debug", *words.split())
    assert debug.returncode == plain.returncode
    assert debug.stderr.startswith("Traceback ") and debug.stderr.endswith(plain.stderr)
    document: dict[str, Any] = json.loads(ctk(HERE, "--debug", "--json", *words.split()).stdout)
    assert document["error"]["exit_code"] == plain.returncode


@pytest.mark.parametrize("words", ["check --list", "version --json", "solve --help", "--version"])
@pytest.mark.parametrize(
    ("streams", "why"),
    [
        (">/dev/full", "No space left on device"),
        (">&-", "it is closed"),
        (">&- <&-", "it is closed"),
    ],
)
def test_output_that_cannot_be_written_is_an_error_with_words(
    words: str, streams: str, why: str
) -> None:
    done = redirected(words, streams)
    said = (
        f"error: cannot write standard output: {why}\nnext: send it to a file with room, or to"
        " /dev/null\n"
    )
    assert (done.returncode, done.stderr) == (errors.NoSpace.exit_code, said)


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("words", ["check --list", "version --json"])
def test_notes_that_cannot_be_written_end_no_work(words: str, streams: str) -> None:
    done = redirected(words, streams)
    assert (done.returncode, done.stdout) == (0, redirected(words, "").stdout)


@pytest.mark.parametrize("streams", [">/dev/full", ">&-"])
def test_an_error_keeps_its_words_and_its_code_where_its_document_cannot_be_written(
    streams: str,
) -> None:
    done = redirected("build x --json", streams)
    assert done.returncode == errors.UnknownName.exit_code
    assert done.stderr.startswith("error: unknown package 'x'\nnext: ")


def redirected(words: str, streams: str) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -c 'from ctk.cli.main import main; main()' {words} {streams}"
    return subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
