"""`scripts/acceptance`: a piece that passed is not run again, and a failure names its command."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import acceptance
from acceptance import Piece, Run
from ctk.core.checkout import Workspace

# Stands for ctk: it makes a base channel and a channel, says what it was asked for, and ends with a digit that is last.
CTK = """#!/bin/bash
mkdir -p .cache/sha256 output/base output/.channel-states/1
echo base >.cache/sha256/base; echo base >output/base/base
echo made >output/.channel-states/1/made; ln -sfn .channel-states/1 output/channel
echo "$@" >>ran
case ${*: -1} in [0-9]) exit "${*: -1}" ;; esac
"""


def git(where: Path, *words: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(where), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A repository with a tool that only says that it ran."""
    for name, text in (("scripts/setup", "#!/bin/bash\n"), (".venv/bin/ctk", CTK), ("docs/page.md", "one\n")):
        file = tmp_path / "checkout" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
        file.chmod(0o755)
    where = Workspace(tmp_path / "checkout")
    (where.root / ".gitignore").write_text("/.cache/\n/output/\n/ran\n")
    git(where.root, "init", "--quiet")
    git(where.root, "add", "--force", ".")
    git(where.root, "commit", "--quiet", "--message", "first")
    return where


def piece(*codes: int, reads: Sequence[str] = ("scripts",)) -> Piece:
    return Piece("some:piece", [[acceptance.CTK, "build", str(code)] for code in codes], reads)


def started(where: Workspace) -> Run:
    run = Run(where)
    run.prepare()
    return run


def ran(where: Workspace) -> list[str]:
    """What the tool was asked for by pieces."""
    return (where.output / "acceptance" / "clone" / "ran").read_text().splitlines()[1:]


def test_a_piece_that_passed_is_not_run_again_until_what_it_reads_changes(checkout: Workspace) -> None:
    run = started(checkout)
    assert not run.has_passed(piece(0))
    assert run.run(piece(0))
    assert Run(checkout).has_passed(piece(0))
    assert not Run(checkout).has_passed(replace(piece(0), commands=[["true"]]))
    (checkout.root / "docs" / "page.md").write_text("two\n")
    git(checkout.root, "commit", "--quiet", "--all", "--message", "second")
    assert Run(checkout).has_passed(piece(0))
    assert not Run(checkout).has_passed(piece(0, reads=["."]))


def test_a_piece_that_fails_is_printed_with_its_command_and_runs_again(
    checkout: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(checkout)
    assert not run.run(piece(0, 3, 0))
    said = capsys.readouterr().out
    assert said.startswith("failed some:piece (")
    assert "exit 3: .venv/bin/ctk build 3; " in said
    assert ran(checkout) == ["build 0", "build 3", "build 0"]  # what comes behind does not need it
    assert not Run(checkout).has_passed(piece(0, 3, 0))
