"""numba-cuda-mlir and cccl-python, which the default build leaves out: environments of both majors, used."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import ctk
from ctk.base.base import python_tag, short_version
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.env.environment import Environment, create
from ctk.env.prove import ProofRequest, use
from ctk.lock.lock import release_locks
from ctk.plan.plan import Request as Wanted
from ctk.plan.plan import small
from ctk.solve.solve import Pick, Scenario, solve

RECIPES = ("numba-cuda-mlir", "numba-cuda-mlir-files", "cccl-python")
TOOLKITS = {"12": "12.9", "13": "13.0"}


@pytest.fixture(scope="module")
def channel(project: Workspace) -> Path:
    """A channel of its own with one toolkit of each CUDA major, for this Python."""
    if not this_platform().startswith("linux-"):
        pytest.skip("packages are built on Linux only")
    lock = release_locks(project)["python-13"]
    if lock.components["cuda-cccl"].artefacts.get(f"{this_platform()}-{python_tag()}") is None:
        pytest.skip(f"cuda-cccl is not published for Python {short_version()}")
    made = project.output / "python-kernels"
    recipes = [w for name in (*small(Wanted(), project).recipes, *RECIPES) for w in ("--recipe", name)]
    releases = [w for minor in TOOLKITS.values() for w in ("--release", minor)]
    ctk(project, "build", *releases, *recipes, "--python", short_version(), "--channel", str(made), check=True)
    return made


@pytest.fixture(scope="module", params=TOOLKITS)
def pick(project: Workspace, channel: Path, request: pytest.FixtureRequest) -> Pick:
    pin = f"cuda-version={TOOLKITS[request.param]}"
    return solve(Scenario((pin, "cccl-python"), this_platform()), [channel, project.base_channel])


@pytest.fixture(scope="module")
def environment(project: Workspace, pick: Pick) -> Environment:
    """One that cccl-python asks for: numba-cuda-mlir is in it."""
    return create(pick, project.environments / f"cccl-python-{pick.toolkit}", project.cache / "packages")


def run(environment: Environment, *program: str) -> Mapping[str, object]:
    return use(ProofRequest(environment.prefix.name, (), program), environment)


def minor_of(environment: Environment) -> str:
    return environment.prefix.name.rpartition("-")[2]


def test_a_kernel_is_compiled_to_ptx_a_cubin_and_lto_code(environment: Environment, project: Workspace) -> None:
    found = run(environment, "numba_cuda.py", "numba_cuda_mlir")
    facts = release_locks(project)[f"cuda-{minor_of(environment)}"].facts
    assert facts is not None
    assert found["ptx isa"] == facts.ptx_isa  # of the toolkit that was asked for, and of no other on this machine
    assert int(str(found["cubin bytes"])) > 1000 < int(str(found["lto bytes"]))


def test_cub_is_compiled_from_the_headers_that_cuda_cccl_brings(environment: Environment) -> None:
    found = run(environment, "cccl_python.py")
    assert found["nvrtc"] == minor_of(environment)
    assert int(str(found["cubin bytes"])) > 1000
    if not found["gpus"]:
        pytest.skip("no GPU on this machine: compiled with CUB, nothing reduced")
    assert found["differences"]


def test_one_half_of_the_wheel_is_there_and_it_finds_its_libraries(environment: Environment) -> None:
    """All but the driver's, which only a machine with a driver has."""
    (site,) = environment.prefix.glob("lib/python3*/site-packages")
    major = minor_of(environment).partition(".")[0]
    (half,) = (site / "cuda" / "compute").glob("cu1?")
    assert half.name == f"cu{major}"
    code = "import ctypes, sys; [ctypes.CDLL(name) for name in sys.argv[1:]]"
    libraries = [str(environment.prefix / "lib" / f"{name}.so.{major}") for name in ("libnvrtc", "libnvJitLink")]
    (mlir,) = site.glob("numba_cuda_mlir/_mlir/_mlir_libs/libMLIRToLLVM70.so")
    done = subprocess.run(
        [environment.python, "-I", "-c", code, *libraries, str(mlir)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


def test_the_file_whose_rpath_was_set_has_no_hash_in_record(environment: Environment) -> None:
    (record,) = environment.prefix.glob("lib/python3*/site-packages/numba_cuda_mlir-*.dist-info/RECORD")
    changed = [line for line in record.read_text().splitlines() if "libMLIRToLLVM70.so" in line]
    assert changed == ["numba_cuda_mlir/_mlir/_mlir_libs/libMLIRToLLVM70.so,,"]
