"""Beside another toolkit, an environment that is activated takes its own libraries; run by path it may not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform

pytestmark = pytest.mark.skipif(
    this_platform() not in ("linux-64", "linux-aarch64"), reason="the other toolkit is found as Linux's loader finds it"
)

ASK = """
import json
from cuda.pathfinder import load_nvidia_dynamic_lib as load
print(json.dumps({name: load(name).abs_path for name in ("nvvm", "cudart")}))
"""
SPECS = ("cuda-version=12.6", "cuda-pathfinder", "cuda-nvvm-impl", "cuda-cudart", "python")


@pytest.fixture(scope="module")
def environment(built: Workspace, roomy: Callable[[str], Path]) -> Path:
    prefix = roomy("an environment") / "env"
    ctk(built, "env", "create", *SPECS, "--driver", "13.0", "--prefix", str(prefix), check=True)
    return prefix


@pytest.fixture(scope="module")
def surroundings(environment: Path, roomy: Callable[[str], Path]) -> dict[str, str]:
    """Everything that leads to another toolkit: copies of its own libraries, as NVIDIA's installer lays them out."""
    other = roomy("another toolkit")
    for source, target in (("nvvm/lib64/libnvvm.so.4", "nvvm/lib64"), ("lib/libcudart.so.12", "lib64")):
        (other / target).mkdir(parents=True)
        shutil.copy(environment / source, other / target)
    folders = os.pathsep.join([str(other / "lib64"), str(other / "nvvm/lib64")])
    return {"CUDA_PATH": str(other), "CUDA_HOME": str(other), "LD_LIBRARY_PATH": folders}


def test_by_path_the_other_toolkit_is_loaded(environment: Path, surroundings: dict[str, str]) -> None:
    """What it is all about: if this fails, cuda.pathfinder has another order and docs/users.md is wrong."""
    words = [environment / "bin" / "python", "-c", ASK]
    done = subprocess.run(words, env={"PATH": os.defpath, **surroundings}, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert not found["nvvm"].startswith(f"{environment}/")


@pytest.mark.parametrize("way", ["ctk env run", "run-in-environment", "bash"])
def test_activated_it_has_its_own(
    built: Workspace, environment: Path, surroundings: dict[str, str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    if way == "ctk env run":
        done = ctk(built, "env", "run", str(environment), "--", "python", "-c", ASK)
    else:
        activated = ["bash", "-c", f'. "{environment}/bin/activate"; exec "$@"', "bash"]
        before = activated if way == "bash" else [f"{environment}/bin/run-in-environment"]
        done = subprocess.run([*before, "python", "-c", ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, path in json.loads(done.stdout).items():
        assert path.startswith(f"{environment}/"), name
