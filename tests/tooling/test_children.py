"""What a program of a pool's process leaves behind: it is ended when the program has, and not before."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from ctk.core import children

pytestmark = pytest.mark.skipif(
    sys.platform != "linux",
    reason="it looks into Linux's /proc, and only on Linux packages are built",
)


def _output(script: str) -> str:
    """Read to its end, as rattler-build reads a script's."""
    return subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60 & echo $!",  # holds the output open
        "setsid sleep 60 >/dev/null & echo $!",  # is a server
        # One that the program uses is not ended while it does.
        "left=$(sleep 60 >/dev/null & echo $!); sleep 1; kill -0 $left; echo $left",
    ],
    ids=["a pipe", "a session", "in use"],
)
def test_what_a_program_leaves_behind_is_ended_after_it(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(children, "LOOK", 0.05)
    with children.adopting() as others, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        left = int(children.leave_nothing_behind(pool.submit(_output, f"set -e; {script}"), others))
        assert not Path(f"/proc/{left}").exists()
        # The pool's process goes on.
        assert children.leave_nothing_behind(pool.submit(_output, "echo on"), others) == "on\n"
