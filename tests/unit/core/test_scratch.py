"""Temporary folders: where builds work, and that nothing stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from ctk.build import one
from ctk.build.one import clear_build_folders, machine_paths, new_build_folder
from ctk.core.checkout import Workspace
from ctk.core.locks import hold_folder, release_folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the file system in memory, with room for 8 GB."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(one, "MEMORY", folder)
    monkeypatch.setattr(one, "_free_memory", lambda: 8 << 30)
    return folder


@pytest.mark.parametrize(
    ("need", "jobs", "fits"),
    [(1 << 20, 2, True), (5 << 30, 2, False), (1 << 20, 40, False)],
    ids=["small", "large", "many at once"],
)
def test_a_build_works_in_memory_where_there_is_room_else_on_disk(
    memory: Path, tmp_path: Path, need: int, jobs: int, fits: bool
) -> None:
    workspace = Workspace(tmp_path / "a")
    folder = new_build_folder(workspace, "key", need, jobs)
    assert folder.is_relative_to(memory if fits else workspace.builds)
    assert any(folder.is_relative_to(path) for path in machine_paths(workspace)), (
        "no package may name it"
    )


def test_folders_of_killed_runs_go_and_those_of_other_checkouts_stay(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = Workspace(tmp_path / "a"), Workspace(tmp_path / "b")
    kept = new_build_folder(other, "key", 1, 1)
    gone = [new_build_folder(here, "key", 1, 1)]
    monkeypatch.setattr(one, "_free_memory", lambda: 0)
    gone.append(new_build_folder(here, "key", 1, 1))
    clear_build_folders(here)
    assert kept.exists()
    assert not any(folder.exists() for folder in gone)
    assert list(memory.iterdir()) == [kept.parent]


def test_the_folder_of_a_killed_process_goes_and_that_of_a_running_one_stays(
    tmp_path: Path,
) -> None:
    for name in ("dead", "alive"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.lock").touch()
    left = []
    with FileLock(tmp_path / "alive.lock"):
        folder = hold_folder(tmp_path, left.append)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"alive", folder.name}
    assert left == [tmp_path / "dead"]
    release_folder(folder)
    assert {path.name for path in tmp_path.iterdir()} == {"alive", "alive.lock"}


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError):
        hold_folder(tmp_path)
