"""A package index on localhost with a made-up CTK, and `ctk release` run against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import ctk.cli.work.release
import ctk.index.index
from ctk.cli.main import app
from ctk.core.checkout import Workspace
from ctk.index import IndexSettings
from kit.ctk_release import Have, Run, snapshot
from kit.fake_ctk import add_ctk_12, add_ctk_13, add_python_13
from kit.fake_index import FakeIndex, configure_pip, serve


def checkout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout whose matrix has two Pythons."""
    (folder / "conda_build_config.yaml").write_text("python_tag:\n  - cp311\n  - cp314t\n")
    monkeypatch.setenv("CTK_ROOT", str(folder))
    return Workspace(folder)


def fill(index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.html = False  # as the usual index answers: it says when a file was uploaded
    configure_pip(monkeypatch, index)
    # What pip would say: test_index.py holds that it is asked, and starting it takes longer than
    # most commands here.
    settings = IndexSettings(index_url=index.url, retries=0, timeout=60)
    for module in (ctk.index.index, ctk.cli.work.release):
        monkeypatch.setattr(module, "pip_settings", lambda: settings)
    add_ctk_12(index)
    add_ctk_13(index)
    add_python_13(index)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return checkout(tmp_path, monkeypatch)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeIndex]:
    with serve() as index:
        fill(index, monkeypatch)
        yield index


@pytest.fixture
def run(
    here: Workspace,
    index: FakeIndex,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Runs `ctk release ...` in this process, against the fake index; errors propagate."""

    def command(*arguments: str) -> str:
        capsys.readouterr()
        monkeypatch.setenv("COLUMNS", "160")  # rows of tables stay whole
        typer.main.get_command(app).main(["release", *arguments], "ctk", standalone_mode=False)
        return capsys.readouterr().out

    return command


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A checkout after ``ctk release add 12.9 13.4 --write``; only read."""
    with pytest.MonkeyPatch.context() as monkeypatch, serve() as index:
        fill(index, monkeypatch)
        workspace = checkout(tmp_path_factory.mktemp("both"), monkeypatch)
        typer.main.get_command(app).main(
            ["release", "add", "12.9", "13.4", "--write"], "ctk", standalone_mode=False
        )
    return workspace


@pytest.fixture
def have(here: Workspace, both: Workspace) -> Have:
    """Puts the locks of CTK minors and their Python sets in place, as ``ctk release add`` had
    written them.
    """

    def copy(*minors: str) -> dict[str, bytes]:
        names = {
            name
            for minor in minors
            for name in (f"cuda-{minor}", f"python-{minor.partition('.')[0]}")
        }
        here.variants.mkdir(exist_ok=True)
        for file, content in snapshot(both).items():
            if Path(file).stem in names:
                (here.variants / file).write_bytes(content)
        return snapshot(here)

    return copy
