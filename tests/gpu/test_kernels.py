"""Kernels run on this machine's GPU from every environment: by cuda.core, by numba.cuda, by both on the same memory.

On a machine that has nothing but a GPU, Python and pytest, with environments unpacked below one folder (in subfolders
named ``none``, ``12.6``, ``13.0``, as ``cuda-version`` was pinned):

    CTK_GPU_ENVIRONMENTS=DIR python3 -m pytest --confcutdir tests/gpu tests/gpu

In a checkout with a channel and a GPU, ``./scripts/test gpu`` makes the environments itself. What a toolkit may do is
told by the driver and by the toolkit's own list of GPUs; nothing here knows what machine it runs on.
"""

from __future__ import annotations

import pytest
from gpu_environment import PROGRAMS, PROOF, Environment
from gpu_machine import Machine, numbers, right_fit

pytest_plugins = ["gpu_fixtures"]

UNSUPPORTED_PTX_VERSION = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION in cuda.h
ROUTES = PROGRAMS / "routes.py"
KERNELS = (
    *("arithmetic", "shared", "atomics", "libdevice", "cooperative", "device_function"),
    *("debug", "without_lto", "cached", "linked_with_source", "linked_with_ptx"),
)
RIGHT = {"wrong sums": 0, "reduction off by": 0}


@pytest.mark.parametrize("route", ["cubin", "nvjitlink lto", "nvjitlink ptx"])
def test_machine_code_runs_whatever_the_minor(environment: Environment, route: str) -> None:
    environment.needs("cuda-core")
    found = environment.report(ROUTES)
    assert found["linker"].lower().endswith("nvjitlink")
    assert found["routes"][route] == RIGHT
    assert route in found["cubins"]


def test_ptx_runs_from_a_native_toolkit_and_is_refused_from_a_newer_one(environment: Environment, gpu: Machine) -> None:
    environment.needs("cuda-core")
    found = environment.report(ROUTES)
    if environment.fit == "native":
        assert found["loading ptx"] == {"code": 0, "name": "CUDA_SUCCESS"}
        assert found["routes"]["ptx"] == RIGHT
    else:
        refused = {"code": UNSUPPORTED_PTX_VERSION, "name": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}
        assert found["loading ptx"] == refused, f"PTX ISA {found['ptx isa']}, driver for CUDA {gpu.driver}"
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
        assert found["loading linked ptx"] == refused, f"PTX ISA {found['linked ptx isa']}, driver for {gpu.driver}"
        assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in found["routes"]["nvjitlink lto to ptx"]["error"]


def test_native_or_compat_is_what_the_driver_says(environment: Environment, gpu: Machine) -> None:
    environment.needs("cuda-core")
    archs = tuple(environment.report(ROUTES)["archs"])
    assert environment.fit == right_fit(gpu, environment.toolkit, archs)


def test_the_toolkit_that_compiles_is_the_one_that_was_asked_for(environment: Environment) -> None:
    environment.needs("cuda-core")
    assert environment.report(ROUTES)["nvrtc"] == environment.toolkit
    if environment.name != "none":
        assert environment.toolkit == environment.name


@pytest.mark.parametrize("program", ["routes.py", "numba_kernels.py"])
def test_no_other_toolkit_of_this_machine_is_used(environment: Environment, program: str) -> None:
    environment.needs("numba-cuda" if program == "numba_kernels.py" else "cuda-core")
    assert environment.report(PROGRAMS / program)["foreign libraries"] == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_numba_kernel_gives_what_numpy_gives(environment: Environment, kernel: str) -> None:
    """On a compat toolkit too: numba-cuda has nvJitLink make machine code, and the driver sees no PTX."""
    environment.needs("numba-cuda")
    found = environment.report(PROGRAMS / "numba_kernels.py")["kernels"]
    assert sorted(found) == sorted(KERNELS)
    if kernel == "cooperative" and not list(environment.prefix.glob("targets/*/lib/libcudadevrt.a")):
        # NVIDIA's wheels have it from 12.9 on, and numba-cuda links it into every kernel with a grid barrier.
        assert numbers(environment.toolkit) < (12, 9)
        assert "libcudadevrt.a not found" in found[kernel]["error"]
        return
    assert "error" not in found[kernel], found[kernel]["error"]
    assert found[kernel]["difference"] <= found[kernel]["allowed"]


def test_ptx_of_libnvvm_runs_from_a_native_toolkit_and_is_refused_from_a_newer_one(environment: Environment) -> None:
    """What numba-cuda never does by itself, as it has nvJitLink make machine code: PTX for the driver."""
    environment.needs("numba-cuda")
    found = environment.report(PROGRAMS / "numba_kernels.py")["loading ptx"]
    assert found["code"] == (0 if environment.fit == "native" else UNSUPPORTED_PTX_VERSION), found


def test_numba_has_nvidias_cuda_target(environment: Environment) -> None:
    environment.needs("numba-cuda")
    assert environment.report(PROGRAMS / "numba_kernels.py")["target"].startswith("numba_cuda/")
    shown = environment.run("-m", "numba", "-s").stdout
    lines = dict(line.split(":", 1) for line in shown.splitlines() if line.startswith("CUDA ") and ":" in line)
    said = {name.strip(): value.strip() for name, value in lines.items()}
    assert said.get("CUDA Target Implementation") == "NVIDIA", shown
    assert said.get("CUDA Device Initialized") == "True", shown


def test_cuda_core_and_numba_share_memory_and_stream(environment: Environment) -> None:
    environment.needs("cuda-core")
    environment.needs("numba-cuda")
    found = environment.report(PROGRAMS / "interop.py")
    assert found["buffer: wrong"] == found["array: wrong"] == 0
    assert found["buffer: same address"] and found["array: same address"] and found["dlpack: same address"]
    assert found["array: seen as"] == [[100_003], "int64"]
    assert found["dlpack: bytes"] == 100_003 * 8
    assert found["dlpack: on the GPU"]


PROOFS = {
    "cuda-core": ("cuda_core.py",),
    "numba-cuda": ("numba_cuda.py",),
    "numba-cuda-mlir": ("numba_cuda.py", "numba_cuda_mlir"),
    "cccl-python": ("cccl_python.py",),
}


@pytest.mark.parametrize("package", PROOFS)
def test_the_proof_of_a_package_computes(environment: Environment, package: str) -> None:
    """The programs that `ctk prove` runs: they assert their numbers themselves."""
    environment.needs(package)
    file, *arguments = PROOFS[package]
    found = environment.report(PROOF / file, *arguments)
    assert found["gpus"] >= 1
    if package == "cuda-core":
        assert found["ptx"] == ("runs" if environment.fit == "native" else "refused, as it is newer than the driver")
