"""Kernels run on this machine's GPU from every environment: by cuda.core and by numba.cuda.

On a machine that has nothing but a GPU, Python and pytest, with environments unpacked below one
folder (in subfolders named ``none``, ``12.6``, ``13.0``, as ``cuda-version`` was pinned):

    CTK_GPU_ENVIRONMENTS=DIR python3 -m pytest --confcutdir tests/system/gpu tests/system/gpu

In a checkout with a channel and a GPU, ``./scripts/test gpu`` makes the environments itself. What a
toolkit may do is told by the driver and by the toolkit's own list of GPUs; nothing here knows what
machine it runs on.
"""

from __future__ import annotations

import pytest
from gpu_environment import EXAMPLES, PROGRAMS, Environment
from gpu_machine import Machine, numbers, right_fit

pytest_plugins = ["gpu_fixtures"]

UNSUPPORTED_PTX_VERSION = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION in cuda.h
ROUTES = PROGRAMS / "routes.py"
RIGHT = {"wrong sums": 0, "reduction off by": 0}


@pytest.mark.parametrize("route", ["cubin", "nvjitlink lto", "nvjitlink ptx"])
def test_machine_code_runs_whatever_the_minor(environment: Environment, route: str) -> None:
    environment.needs("cuda-core")
    found = environment.report(ROUTES)
    assert found["linker"].lower().endswith("nvjitlink")
    assert found["routes"][route] == RIGHT
    assert route in found["cubins"]


def test_ptx_runs_from_a_native_toolkit_and_is_refused_from_a_newer_one(
    environment: Environment, gpu: Machine
) -> None:
    environment.needs("cuda-core")
    found = environment.report(ROUTES)
    if environment.fit == "native":
        assert found["loading ptx"] == {"code": 0, "name": "CUDA_SUCCESS"}
        assert found["routes"]["ptx"] == RIGHT
    else:
        refused = {"code": UNSUPPORTED_PTX_VERSION, "name": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}
        assert found["loading ptx"] == refused, (
            f"PTX ISA {found['ptx isa']}, driver for CUDA {gpu.driver}"
        )
        assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in found["routes"]["ptx"]["error"]


def test_ptx_that_nvjitlink_links_runs_where_the_driver_is_as_new_as_nvjitlink(
    environment: Environment, gpu: Machine
) -> None:
    environment.needs("cuda-core")
    assert gpu.driver is not None
    found = environment.report(ROUTES)
    # 12.0 to 12.2 have none that cuda.core can call, and get that of 12.3.
    assert found["nvjitlink"] == max(environment.toolkit, "12.3", key=numbers)
    if numbers(found["nvjitlink"]) <= numbers(gpu.driver):
        assert found["linked ptx isa"] == found["ptx isa"] or numbers(environment.toolkit) < (12, 3)
        assert found["loading linked ptx"] == {"code": 0, "name": "CUDA_SUCCESS"}
        assert found["routes"]["nvjitlink lto to ptx"] == RIGHT
    else:
        assert environment.fit == "compat" or numbers(environment.toolkit) < (12, 3)
        refused = {"code": UNSUPPORTED_PTX_VERSION, "name": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}
        assert found["loading linked ptx"] == refused, (
            f"PTX ISA {found['linked ptx isa']}, driver for {gpu.driver}"
        )
        assert (
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in found["routes"]["nvjitlink lto to ptx"]["error"]
        )


def test_native_or_compat_is_what_the_driver_says(environment: Environment, gpu: Machine) -> None:
    environment.needs("cuda-core")
    archs = tuple(environment.report(ROUTES)["archs"])
    assert environment.fit == right_fit(gpu, environment.toolkit, archs)


def test_the_toolkit_that_compiles_is_the_one_that_was_asked_for(environment: Environment) -> None:
    environment.needs("cuda-core")
    assert environment.report(ROUTES)["nvrtc"] == environment.toolkit
    if environment.name != "none":
        assert environment.toolkit == environment.name


def test_no_other_toolkit_of_this_machine_is_used(environment: Environment) -> None:
    environment.needs("cuda-core")
    assert environment.report(ROUTES)["foreign libraries"] == []


HELLO = {
    "cuda-core": EXAMPLES / "hello-cuda-core.py",
    "numba-cuda": EXAMPLES / "hello-numba-cuda.py",
    "numba-cuda-mlir": EXAMPLES / "hello-numba-cuda-mlir.py",
}
OTHERS = {
    "numba-cuda-mlir": PROGRAMS / "mlir_program.py",
    "cccl-python": PROGRAMS / "cccl_python.py",
}


@pytest.mark.parametrize("package", HELLO)
def test_what_a_user_starts_from_computes(environment: Environment, package: str) -> None:
    """The programs that `./scripts/build` runs; they compare their numbers themselves."""
    environment.needs(package)
    found = environment.facts(HELLO[package])
    assert int(found["gpus"]) >= 1
    if package == "cuda-core":
        assert found["ptx"] == (
            "runs" if environment.fit == "native" else "refused, as it is newer than the driver"
        )


@pytest.mark.parametrize("package", OTHERS)
def test_a_kernel_of_another_package_computes(environment: Environment, package: str) -> None:
    """The programs compare their numbers themselves."""
    environment.needs(package)
    assert environment.report(OTHERS[package])["gpus"] >= 1


# Examples of numba-cuda's documentation that need more than other imports with numba-cuda-mlir.
CHANGED = ("test_cpu_gpu_compat", "test_montecarlo", "test_random")


def test_the_examples_of_numba_cuda_compute_with_numba_cuda_mlir(environment: Environment) -> None:
    """Only their imports change. docs/names-and-platforms.md has the table."""
    environment.needs("numba-cuda")
    environment.needs("numba-cuda-mlir")
    found = environment.report(PROGRAMS / "numba_examples.py")
    assert len(found) > 10
    wrong = {
        name: outcomes["numba-cuda-mlir"]
        for name, outcomes in found.items()
        if outcomes["numba-cuda"] == "passed" and outcomes["numba-cuda-mlir"] != "passed"
    }
    assert sorted(wrong) == sorted(CHANGED), wrong
