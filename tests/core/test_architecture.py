"""docs/architecture.md is what the code says."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT


def test_the_tree_of_the_page_is_that_of_the_code() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw-tree", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
