"""Processes of a pool: what scripts leave behind holds nobody up."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from ctk.core.process import waiting_for_nobody

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def read_to_the_end(script: str) -> str:
    """As rattler-build runs a script: its output is read to its end, then its end is looked at."""
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        return process.stdout.read()


def test_a_process_that_a_script_leaves_behind_is_ended_and_one_that_works_is_not(tmp_path: Path) -> None:
    note = tmp_path / "left"
    left = f"sleep 1000 & echo $! >{note}; echo made"
    works = "(sleep 2; echo late) & wait; echo made"
    with waiting_for_nobody(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(read_to_the_end, works).result() == "late\nmade\n"
        assert pool.submit(read_to_the_end, left).result() == "made\n"
        assert pool.submit(os.getpid).result() != os.getpid()
    stat = Path("/proc", note.read_text().strip(), "stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
