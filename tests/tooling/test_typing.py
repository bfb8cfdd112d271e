"""Strict types, and rooms that import from those below them only; pyproject.toml says what is strict, and the order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command", [["mypy", "--no-error-summary"], ["lint-imports", "--no-cache"]], ids=lambda c: c[0]
)
def test_the_tooling_is_typed_strictly_and_layered(command: list[str]) -> None:
    program, *options = command
    done = subprocess.run([BIN / program, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
