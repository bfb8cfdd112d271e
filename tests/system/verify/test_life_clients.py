"""The models of `ctk.verify.life_models` beside the clients themselves, where these are."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_life import AFTER, Channels, Worlds, client, members

from ctk.core.checkout import Workspace
from ctk.solve.solve import Scenario
from ctk.verify.libsolv import library
from ctk.verify.life import Client, Outcome, Refused
from ctk.verify.life_clients import LifeProgram
from kit.client_records import program

SAMPLE = int(os.environ.get("CTK_TEST_LIVES", "12"))
"""Cells of each client and channels; a client takes seconds for each."""
PROGRAMS = {"mamba": "mamba", "conda": "conda-libmamba", "conda, rattler": "conda-rattler"}


@pytest.fixture(scope="module")
def worlds(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folder = tmp_path_factory.mktemp("lives")
    yield Worlds(project, folder)
    shutil.rmtree(folder)


def asked(name: str, home: Path) -> LifeProgram:
    """A client, or a skip."""
    family, _, solver = PROGRAMS[name].partition("-")
    path = program(family)
    if path is None:
        pytest.skip(f"no {family}: CTK_TEST_{family.upper()} names one")
    if solver:
        variables = {**os.environ, "CONDA_SOLVER": solver}
        done = subprocess.run(
            [path, "info"], env=variables, capture_output=True, text=True, check=False
        )
        if f"solver/{solver}" not in done.stdout:
            pytest.skip(f"conda here has no solver {solver}")
    return LifeProgram(PROGRAMS[name], home, path)


def seen(outcome: Outcome) -> tuple[object, ...]:
    """What counts of an outcome."""
    if isinstance(outcome, Refused):
        return ("refused",)
    builds = outcome.state.builds
    kinds = {name: outcome.state.is_cuda(name) for name in ("pytorch", "jaxlib", "cupy")}
    asked_for = tuple(name for name in ("cuda-gpu", "cuda-native") if name in builds)
    return (
        outcome.state.toolkit,
        outcome.state.fit,
        builds.get("libnvjitlink"),
        json.dumps(kinds),
        asked_for,
        sorted(outcome.left),
    )


@pytest.mark.parametrize("channels", AFTER[:2], ids=lambda channels: channels.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_model_does_what_the_client_does(
    worlds: Worlds, project: Workspace, name: str, channels: Channels, tmp_path: Path
) -> None:
    real: Client = asked(name, tmp_path)
    if name != "conda, rattler" and not library(project).exists():
        pytest.skip(
            "libsolv is not built here: scripts/setup-libsolv builds it where there is a C compiler"
        )
    model = client(name, project)
    world = worlds.world(channels)
    found, expected = {}, {}
    for cell in random.Random(f"{name} {channels.name}").sample(members(channels), SAMPLE):
        machine = Scenario(cell.start.specs, world.subdir, cell.start.driver)
        before = model.create(world, machine)
        if isinstance(before, Refused):
            continue
        expected[str(cell)] = seen(model.change(world, before, cell.command, cell.machine()))
        found[str(cell)] = seen(real.change(world, before, cell.command, cell.machine()))
    assert len(found) > SAMPLE // 2
    assert found == expected
