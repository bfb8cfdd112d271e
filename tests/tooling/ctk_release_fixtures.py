"""A package index on localhost with a made-up CTK, and `ctk release` run against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from ctk_release import Run
from fake_ctk import add_ctk_12, add_ctk_13, add_python_13
from fake_index import FakeIndex, configure_pip, serve

from ctk.cli.main import app
from ctk.core.checkout import Workspace


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout whose matrix has two Pythons."""
    (tmp_path / "conda_build_config.yaml").write_text("python_tag:\n  - cp311\n  - cp314t\n")
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    return Workspace(tmp_path)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    with serve() as index:
        index.html = False  # as the usual index answers: it says when a file was uploaded
        configure_pip(monkeypatch, index, retries="0", timeout="60")
        add_ctk_12(index)
        add_ctk_13(index)
        add_python_13(index)
        yield index


@pytest.fixture
def run(here: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `ctk release ...` in this process; errors propagate."""

    def command(*arguments: str) -> str:
        capsys.readouterr()
        monkeypatch.setenv("COLUMNS", "160")  # rows of tables stay whole
        typer.main.get_command(app).main(["release", *arguments], "ctk", standalone_mode=False)
        return capsys.readouterr().out

    return command
