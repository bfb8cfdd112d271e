"""Whether a path from data stays inside of its folder, by its text and by the links on its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.inside import is_file_name, outside, place_in, wrong_with

SOUND = [
    "a",
    "lib/a.so",
    "./lib/a",
    "lib//a",
    "lib/..a",
    "...",
    "a b/ü",
    "a\nb",
    "ab:c",
    "a/C:",
    "-rf",
    "Icon\r",
]
WRONG = {
    "/etc/passwd": "absolute",
    "//etc/passwd": "absolute",
    "\\etc": "absolute",
    "\\\\server\\share": "absolute",
    "C:/x": "absolute",
    "c:x": "absolute",
    "C:\\x": "absolute",
    "..": "`..`",
    "../../x": "`..`",
    "a/../../x": "`..`",
    "a/..": "`..`",
    "..\\..\\x": "`..`",
    "a\\..\\..\\x": "`..`",
    "a/..\\x": "`..`",
    "": "does not name a file",
    ".": "does not name a file",
    "./": "does not name a file",
    "/": "does not name a file",
    "a\0b": "null",
    "\ud800": "a file cannot have",
}


@pytest.mark.parametrize("path", SOUND)
def test_a_path_below_its_folder_is_inside(path: str, tmp_path: Path) -> None:
    assert wrong_with(path) == ""
    assert place_in(tmp_path, path) == tmp_path / path


@pytest.mark.parametrize("path", WRONG)
def test_a_path_that_leads_out_is_found_by_its_text(path: str, tmp_path: Path) -> None:
    assert WRONG[path] in wrong_with(path)
    assert place_in(tmp_path, path) is None
    assert not is_file_name(path)


@pytest.mark.parametrize("path", [None, 1, ["a"], {"a": 1}, b"a"])
def test_what_is_no_text_is_no_path(path: object, tmp_path: Path) -> None:
    assert place_in(tmp_path, path) is None and not is_file_name(path)


def test_a_file_name_has_no_folder() -> None:
    assert is_file_name("cuda-nvrtc-13.4.92-h0_0.conda")
    assert not any(map(is_file_name, ("a/b", "a\\b", "./a", "a/")))


def test_what_is_behind_a_link_that_leads_out_is_outside(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "root-beside"
    for folder in (root / "lib" / "inner", elsewhere / "deep"):
        folder.mkdir(parents=True)
    (root / "lib64").symlink_to("lib")
    (root / "out").symlink_to(elsewhere)
    (root / "lib" / "up").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to(tmp_path / "gone")
    for path in (
        "lib64/a",
        "lib64/inner/a",
        "not/there/a",
        "out",
        "lib/up",
    ):  # a link itself is inside
        assert place_in(root, path) == root / path
    for path in ("out/a", "out/deep/a", "lib/up/a", "lib64/up/a", "gone/a"):
        assert place_in(root, path) is None
    assert outside(root, ["lib/a", "out/a"]) == {"out/a": f"{root / 'out'} leads to {elsewhere}"}


def test_a_root_that_is_reached_by_a_link_is_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "real" / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert place_in(tmp_path / "link", "lib/a") == tmp_path / "link" / "lib" / "a"
