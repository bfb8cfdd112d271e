"""The folder of an environment: none is taken by mistake."""

from __future__ import annotations

from pathlib import Path

from conftest import ctk
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.env import environment


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
