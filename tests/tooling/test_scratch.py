"""Where builds work, and that nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk import scratch
from ctk.paths import Workspace


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the file system in memory."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(scratch, "MEMORY", folder)
    return folder


def test_a_build_works_in_memory_where_there_is_room(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_room", lambda: 8 << 30)
    folder = scratch.new_folder(Workspace(tmp_path / "a"), "key", 1 << 20, 2)
    assert folder.is_relative_to(memory)


@pytest.mark.parametrize(("artefact_bytes", "jobs"), [(200 << 20, 2), (1 << 20, 40)], ids=["large", "many at once"])
def test_a_build_works_on_disk_where_there_is_not(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artefact_bytes: int, jobs: int
) -> None:
    monkeypatch.setattr(scratch, "_room", lambda: 8 << 30)
    workspace = Workspace(tmp_path / "a")
    assert scratch.new_folder(workspace, "key", artefact_bytes, jobs).is_relative_to(workspace.builds)


def test_without_such_a_file_system_builds_work_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MEMORY", tmp_path / "nothing")
    workspace = Workspace(tmp_path / "a")
    assert scratch.new_folder(workspace, "key", 1, 1).is_relative_to(workspace.builds)


def test_what_killed_runs_left_goes_and_other_checkouts_keep_theirs(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Workspace(tmp_path / "a"), Workspace(tmp_path / "b")
    monkeypatch.setattr(scratch, "_room", lambda: 8 << 30)
    kept = scratch.new_folder(other, "key", 1, 1)
    gone = [scratch.new_folder(one, "key", 1, 1)]
    monkeypatch.setattr(scratch, "_room", lambda: 0)
    gone.append(scratch.new_folder(one, "key", 1, 1))
    scratch.clear(one)
    assert kept.exists()
    assert not any(folder.exists() for folder in gone)
    assert list(memory.iterdir()) == [kept.parent]


def test_no_package_may_name_where_builds_work(memory: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a")
    named = scratch.machine_paths(workspace)
    assert str(tmp_path / "a") in named
    assert any(path.startswith(str(memory)) for path in named)
