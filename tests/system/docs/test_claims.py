"""What docs/names.md and docs/platforms.md say of packages and wheels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import MINORS, ROOT
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.env.environment import create
from ctk.fetch.fetch import fetch, laid_out
from ctk.index.index import Index
from ctk.lock.model import release_locks
from ctk.package.gpu_fatbin import read_wheel
from ctk.package.reader import read_info
from ctk.solve import channels
from ctk.solve.solve import Scenario, solve

pytest_plugins = ["docs_fixtures"]

LOCKS = {lock.minor: lock for lock in release_locks(Workspace(ROOT)).values() if lock.is_ctk}


@pytest.fixture(scope="module")
def numba(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    folder = roomy("numba")
    pick = solve(Scenario(("numba-cuda",), this_platform(), "13.0"), [built.channel, built.base_channel])
    create(pick, folder / "prefix", folder / "packages")
    return folder / "prefix"


def run(prefix: Path, program: str) -> str:
    command = [prefix / "bin" / "python", "-c", program]
    variables = {"PATH": os.defpath, "CONDA_PREFIX": str(prefix)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_numba_cuda_takes_the_place_of_numbas_own_target(numba: Path) -> None:
    """The import stays, and the module is numba-cuda's."""
    assert "/numba_cuda/" in run(numba, "from numba import cuda; print(cuda.jit.__code__.co_filename)")


def test_no_package_brings_a_driver(built: Workspace) -> None:
    """Nor the stub of libcuda to link against: NVIDIA's wheels have none."""
    files = (entry for file in (built.channel / this_platform()).glob("*.conda") for entry in read_info(file).paths)
    names = [Path(entry.path).name for entry in files]
    assert "libnvrtc.so.13" in names or this_platform() != "linux-64"
    assert not [name for name in names if name.startswith(("libcuda.so", "libnvidia-", "nvcuda.dll"))]


def test_all_packages_for_arm_are_for_sbsa(project: Workspace) -> None:
    """What has a file below targets/, or a library, excludes conda-forge's packages for Tegra."""
    packages = channels.planned(project)["linux-aarch64"]["packages.conda"].values()
    libraries = [r for r in packages if r["name"].startswith(("libcu", "libnp", "libnvj", "cuda-cudart", "cuda-nvrtc"))]
    assert len(libraries) > 100
    bare = {
        r["name"] for r in libraries if not any(c.startswith("arm-variant * sbsa") for c in r.get("constrains", ()))
    }
    files = {r["name"].removesuffix("-files") for r in libraries if r["name"].endswith("-files")}
    # A package of Python's major alone, such as libcudnn, and a twin leave it to the package of files that they need.
    assert bare <= files, "says it neither by itself nor by its package of files"


@pytest.mark.parametrize("minor", ["12.9", "13.0", MINORS[-1]])
def test_wheels_for_arm_have_code_for_thor_and_none_of_orins_own(minor: str, project: Workspace) -> None:
    artefact = LOCKS[minor].components["nvjpeg"].artefacts["linux-aarch64"]
    assert artefact
    if not laid_out(artefact, project).exists():
        fetch([artefact], project, Index)
    code = [code for file in read_wheel(laid_out(artefact, project)).values() for code in file.code]
    machine = {each.target for each in code if each.kind == "cubin"}
    assert {"80", "86", "101" if minor.startswith("12.") else "110"} <= machine
    assert "87" not in machine
