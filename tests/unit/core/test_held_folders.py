"""Folders that a process holds come and go beside those of others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ctk.core.locks import hold_folder, release_folder


def test_a_folder_is_made_while_another_takes_the_home_away(tmp_path: Path) -> None:
    """Whoever releases the last folder removes their common home."""
    home = tmp_path / "home"

    def hold_and_release(_: int) -> bool:
        folder = hold_folder(home)
        was_there = folder.is_dir()
        release_folder(folder)
        return was_there

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(hold_and_release, range(600)))
    assert not home.exists()
