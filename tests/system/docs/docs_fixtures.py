"""What the tests of the docs share: the planned channel above the universe, and a checkout that may be written to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_clients import Solve
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.solve import channels
from ctk.solve.solve import solve

_COPIED = (
    "README.md",
    "conda_build_config.yaml",
    "conda-forge.yml",
    "pyproject.toml",
    "requirements.lock",
    "docs",
    "examples",
    "recipes",
    "variants",
)


@pytest.fixture(scope="session")
def planned_channels(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> channels.Channels:
    """The packages that this checkout would build for all platforms, and the universe."""
    return channels.write(channels.planned(project), tmp_path_factory.mktemp("planned"))


@pytest.fixture(scope="session")
def planned_solve(planned_channels: channels.Channels) -> Solve:
    """Solves a scenario from these."""
    gateway = Gateway()
    return lambda scenario: solve(scenario, planned_channels.folders, gateway)


@pytest.fixture(scope="module")
def scratch(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    """A checkout with the built channels, for commands that may write: nothing of it is the real one's."""
    root = roomy("scratch") / "checkout"
    root.mkdir()
    for name in _COPIED:
        source = built.root / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, root / name)
    # Links to the same files, at a path of their own; what is written is written anew, never into a file.
    for channel in (built.channel, built.base_channel):
        shutil.copytree(channel.resolve(), root / "output" / channel.name, copy_function=os.link)
    rendered = built.cache / "rendered"  # what recipes render to, so that a plan takes a second
    shutil.copytree(rendered, root / ".cache" / rendered.name, copy_function=os.link)
    return root
