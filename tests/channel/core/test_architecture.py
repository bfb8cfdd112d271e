"""What scripts/write-docs writes is in docs/ as the code says it.

Docs/architecture.md names what there is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import ROOT


def test_the_pages_that_the_code_writes_are_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "write-docs", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "4 pages of docs/ are up to date\n"), done.stderr


def test_a_line_below_what_the_code_writes_goes_and_writing_is_no_failure(tmp_path: Path) -> None:
    """By hand, `scripts/write-docs` did what was asked and ended with 1."""
    for place in ("docs", "scripts"):
        (tmp_path / place).mkdir()
    for name in ("architecture.md", "commands.md", "errors.md", "json.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    script = shutil.copy(ROOT / "scripts" / "write-docs", tmp_path / "scripts")
    (tmp_path / "scripts" / "ctk").symlink_to(ROOT / "scripts" / "ctk")
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    page = tmp_path / "docs" / "commands.md"
    written = page.read_text()
    page.write_text(f"{written}by hand\n")
    found = [
        subprocess.run([sys.executable, script, *options], check=False).returncode
        for options in (["--check"], [], ["--check"])
    ]
    assert found == [1, 0, 0]
    assert page.read_text() == written


def test_the_functions_of_the_walks_are_in_the_files_that_they_name() -> None:
    walks = (ROOT / "docs" / "architecture.md").read_text().partition("<!-- end -->")[2]
    named = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", walks)
    assert len(named) > 15
    for name, file in named:
        text = (ROOT / "scripts" / "ctk" / file).read_text()
        assert re.search(rf"^(?:def|class) {name}\b", text, re.MULTILINE), f"{name} in {file}"
