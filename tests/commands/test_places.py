"""Folders and files that a command is told to write: none is taken by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import ctk
from ctk.core import errors
from ctk.core.checkout import Workspace
from ctk.core.files import disk_errors
from ctk.env import environment

pytest_plugins = ["command_fixtures"]

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


@pytest.fixture(params=["a file", "proc", "a loop", "a long name"])
def nowhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A place at which nothing can be made, whoever asks."""
    (tmp_path / "file").write_text("somebody's own")
    (tmp_path / "loop").symlink_to("loop")
    places = {
        "a file": tmp_path / "file" / "new",
        "proc": Path("/proc/new"),
        "a loop": tmp_path / "loop" / "new",
        "a long name": tmp_path / ("n" * 300),
    }
    if request.param == "proc" and not Path("/proc/self").exists():
        pytest.skip("this system has no /proc")
    return places[request.param]


def test_a_place_where_nothing_can_be_is_said_to_be_one(nowhere: Path) -> None:
    for make in (nowhere.mkdir, (nowhere / "below").mkdir, lambda: (nowhere / "a" / "b").mkdir(parents=True)):
        with (
            pytest.raises(errors.NoSpace, match=r"^cannot write /.*(no folder|no new files|too long)"),
            disk_errors(nowhere),
        ):
            make()


def test_a_file_that_is_missing_where_it_could_be_is_another_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_errors(tmp_path):
        (tmp_path / "not" / "there").read_bytes()
    assert list(tmp_path.iterdir()) == []


def test_a_site_is_refused_before_anything_is_solved_for_it(nowhere: Path, tmp_path: Path) -> None:
    done = ctk(Workspace(tmp_path), "site", "build", str(nowhere))  # of a checkout without a channel
    assert done.returncode == errors.NoSpace.exit_code, done.stderr
    assert f"error: cannot write {nowhere}: " in done.stderr


@pytest.mark.parametrize(
    "words",
    [["publish", "--to"], ["env", "create", "cuda-crt", "--prefix"], ["env", "pack", "cuda-crt", "python", "-o"]],
)
def test_what_a_command_is_to_write_where_nothing_can_be_is_no_traceback(
    words: list[str],
    nowhere: Path,
    world: Any,  # of command_fixtures
) -> None:
    base = [] if words[0] == "publish" else ["--base", str(world.base)]
    done = ctk(world.workspace, *words, str(nowhere), *base)
    assert done.returncode in (errors.NoSpace.exit_code, errors.BadValue.exit_code), done.stderr
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr and "\nnext: " in done.stderr
