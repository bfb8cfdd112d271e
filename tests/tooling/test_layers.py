"""The rooms of the tool import from those below them only; `[tool.importlinter]` in pyproject.toml has their order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_rooms_keep_their_order() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
