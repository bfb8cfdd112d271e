"""Puts a site in place as a whole: a reader sees the site before or the new one, and a killed run leaves the former."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ctk.core.errors import BadValue
from ctk.core.files import check_place, disk_errors, held
from ctk.site.page import Page

MARKER = ".ctk-site"
"""A file that only our sites have: a folder without it is never replaced."""
_TEXT = b"Made by ctk site build. The folder is replaced as a whole: keep nothing of yours in it.\n"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


def write(pages: Iterable[Page], folder: Path) -> int:
    """Writes every page into a new folder, which then takes the place of the one given; returns how many files.

    Args:
        pages: Each path once. When one cannot be made, the error passes and nothing was changed.
        folder: A new or an empty folder, or a site that was written before.

    Raises:
        BadValue: The folder holds something that is no site of ours, or is no folder.
        NoSpace: The disk is full or may not be written.
    """
    check(folder)
    folder = folder.absolute()
    written: set[str] = set()
    with disk_errors(folder.parent), held(folder.with_name(f".{folder.name}.new")) as fresh:
        (fresh / MARKER).write_bytes(_TEXT)
        for page in pages:
            place = PurePosixPath(page.path)
            if place.is_absolute() or ".." in place.parts or page.path in written:
                raise AssertionError(f"{page.path} is outside the site, or there twice")
            written.add(page.path)
            target = fresh / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.content)
        _take_place(fresh, folder)
    return len(written)


def check(folder: Path) -> None:
    """Whether a site may be written there; see `write`."""
    check_place(folder.absolute())
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise BadValue(f"{folder} is no folder", "name a folder that is a site, is empty, or does not exist yet")
    if any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise BadValue(
            f"{folder} holds something that is no site of ctk's, and would be replaced",
            "name a folder that is a site, is empty, or does not exist yet",
        )


def _take_place(fresh: Path, folder: Path) -> None:
    """Exchanges the two in one step where the system can (Linux); else there is a moment without a site."""
    if not folder.exists():
        fresh.rename(folder)
    elif not _exchange(fresh, folder):
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        folder.rename(old)
        try:
            fresh.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc has it from 2.28 on
    names = os.fsencode(first), os.fsencode(second)
    return call is not None and call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
