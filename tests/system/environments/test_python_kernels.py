"""numba-cuda-mlir and cccl-python, which the default build leaves out: environments of both majors,
used.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import ROOT, ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.core.versions import this_python
from ctk.env.environment import Environment, create
from ctk.lock.model import release_locks
from ctk.solve.solve import Scenario, solve

PROGRAMS = ROOT / "tests" / "system" / "gpu" / "programs"


@dataclass(frozen=True)
class Made:
    """An environment with cccl-python, which depends on numba-cuda-mlir."""

    project: Workspace
    environment: Environment
    toolkit: str  # the CTK minor

    @property
    def site(self) -> Path:
        (site,) = self.environment.prefix.glob("lib/python3*/site-packages")
        return site

    def use(self, program: str) -> Mapping[str, object]:
        """What a program of the GPU tests finds in it."""
        words = ("env", "run", str(self.environment.prefix), "--", "python", "-I")
        done = ctk(self.project, *words, str(PROGRAMS / program), check=True)
        findings: Mapping[str, object] = json.loads(done.stdout.splitlines()[-1])
        return findings


@pytest.fixture(scope="module", params=[pytest.param("12.9", marks=pytest.mark.sweep), "13.0"])
def made(project: Workspace, request: pytest.FixtureRequest) -> Made:
    """An environment from a channel with one toolkit, for this Python."""
    toolkit = request.param
    if not this_platform().startswith("linux-"):
        pytest.skip("packages are built on Linux only")
    lock = release_locks(project)["python-13"]
    if lock.components["cuda-cccl"].artefacts.get(f"{this_platform()}-{this_python().tag}") is None:
        # tests/system/recipes/test_python_requirements.py reads what the recipe takes of the
        # wheels of every other Python.
        pytest.skip(f"cuda-cccl is not published for Python {this_python().name}")
    channel = project.output / f"python-kernels-{toolkit}"
    words = (
        "cccl-python",
        "--release",
        toolkit,
        "--python",
        this_python().name,
        "--to",
        str(channel),
    )
    ctk(project, "build", *words, check=True)
    scenario = Scenario((f"cuda-version={toolkit}", "cccl-python"), this_platform())
    pick = solve(scenario, [channel, project.base_channel])
    prefix = project.environments / f"cccl-python-{toolkit}"
    return Made(project, create(pick, prefix, project.packages), toolkit)


def test_a_kernel_is_compiled_to_ptx_a_cubin_and_lto_code(made: Made, project: Workspace) -> None:
    found = made.use("mlir_program.py")
    facts = release_locks(project)[f"cuda-{made.toolkit}"].facts
    assert facts is not None
    # Of the toolkit that was asked for, and of no other on this machine.
    assert found["ptx isa"] == facts.ptx_isa
    assert int(str(found["cubin bytes"])) > 1000 < int(str(found["lto bytes"]))


def test_cub_is_compiled_from_the_headers_that_cuda_cccl_brings(made: Made) -> None:
    found = made.use("cccl_python.py")
    assert found["nvrtc"] == made.toolkit
    assert int(str(found["cubin bytes"])) > 1000
    assert not found["gpus"] or found["differences"]


def test_one_half_of_the_wheel_is_there_and_it_finds_its_libraries(made: Made) -> None:
    """All libraries except the driver's."""
    major = made.toolkit.partition(".")[0]
    assert [half.name for half in (made.site / "cuda" / "compute").glob("cu1?")] == [f"cu{major}"]
    code = "import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]"
    lib = made.environment.prefix / "lib"
    libraries = [lib / f"{name}.so.{major}" for name in ("libnvrtc", "libnvJitLink")]
    libraries.append(made.site / "numba_cuda_mlir/_mlir/_mlir_libs/libMLIRToLLVM70.so")
    words = [made.environment.python, "-I", "-c", code, *map(str, libraries)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_the_file_whose_rpath_was_set_has_no_hash_in_record(made: Made) -> None:
    (record,) = made.site.glob("numba_cuda_mlir-*.dist-info/RECORD")
    changed = [line for line in record.read_text().splitlines() if "libMLIRToLLVM70.so" in line]
    assert changed == ["numba_cuda_mlir/_mlir/_mlir_libs/libMLIRToLLVM70.so,,"]
