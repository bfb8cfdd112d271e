"""The machine and the environments: those that CTK_GPU_ENVIRONMENTS names, or ones made of this
checkout's channel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_environment import NAMES, ROOT, VARIABLE, Environment, names
from gpu_machine import Machine, detect, refusal

SPECS = ("cuda-core", "numba-cuda")
MORE = "cccl-python"  # with numba-cuda-mlir; only `ctk build --all-components` makes it


@pytest.fixture(scope="session")
def machine() -> Machine:
    """What the driver says, GPU or not."""
    return detect()


@pytest.fixture(scope="session")
def gpu(machine: Machine) -> Machine:
    """A machine with a GPU; every test that needs one is skipped without."""
    if machine.lacks:
        pytest.skip(machine.lacks)
    return machine


@pytest.fixture(scope="session", params=names())
def environment(request: pytest.FixtureRequest, gpu: Machine) -> Environment:
    """Each environment whose kernels this machine's driver can run."""
    folder = os.environ.get(VARIABLE)
    found = _given(Path(folder), request.param) if folder else _made(request.param, gpu)
    sentence = refusal(gpu, found.toolkit)
    if sentence and found.name == "none":
        pytest.fail(
            f"what was picked for this machine does not run on it: {sentence}", pytrace=False
        )
    if sentence:
        pytest.skip(sentence)
    return found


def _given(folder: Path, name: str) -> Environment:
    if not (folder / name / "conda-meta").is_dir():
        pytest.fail(
            f"{VARIABLE}={folder} holds no environments; it has to hold {', '.join(NAMES)}",
            pytrace=False,
        )
    return Environment(name, folder / name)


def _made(name: str, gpu: Machine) -> Environment:
    """One made of this checkout's channel, for the machine as a client detects it."""
    try:
        from ctk.core.checkout import Workspace
        from ctk.env.environment import create
        from ctk.solve.machine import machine
        from ctk.solve.solve import Catalogue, Scenario
        from ctk.solve.why import solve_or_say_why
    except ImportError as error:
        pytest.skip(
            f"{VARIABLE} names no folder of environments, and none can be made here: {error}"
        )
    where, on = Workspace(ROOT), machine()
    if not where.channel.is_dir() or not where.base_channel.is_dir():
        pytest.skip("this checkout has no channel: ./scripts/build makes one")
    catalogue = Catalogue([where.channel, where.base_channel], on.subdir)
    if name != "none":
        if name not in {toolkit.version for toolkit in catalogue.toolkits}:
            pytest.skip(f"this checkout's channel has no toolkit {name}")
        sentence = refusal(gpu, name)
        if sentence:
            pytest.skip(sentence)
    specs = SPECS if name == "none" else (f"cuda-version={name}", *SPECS)
    more = Scenario((*specs, MORE), on.subdir, on.driver, on.arch)
    wanted = more if catalogue.pick(more) else Scenario(specs, on.subdir, on.driver, on.arch)
    pick = solve_or_say_why(wanted, catalogue)
    return Environment(name, create(pick, where.environments / "gpu" / name, where.packages).prefix)
