"""Putting a site in place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctk.core.errors import BadValue
from ctk.site import Page, write
from ctk.site.write import MARKER


def contents(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_a_site_takes_the_place_of_the_one_before_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "site"
    assert write([Page("index.html", b"1"), Page("packages/a.html", b"1")], folder) == 2
    assert write([Page("index.html", b"2")], folder) == 1
    assert contents(folder).keys() == {"index.html", MARKER}
    assert (folder / "index.html").read_bytes() == b"2"
    assert [p.name for p in folder.parent.iterdir()] == ["site"], "nothing is left beside it"


def test_it_takes_its_place_where_the_system_cannot_exchange_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["ctk.site.write"], "_exchange", lambda first, second: False)
    write([Page("index.html", b"1")], tmp_path / "site")
    write([Page("index.html", b"2")], tmp_path / "site")
    assert (tmp_path / "site" / "index.html").read_bytes() == b"2"
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_a_page_that_cannot_be_made_leaves_the_old_site_whole(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    write([Page("index.html", b"old")], folder)
    before = contents(folder)

    def broken() -> Iterator[Page]:
        yield Page("index.html", b"new")
        assert contents(folder) == before, "a reader sees the old one while the new one is written"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write(broken(), folder)
    assert contents(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_what_a_killed_run_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".site.new" / "killed"
    left.mkdir(parents=True)
    left.with_suffix(".lock").touch()
    write([Page("index.html", b"1")], tmp_path / "site")
    assert [p.name for p in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_may_become_a_site(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    assert write([Page("index.html", b"1")], tmp_path / "site") == 1


def test_a_folder_with_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(BadValue, match="no site of ctk's"):
        write([Page("index.html", b"1")], tmp_path)
    assert contents(tmp_path) == {"mine.txt": b"precious"}
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(BadValue, match="is no folder"):
            write([Page("index.html", b"1")], tmp_path / name)


@pytest.mark.parametrize("path", ["../outside.html", "/outside.html", "index.html"])
def test_no_page_is_written_outside_the_site_or_over_another(tmp_path: Path, path: str) -> None:
    with pytest.raises(AssertionError):
        write([Page("index.html", b"1"), Page(path, b"2")], tmp_path / "a" / "site")
    assert not (tmp_path / "a" / "outside.html").exists()
    assert not (tmp_path / "a" / "site").exists()
