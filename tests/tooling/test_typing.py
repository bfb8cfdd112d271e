"""Strict types for the tooling; pyproject.toml says what is strict and which library has no types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

MYPY = [sys.executable, "-m", "mypy", "--no-error-summary"]


def test_every_module_of_the_tooling_is_typed_strictly() -> None:
    done = subprocess.run(MYPY, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_without_types_is_refused(tmp_path: Path) -> None:
    """The configuration is read, and is the strict one."""
    module = tmp_path / "loose.py"
    module.write_text("def twice(x):\n    return x + x\n")
    done = subprocess.run(
        [*MYPY, "--config-file", ROOT / "pyproject.toml", module],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "missing a type annotation" in done.stdout


def test_every_ignored_error_of_types_names_its_code() -> None:
    files = [file for folder in ("scripts", "tests", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    bare = [
        str(f) for f in files if re.search(r"# type: ignore(?!\[[a-z, -]+\])", f.read_text()) and f != Path(__file__)
    ]
    assert not bare
