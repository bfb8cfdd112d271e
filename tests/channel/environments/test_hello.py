"""The environments that `./scripts/build` makes: what a user starts from runs in each of them.

They are activated, and used beside another toolkit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from kit.hello import HELLO_CUDA_CORE, HELLO_NUMBA_CUDA, HELLO_NUMBA_CUDA_MLIR, facts

ASK = """
import json
from cuda.pathfinder import load_nvidia_dynamic_lib as load
print(json.dumps({name: load(name).abs_path for name in ("nvvm", "cudart")}))
"""
NO_GPU = "no GPU here, so "


def created(built: Workspace, name: str, *specs: str) -> Path:
    """The folder of an environment with these specs, from the channel and the base channel."""
    prefix = built.environments / name
    ctk(built, "env", "create", *specs, "--prefix", str(prefix), check=True)
    return prefix


@pytest.fixture(scope="module")
def with_cuda_core(built: Workspace) -> Path:
    return created(built, "cuda-core", "cuda-core")


@pytest.fixture(scope="module")
def environment(built: Workspace) -> Path:
    """The one with numba-cuda for toolkit 12.6."""
    return created(built, "numba-cuda-12.6", "cuda-version=12.6", "numba-cuda")


def said_by(built: Workspace, prefix: Path, program: Path) -> tuple[Mapping[str, str], str]:
    """The facts that a program of examples/ prints in an environment, and all its output."""
    words = ("env", "run", str(prefix), "--", "python", "-I", str(program))
    printed = ctk(built, *words, check=True).stdout
    return facts(printed), printed


def test_hello_cuda_core_compiles_to_a_cubin_and_links_with_nvjitlink(
    built: Workspace, with_cuda_core: Path
) -> None:
    found, printed = said_by(built, with_cuda_core, HELLO_CUDA_CORE)
    assert int(found["cubin bytes"]) > 1000 < int(found["linked bytes"])
    assert found["toolkit"].split() == [found["nvrtc"], found["toolkit"].split()[1]]
    assert found["toolkit"].split()[1] in ("native", "compat")
    has_run = "largest difference, cubin" in found and "largest difference, linked" in found
    assert has_run == (found["gpus"] != "0") == (NO_GPU not in printed)


def test_hello_numba_cuda_compiles_with_exactly_the_pinned_toolkit(
    built: Workspace, environment: Path
) -> None:
    """NVRTC 12.6 writes PTX ISA 8.5: the release lock's measured fact.

    And `numba.cuda` is NVIDIA's target.
    """
    found, printed = said_by(built, environment, HELLO_NUMBA_CUDA)
    assert (found["ptx isa"], found["target"]) == ("8.5", "numba_cuda/numba/cuda/__init__.py")
    has_run = "relative difference" in found
    assert has_run == (found["gpus"] != "0") == (NO_GPU not in printed)


def test_the_successor_of_numba_cuda_has_the_same_kernel(built: Workspace) -> None:
    """The example says that only the import differs, and what it needs a GPU for."""
    prefix = created(built, "numba-cuda-mlir", "numba-cuda-mlir")
    found, printed = said_by(built, prefix, HELLO_NUMBA_CUDA_MLIR)
    assert ("relative difference" in found) == (found["gpus"] != "0") == (NO_GPU not in printed)
    kernels = [
        re.findall(r"^def add_sines.*?\n\n\n", program.read_text(), re.M | re.S)
        for program in (HELLO_NUMBA_CUDA, HELLO_NUMBA_CUDA_MLIR)
    ]
    assert len(kernels[0]) == 1
    assert kernels[0] == kernels[1]


PROGRAMS = (HELLO_CUDA_CORE, HELLO_NUMBA_CUDA, HELLO_NUMBA_CUDA_MLIR)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_hello_in_an_environment_without_its_package_says_what_to_do(
    built: Workspace, program: Path
) -> None:
    prefix = created(built, "test-pathfinder-only", "cuda-pathfinder")
    done = ctk(built, "env", "run", str(prefix), "--", "python", "-I", str(program))
    assert (done.returncode, done.stdout) == (1, "")
    package = program.stem.removeprefix("hello-")
    assert done.stderr.startswith("error: No module named ")
    assert f"next: start this with the Python of an environment with {package}" in done.stderr


@pytest.fixture(scope="module")
def surroundings(environment: Path, roomy: Callable[[str], Path]) -> dict[str, str]:
    """Everything that leads to another toolkit: copies of its own libraries, as NVIDIA's installer
    lays them out.
    """
    other = roomy("another toolkit")
    for source, target in (
        ("nvvm/lib64/libnvvm.so.4", "nvvm/lib64"),
        ("lib/libcudart.so.12", "lib64"),
    ):
        (other / target).mkdir(parents=True)
        shutil.copy(environment / source, other / target)
    folders = os.pathsep.join([str(other / "lib64"), str(other / "nvvm/lib64")])
    return {"CUDA_PATH": str(other), "CUDA_HOME": str(other), "LD_LIBRARY_PATH": folders}


def test_a_python_that_names_no_environment_loads_the_other_toolkit(
    environment: Path, surroundings: dict[str, str]
) -> None:
    """The reason for the next test: if this fails, cuda.pathfinder has another order and the docs
    are wrong.
    """
    words = [
        environment / "bin" / "python",
        "-c",
        f"import os; del os.environ['CONDA_PREFIX']{ASK}",
    ]
    done = subprocess.run(
        words, env={"PATH": os.defpath, **surroundings}, capture_output=True, text=True, check=True
    )
    assert not json.loads(done.stdout)["nvvm"].startswith(f"{environment}/")


@pytest.mark.parametrize("way", ["ctk env run", "run-in-environment", "bash", "by path"])
def test_it_has_its_own_libraries_beside_another_toolkit(
    built: Workspace,
    environment: Path,
    surroundings: dict[str, str],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    if way == "ctk env run":
        done = ctk(built, "env", "run", str(environment), "--", "python", "-c", ASK)
    elif way == "by path":
        done = subprocess.run(
            [environment / "bin/python", "-c", ASK], capture_output=True, text=True, check=False
        )
    else:
        activated = ["bash", "-c", f'. "{environment}/bin/activate"; exec "$@"', "bash"]
        before = activated if way == "bash" else [f"{environment}/bin/run-in-environment"]
        done = subprocess.run(
            [*before, "python", "-c", ASK], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    for name, path in json.loads(done.stdout).items():
        assert path.startswith(f"{environment}/"), name
