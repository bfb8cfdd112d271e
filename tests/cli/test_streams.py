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
    line = f"{main} check --list {options} | true; echo ${{PIPESTATUS[0]}}"  # gone before anything is written
    done = subprocess.run(
        ["bash", "-c", line], env={**os.environ, "CTK_ROOT": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{errors.ReaderGone.exit_code}\n", "")


def test_debug_adds_a_traceback_and_takes_nothing_away() -> None:
    words = "build x"
    plain, debug = ctk(HERE, *words.split()), ctk(HERE, "--debug", *words.split())
    assert debug.returncode == plain.returncode
    assert debug.stderr.startswith("Traceback ") and debug.stderr.endswith(plain.stderr)
    document: dict[str, Any] = json.loads(ctk(HERE, "--debug", "--json", *words.split()).stdout)
    assert document["error"]["exit_code"] == plain.returncode
