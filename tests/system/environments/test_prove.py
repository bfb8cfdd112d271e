"""The two environments of the proofs, created from the channel alone: used, activated, and beside
another toolkit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ProofFailed
from ctk.core.platforms import this_platform
from ctk.env.environment import PROOFS, ProofRequest, create, prove
from ctk.solve.solve import Scenario, solve

ASK = """
import json
from cuda.pathfinder import load_nvidia_dynamic_lib as load
print(json.dumps({name: load(name).abs_path for name in ("nvvm", "cudart")}))
"""


@pytest.fixture(scope="module")
def proofs(built: Workspace) -> Mapping[str, Mapping[str, Any]]:
    """Environment -> the output of its program."""
    document = json.loads(ctk(built, "--json", "verify", "--install", "--again", check=True).stdout)
    return {Path(proof["environment"]).name: proof["found"] for proof in document["proofs"]}


def test_cuda_core_compiles_to_a_cubin_and_links_with_nvjitlink(
    proofs: Mapping[str, Mapping[str, Any]],
) -> None:
    found = proofs["cuda-core"]
    assert found["cubin bytes"] > 1000 < found["linked bytes"]
    assert not found["gpus"] or "largest difference, cubin" in found


def test_the_pinned_numba_cuda_compiles_with_exactly_that_toolkit(
    proofs: Mapping[str, Mapping[str, Any]],
) -> None:
    """NVRTC 12.6 writes PTX ISA 8.5: the release lock's measured fact.

    And `numba.cuda` is NVIDIA's target.
    """
    found = proofs["numba-cuda-12.6"]
    assert (found["ptx isa"], found["target"]) == ("8.5", "numba_cuda/numba/cuda/__init__.py")
    assert not found["gpus"] or "relative difference" in found


@pytest.mark.usefixtures("proofs")
def test_a_second_proof_makes_nothing_again(built: Workspace) -> None:
    again = ctk(built, "verify", "--install", check=True)
    assert again.stderr.count("environment unchanged, proved before\n") == len(PROOFS)
    assert again.stdout.rstrip().endswith("both requests work")
    assert ctk(built, "verify", "--install", check=True).stdout == again.stdout


@pytest.mark.usefixtures("proofs")
def test_what_may_change_a_proof_has_it_made_again(built: Workspace) -> None:
    none = (  # another each time: what a proof found with "" an earlier run of the tests has kept
        f"none-{uuid.uuid4()}"
    )
    for words, environment in ((["--again"], {}), ([], {"CUDA_VISIBLE_DEVICES": none})):
        anew = ctk(built, "verify", "--install", *words, check=True, **environment)
        assert anew.stderr.count("environment unchanged\n") == len(PROOFS)


def test_an_environment_that_does_not_work_is_an_error_with_what_it_printed(
    built: Workspace,
) -> None:
    pick = solve(
        Scenario(("cuda-pathfinder",), this_platform()), [built.channel, built.base_channel]
    )
    environment = create(pick, built.environments / "test-pathfinder-only", built.packages)
    with pytest.raises(ProofFailed, match="No module named") as error:
        prove(ProofRequest("broken", ("cuda-pathfinder",), ("cuda_core.py",)), environment)
    assert str(environment.python) in error.value.step


@pytest.fixture(scope="module")
def environment(built: Workspace, proofs: object) -> Path:
    return built.environments / "numba-cuda-12.6"


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
