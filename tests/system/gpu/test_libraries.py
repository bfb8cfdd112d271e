"""What `ctk build --libraries` makes, used on this machine's GPUs: PyTorch, JAX, CuPy, all in one
process, and cuTile.

Where there is no GPU or no such channel, tests/channel/release/test_library_locks.py holds how
files are laid out, the golden files which there are, and the audit of a build what they need. An
environment is one of those that CTK_GPU_ENVIRONMENTS names, as in test_kernels.py, or is made of
this checkout's channel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest
from gpu_environment import PROGRAMS, VARIABLE, Environment, names
from gpu_machine import Machine, numbers

pytest_plugins = ["gpu_fixtures"]

OF_THE_DRIVER = ("libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-")
USED_BY_JAX = {"libcublas", "libcudart", "libcudnn", "libcufft", "libcusolver"}
USED_BY_TORCH = {
    "libcublas",
    "libcublasLt",
    "libcudart",
    "libcudnn",
    "libcufft",
    "libcusolver",
    "libnccl",
    "libnvrtc",
}


def environment_with(
    packages: tuple[str, ...], specs: tuple[str, ...], prefix: Path, request: pytest.FixtureRequest
) -> Environment:
    """One that has these packages: a given one, or one made for the specs.

    The test is skipped where there is none.
    """
    if folder := os.environ.get(VARIABLE):
        given = (Environment(name, Path(folder, name)) for name in names())
        found = next(
            (environment for environment in given if all(map(environment.record, packages))), None
        )
        return found or pytest.skip(f"no environment in {folder} has {' and '.join(packages)}")
    pytest.importorskip("ctk", reason="there is no checkout here to make an environment from")
    from conftest import ctk

    project = request.getfixturevalue("project")
    if lacks := [
        name for name in packages if not list(project.channel.glob(f"*/{name}-[0-9]*.conda"))
    ]:
        pytest.skip(
            f"no {' or '.join(lacks)} built (ctk build --libraries); tests/recipes checks the"
            " packages"
        )
    ctk(project, "env", "create", *specs, "--prefix", str(prefix), check=True)
    return Environment("none", prefix)


def test_jax_beside_cupy_gives_the_cpus_numbers_with_the_environments_libraries(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    # By itself, jax is the CPU build for a driver before 12.6.
    specs = ("jax", "jaxlib=*=*cuda*", "cupy")
    environment = environment_with(("jax-cuda-plugin", "cupy"), specs, tmp_path / "env", request)
    found = environment.report(PROGRAMS / "jax_program.py")
    assert "differences" in found, f"JAX sees no GPU: {found['devices']}"
    assert {name: off for name, off in found["differences"].items() if not off < 1e-3} == {}
    assert USED_BY_JAX - _of_the_environment(found["loaded"]) == set()


def _of_the_environment(loaded: Sequence[str]) -> set[str]:
    """Names of the loaded libraries.

    The test fails where one is neither the environment's nor the driver's.
    """
    outside = [file for file in loaded if PurePath(file).is_absolute()]
    assert [file for file in outside if not PurePath(file).name.startswith(OF_THE_DRIVER)] == []
    return {PurePath(file).name.partition(".so")[0] for file in {*loaded} - {*outside}}


def test_pytorch_computes_and_trains_with_the_environments_libraries(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    environment = environment_with(
        ("pytorch", "triton"), ("pytorch", "pytorch-gpu"), tmp_path / "env", request
    )
    found = environment.report(PROGRAMS / "torch_program.py")
    assert {name: off for name, off in found["differences"].items() if not off < 1e-3} == {}
    for way in ("eager", "compiled"):
        assert found[way]["losses"][-1] < 0.7 * found[way]["losses"][0]
    assert found["compiled"]["losses"][0] == pytest.approx(found["eager"]["losses"][0], rel=1e-2)
    assert USED_BY_TORCH - _of_the_environment(found["loaded"]) == set()
    if environment.fit == "native":  # Triton writes PTX as new as this
        assert numbers(found["ptxas"]) <= numbers(gpu.driver or "")


def test_torchvision_and_torchaudio_load_the_environments_libraries(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    """benchmarks/beside_pip.py compares what they compute with pip's."""
    packages = ("torchvision", "torchaudio", "pillow")
    environment = environment_with(packages, (*packages, "pytorch-gpu"), tmp_path / "env", request)
    program = PROGRAMS / "torch_neighbours.py"
    done = environment.run(program, tmp_path / "computed.npz")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"libcudart", "libnvjpeg", "libcudnn"} - _of_the_environment(found["loaded"]) == set()
    names = [PurePath(file).name for file in found["loaded"]]
    assert [n for n in names if n.startswith(("libcudart", "libnvjpeg")) and "-" in n] == []


def test_pytorch_sums_over_all_gpus(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    environment = environment_with(
        ("pytorch",), ("pytorch", "pytorch-gpu"), tmp_path / "env", request
    )
    found = environment.report(PROGRAMS / "torch_processes.py")
    assert found["gpus"] == len(gpu.gpus) == len(found["ranks"])
    for rank in found["ranks"].values():
        assert {name: off for name, off in rank["differences"].items() if not off < 1e-6} == {}


def test_five_libraries_use_one_array_in_one_process(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    packages = ("pytorch", "jax-cuda-plugin", "cupy", "numba-cuda", "cuda-core")
    specs = ("pytorch", "pytorch-gpu", "jax", "jaxlib=*=*cuda*", "cupy", "numba-cuda", "cuda-core")
    environment = environment_with(packages, specs, tmp_path / "env", request)
    found = environment.report(PROGRAMS / "one_process.py")
    assert len({*found["seen"].values()}) == 1, found["seen"]
    assert (found["difference"], found["sum off by"]) == (0, pytest.approx(0, abs=1e-6))
    assert len(_of_the_environment(found["loaded"])) == len(found["loaded"]) - sum(
        PurePath(file).is_absolute() for file in found["loaded"]
    ), "a library is loaded twice"


def test_a_kernel_of_cutile_runs_whatever_ptx_the_driver_loads(
    request: pytest.FixtureRequest, gpu: Machine, tmp_path: Path
) -> None:
    """Its compiler, which is newer than many a driver, writes machine code and no PTX."""
    packages = ("cutile-python", "cuda-core")
    found = environment_with(packages, packages, tmp_path / "env", request).report(
        PROGRAMS / "tile_program.py"
    )
    assert found["difference"] == 0
