"""docs/architecture.md is what the code says."""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import ROOT


def test_the_tree_of_the_page_is_that_of_the_code() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw-tree", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_functions_of_the_walks_are_in_the_files_that_they_name() -> None:
    walks = (ROOT / "docs" / "architecture.md").read_text().partition("<!-- end -->")[2]
    named = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", walks)
    assert len(named) > 15
    for name, file in named:
        text = (ROOT / "scripts" / "ctk" / file).read_text()
        assert re.search(rf"^(?:def|class) {name}\b", text, re.MULTILINE), f"{name} in {file}"
