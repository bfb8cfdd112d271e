"""A checkout of made-up releases in which the commands work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from command_list import Typed

from ctk.cli import main
from ctk.core import console
from ctk.core.platforms import this_platform
from kit.world import NEW, OLD, RECIPES, ROOT, World, built_world, ctk, publish_release, serve


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A checkout with two releases, both of them built: its channel can go back by one state."""
    if this_platform() != "linux-64":
        pytest.skip(
            "its packages are for linux-64, and are built on the platform that they are for"
        )
    with serve() as index:
        made = built_world(tmp_path_factory.mktemp("commands") / "checkout", index)
        _complete(made)
        publish_release(made, NEW, "1.9.3")
        done = ctk(made, *made.build(OLD, NEW))
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def typed(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Typed:
    """Runs a command line in this process, up to its exit code: a start of Python takes longer than
    most of them.
    """

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        wanted = world.environment()
        for name in os.environ.keys() - wanted.keys():
            monkeypatch.delenv(name)
        for name, value in wanted.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["ctk", *words])
        console.begin()
        capfd.readouterr()
        code = main._code()
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    return run


def _complete(world: World) -> None:
    """Makes it a clone, so that its packages name a commit, with the recipes alone that its
    releases have parts for.
    """
    for recipe in world.workspace.recipes.iterdir():
        if recipe.name not in (*RECIPES, "common"):
            shutil.rmtree(recipe)
    for name in ("LICENSE", "requirements.lock", "requirements-dev.lock"):
        shutil.copyfile(ROOT / name, world.root / name)
    (world.root / ".gitignore").write_text(".cache\noutput\n")
    author = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "The recipes"]):
        subprocess.run(["git", *words], cwd=world.root, check=True)
