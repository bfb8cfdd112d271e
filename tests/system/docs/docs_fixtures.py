"""What the tests of the docs share: the planned channel above the universe, and a checkout that may
be written to.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from rattler import Gateway

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.plan.plan import Request, small
from ctk.solve import channels
from ctk.solve.solve import solve
from kit.doc_clients import PageSolve, Solve
from kit.doc_pages import Block

_COPIED = (
    "README.md",
    "conda_build_config.yaml",
    "conda-forge.yml",
    "pyproject.toml",
    "requirements.lock",
    "requirements-dev.lock",
    "docs",
    "examples",
    "recipes",
    "variants",
)


@pytest.fixture(scope="session")
def planned_solve(solved: channels.Channels) -> Solve:
    """Solves a scenario from the packages that this checkout would build for all platforms, and the
    universe.
    """
    gateway = Gateway()
    return lambda scenario: solve(scenario, solved.folders, gateway)


_STATED = re.compile(
    r"Comments\s+name\s+the\s+toolkit\s+that\s+(?:<!-- channel -->)?"
    r"(the\s+default\s+channel|a\s+channel\s+built\s+with\s+`--(\S+)`)\s+gives"
)


def stated_channel(block: Block) -> str:
    """The option that builds the channel for which a page's comments are, "" for the default
    channel.
    """
    above = "\n".join((ROOT / block.page).read_text().splitlines()[: block.line])
    found = _STATED.search(above)
    assert found, f"{block}: say above it for which channel the comments of {block.page} hold"
    return found[2] or ""


@pytest.fixture(scope="session")
def page_solve(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> PageSolve:
    """Block -> a solver for the channel that its page states, above the universe."""

    @cache
    def solver(option: str) -> Solve:
        request = small(
            Request(),
            project,
            libraries=option == "libraries",
            all_releases=option == "all-releases",
        )
        content = channels.planned(project, request=request)
        folders = channels.write(content, tmp_path_factory.mktemp("planned")).folders
        gateway = Gateway()
        return lambda scenario: solve(scenario, folders, gateway)

    return lambda block: solver(stated_channel(block))


@pytest.fixture(scope="module")
def scratch(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    """A checkout with the built channels, for commands that may write: nothing of it is the real
    one's.
    """
    root = roomy("scratch") / "checkout"
    root.mkdir()
    for name in _COPIED:
        source = built.root / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, root / name)
    # Links to the same files, at a path of their own; what is written is written anew, never into a
    # file.
    for channel in (built.channel, built.base_channel):
        shutil.copytree(channel.resolve(), root / "output" / channel.name, copy_function=os.link)
    # Outputs of recipes, so that a plan takes a second.
    shutil.copytree(
        built.notes / "rendered", root / ".cache" / "notes" / "rendered", copy_function=os.link
    )
    return root
