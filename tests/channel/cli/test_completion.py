"""The TAB key, asked as bash asks: the right words, and soon."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from conftest import ROOT
from ctk.cli.main import COMMANDS, app


def asked(line: str) -> dict[str, str]:
    """The variables that bash sets when TAB is pressed behind a line."""
    return {
        "_CTK_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(f"{line}.".split()) - 1),
    }


def offered(line: str) -> list[str]:
    done = CliRunner().invoke(app, [], prog_name="ctk", env={"CTK_ROOT": str(ROOT), **asked(line)})
    assert (done.exit_code, done.stderr) == (0, "")
    return [word for word in done.stdout.splitlines() if word]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ctk ", set(COMMANDS)),
        ("ctk release ", {"add", "remove", "measure", "check", "list", "diff"}),
        ("ctk build --all", {"--all-pythons", "--all-releases", "--all-components"}),
    ],
)
def test_tab_offers_what_the_command_takes(line: str, words: set[str]) -> None:
    found = offered(line)
    assert len(found) == len(set(found))
    assert set(found) == words


WITHOUT = (
    "rattler",
    "rattler_build",
    "rich",
    "filelock",
    "ctk.lock.model",
    "ctk.plan.plan",
    "ctk.solve.solve",
)
WITHOUT += ("sigstore", "cryptography", "jsonschema", "unearth", "distributed", "lief")
"""Modules whose import takes longer than TAB may take."""


@pytest.mark.parametrize("line", ["ctk build --", "ctk "])
def test_tab_imports_what_a_command_takes_and_not_what_it_does(line: str) -> None:
    """All commands are imported for it."""
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from ctk.cli.main import main; main()"
    )
    environment = {**os.environ, "CTK_ROOT": str(ROOT), **asked(line)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    found = set(done.stderr.split())
    assert "ctk.cli.authors" in found and not set(WITHOUT) & found
