"""The place of builds in memory may have been taken by another user, under the name that ours would
have.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.build import one
from ctk.core.checkout import Workspace


@pytest.mark.parametrize("how", ["a link", "a folder of another user"])
def test_what_another_user_made_in_memory_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    where = Workspace(tmp_path / "checkout")
    monkeypatch.setattr(one, "MEMORY", tmp_path / "memory")
    place = one.in_memory(where)
    place.parent.mkdir()
    if how == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        monkeypatch.setattr("os.getuid", lambda: place.stat().st_uid + 1)
        monkeypatch.setattr(one, "in_memory", lambda workspace: place)
    kept = place / ".tmp-of-somebody"
    kept.mkdir()
    one.clear_build_folders(where)
    assert kept.is_dir()
    with one.temporary_files(where, 0, 1) as folder:
        assert not folder.is_relative_to(place)
