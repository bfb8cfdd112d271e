"""`ctk site build` as a command: what it refuses, before anything is solved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_sites import channel, checkout, drafts

from conftest import ROOT, ctk
from ctk.core.checkout import Workspace


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    """A checkout with a tiny channel for linux-64, and nothing for another platform."""
    made = checkout(tmp_path / "checkout")
    for name in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, made.root / name)
    channel(made.channel, drafts())
    channel(made.base_channel, ())
    return made


def test_a_platform_for_which_nothing_is_built_is_refused(where: Workspace) -> None:
    done = ctk(where, "site", "build", str(where.root / "site"), "--platform", "win-64")
    assert done.returncode == 10, done.stderr
    assert "nothing is built for win-64 here" in done.stderr
    assert "ctk build --platform win-64" in done.stderr
    assert not (where.root / "site").exists()


def test_a_platform_that_is_named_twice_is_one(where: Workspace) -> None:
    words = ["site", "build", str(where.root / "site"), *["--platform", "linux-64"] * 2, "--package", "cuda-version"]
    done = ctk(where, *words, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert (where.root / "site" / "index.html").is_file()
