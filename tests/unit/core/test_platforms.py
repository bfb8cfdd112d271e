"""Markers of platforms are those of PEP 508; a cache that cannot be written has a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core import checkout
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS


@pytest.mark.parametrize(
    ("subdir", "markers"),
    [
        ("linux-64", ("linux", "posix", "Linux", "x86_64")),
        ("linux-aarch64", ("linux", "posix", "Linux", "aarch64")),
        ("win-64", ("win32", "nt", "Windows", "AMD64")),
        ("win-arm64", ("win32", "nt", "Windows", "ARM64")),
    ],
)
def test_a_platform_has_the_markers_of_python_there(
    subdir: str, markers: tuple[str, str, str, str]
) -> None:
    names = ("sys_platform", "os_name", "platform_system", "platform_machine")
    environment = PLATFORMS[subdir].marker_environment
    assert tuple(environment[name] for name in names) == markers


@pytest.mark.parametrize(("stated", "place"), [("{}/xdg", "xdg"), ("xdg", "home/.cache")])
def test_a_checkout_that_may_only_be_read_has_its_cache_in_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stated: str, place: str
) -> None:
    """The specification of base directories has a relative path ignored."""
    monkeypatch.setattr(checkout, "takes_files", lambda folder: False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", stated.format(tmp_path))
    workspace = Workspace(tmp_path)
    assert workspace.cache == tmp_path / place / workspace.name
