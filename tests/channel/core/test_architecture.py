"""What scripts/write-docs writes is in docs/ as the code says it.

Docs/architecture.md names what there is.
"""

from __future__ import annotations

import re
import subprocess
import sys

from conftest import ROOT


def test_the_pages_that_the_code_writes_are_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "write-docs", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "4 pages of docs/ are up to date\n"), done.stderr


def test_the_functions_of_the_walks_are_in_the_files_that_they_name() -> None:
    walks = (ROOT / "docs" / "architecture.md").read_text().partition("<!-- end -->")[2]
    named = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", walks)
    assert len(named) > 15
    for name, file in named:
        text = (ROOT / "scripts" / "ctk" / file).read_text()
        assert re.search(rf"^(?:def|class) {name}\b", text, re.MULTILINE), f"{name} in {file}"
