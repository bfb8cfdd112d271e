"""What is removed from a cache of packages before rattler reads it."""

from __future__ import annotations

import os
from pathlib import Path

from ctk.env.install import _forget_odd


def test_a_pipe_goes_with_its_package_and_a_link_to_a_folder_of_others_stays(
    tmp_path: Path,
) -> None:
    cache, others = tmp_path / "cache", tmp_path / "others"
    for package in (cache / "odd-1-0", cache / "good-1-0", others):
        (package / "info").mkdir(parents=True)
    os.mkfifo(cache / "odd-1-0" / "info" / "pipe")
    os.mkfifo(others / "info" / "pipe")
    os.mkfifo(cache / "pipe")
    (cache / "link").symlink_to(others)
    _forget_odd(cache, ())
    assert {place.name for place in cache.iterdir()} == {"good-1-0", "link"}
    assert (others / "info" / "pipe").is_fifo()
