"""tests/system/gpu on a machine without a GPU and without this project's libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_without_this_projects_libraries_the_tests_are_collected_and_skip(tmp_path: Path) -> None:
    """As on a machine that has pytest only: ctk cannot be imported, and nothing but tests/system/gpu is looked at."""
    (tmp_path / "ctk.py").write_text("raise ImportError('no ctk on this machine')\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--confcutdir",
            "tests/system/gpu",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/system/gpu",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no NVIDIA driver" in done.stdout or "no GPU that it shows" in done.stdout
    assert "failed" not in done.stdout and "error" not in done.stdout.splitlines()[-1]
