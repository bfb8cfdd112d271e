"""Recipes that need no compiler, and runs of `ctk build-recipe` that must fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conftest import ctk
from ctk.core.checkout import Workspace

Recipes = Callable[..., Path]
Fails = Callable[..., tuple[int, str]]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipes:
    """Writes a recipe that needs no compiler."""

    def write(
        script: str = "mkdir -p $PREFIX/share && touch $PREFIX/share/one", **parts: Any
    ) -> Path:
        (folder := tmp_path / "one").mkdir(exist_ok=True)
        whole = {
            "package": {"name": "one", "version": "1"},
            "build": {"noarch": "generic", "script": [script]},
            "requirements": {
                section: parts[section] for section in ("build", "host", "run") if section in parts
            },
            "tests": [{"script": [parts.get("test", "test -f $PREFIX/share/one")]}],
            "about": {"license": "MIT"},
        }
        YAML().dump(whole, folder / "recipe.yaml")
        return folder

    return write


@pytest.fixture
def fails(default_only: Workspace, tmp_path: Path) -> Fails:
    """Runs the command, which must fail; returns its exit code and its stderr."""

    def run(folder: Path, *options: str) -> tuple[int, str]:
        done = ctk(
            default_only,
            "build-recipe",
            str(folder),
            "-q",
            "--output",
            str(tmp_path / "made"),
            *options,
        )
        assert done.returncode
        assert "Traceback" not in done.stderr
        assert "next: " in done.stderr
        return done.returncode, done.stderr

    return run
