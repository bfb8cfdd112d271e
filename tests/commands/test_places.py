"""Folders and files that a command is told to write: none is taken by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ctk
from ctk import environment, errors
from ctk.paths import Workspace

EMPTY = {
    "--prefix": ["env", "create", "cuda-core", "--prefix", ""],
    "--prefix=": ["env", "create", "cuda-core", "--prefix="],
    "--to": ["publish", "--to", ""],
    "FOLDER": ["publish", ""],
    "--channel": ["build", "--print-plan", "--channel", ""],
    "--output": ["env", "pack", "cuda-core", "-o", ""],
    "FOLDER of a site": ["site", "build", ""],
    "DIR": ["feedstock", "export", "cuda-core", ""],
    "CHANNEL": ["channel", "check", ""],
    "PATHS": ["audit", "somewhere", ""],
    "--identity": ["channel", "check", "--identity", ""],
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_value_is_refused_and_is_not_the_current_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ctk(Workspace(tmp_path), *EMPTY[name])
    assert done.returncode == errors.BadValue.exit_code, done.stderr
    assert f"error: {name.partition(' ')[0].rstrip('=')} is empty\nnext: leave it out, or see ctk " in done.stderr
    assert list(tmp_path.iterdir()) == []


def create(prefix: Path, where: Path) -> str:
    """What the command says in a checkout without a channel: it is refused before anything is solved."""
    done = ctk(Workspace(where), "env", "create", "cuda-core", "--prefix", str(prefix))
    assert done.returncode == errors.BadValue.exit_code, done.stderr
    assert "next: name a new or empty folder, or an environment" in done.stderr
    return done.stderr


def test_an_environment_is_not_made_among_other_files(tmp_path: Path) -> None:
    program = tmp_path / "local" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text("somebody's own")
    assert f"{tmp_path / 'local'} holds files and is no environment" in create(tmp_path / "local", tmp_path)
    for below in (program, program / "env"):
        assert f"{program} is a file" in create(below, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [program]
    assert program.read_text() == "somebody's own"


def test_an_environment_may_be_new_or_what_an_earlier_run_left(tmp_path: Path) -> None:
    environment.check(tmp_path / "new" / "env")
    environment.check(tmp_path)
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "bin").mkdir()
    environment.check(tmp_path)
