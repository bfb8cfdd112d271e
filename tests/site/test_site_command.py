"""`ctk site build` as a command: what it refuses, before anything is solved."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from small_sites import channel, checkout, drafts

from conftest import ROOT
from ctk.cli.main import app
from ctk.core.errors import Unsolvable


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs `ctk site build`, where a tiny channel is for linux-64 only; gives the folder."""
    made = checkout(tmp_path / "checkout")
    for name in ("conda_build_config.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, made.root / name)
    channel(made.channel, drafts())
    channel(made.base_channel, ())
    monkeypatch.setenv("CTK_ROOT", str(made.root))

    def run(*words: str) -> Path:
        arguments = ["site", "build", str(tmp_path / "site"), *words]
        typer.main.get_command(app).main(arguments, "ctk", standalone_mode=False)
        return tmp_path / "site"

    return run


def test_a_platform_for_which_nothing_is_built_is_refused(build: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(Unsolvable, match="nothing is built for win-64 here") as caught:
        build("--platform", "win-64")
    assert "ctk build --platform win-64" in caught.value.step
    assert not (tmp_path / "site").exists()


def test_a_platform_that_is_named_twice_is_one(build: Callable[..., Path]) -> None:
    site = build(*["--platform", "linux-64"] * 2, "--package", "cuda-version", "--jobs", "1")
    assert (site / "index.html").is_file()
    assert [file.name for file in site.glob("answers/linux-64/cuda-version/*.js")] == ["any.js"]
