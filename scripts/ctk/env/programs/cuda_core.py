"""Runs inside an environment with cuda-core: compiles and links without a GPU, computes with one.

Prints one JSON object.
"""

import json
import platform
import sys
from pathlib import Path

import cuda.core
import numpy as np
from cuda.bindings import nvjitlink, nvrtc
from cuda.core import Linker, LinkerOptions, ObjectCode, Program, ProgramOptions

CODE = r"""
__device__ float twice(float x);
extern "C" __global__ void scale(float* out, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = twice(in[i]) + 1.0f;
}
"""
HELPER = "__device__ float twice(float x) { return x + x; }"
WHOLE = HELPER + CODE.replace("__device__ float twice(float x);", "")


def devices() -> int:
    from cuda.bindings import driver

    try:
        (status,) = driver.cuInit(0)
        if status != driver.CUresult.CUDA_SUCCESS:
            return 0
        return int(driver.cuDeviceGetCount()[1])
    except RuntimeError:  # no driver library on this machine
        return 0


def compute(kernel_of, arch: str) -> float:
    """Largest difference from NumPy over a vector."""
    from cuda.core import Device, LaunchConfig, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = kernel_of(arch).get_kernel("scale")
    n = 100_003
    values = np.random.default_rng(7).random(n, dtype=np.float32)
    pinned = (
        cuda.core.LegacyPinnedMemoryResource()
        if hasattr(cuda.core, "LegacyPinnedMemoryResource")
        else None
    )
    buffers = [(pinned or device.memory_resource).allocate(n * 4, stream=stream) for _ in range(2)]
    given, got = (np.from_dlpack(b).view(np.float32) for b in buffers)
    given[:] = values
    got[:] = np.nan
    launch(
        stream,
        LaunchConfig(grid=(n + 255) // 256, block=256),
        kernel,
        buffers[1],
        buffers[0],
        np.int32(n),
    )
    stream.sync()
    return float(np.abs(got - (2 * values + 1)).max())


def cubin(arch: str) -> ObjectCode:
    return Program(WHOLE, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")


def ptx(arch: str) -> ObjectCode:
    return Program(WHOLE, "c++", ProgramOptions(arch=f"compute_{arch}")).compile("ptx")


def linked(arch: str) -> ObjectCode:
    options = ProgramOptions(
        arch=f"sm_{arch}", relocatable_device_code=True, link_time_optimization=True
    )
    parts = [Program(code, "c++", options).compile("ltoir") for code in (CODE, HELPER)]
    return Linker(
        *parts, options=LinkerOptions(arch=f"sm_{arch}", link_time_optimization=True)
    ).link("cubin")


def fit() -> str:
    """``native`` or ``compat``: the build of cuda-version in this environment."""
    (record,) = (Path(sys.prefix) / "conda-meta").glob("cuda-version-[0-9]*.json")
    return str(json.loads(record.read_text())["build"].partition("_")[0])


def loaded_ptx(arch: str) -> str:
    """Whether the driver loads this toolkit's PTX, in words."""
    try:
        difference = compute(ptx, arch)
    except Exception as error:  # cuda.core's own class, whose name is not public
        if "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" not in str(error):
            raise
        return "refused, as it is newer than the driver"
    assert difference < 1e-6
    return "runs"


def main() -> None:
    major, minor = nvrtc.nvrtcVersion()[1:]
    _, archs = nvrtc.nvrtcGetSupportedArchs()
    count = devices()
    if count:
        from cuda.core import Device

        arch = "".join(map(str, Device().compute_capability))
    else:
        arch = str(max(a for a in archs if a <= 90))
    found = {
        "python": platform.python_version(),
        "cuda-core": cuda.core.__version__,
        "nvrtc": f"{major}.{minor}",
        "nvjitlink": ".".join(map(str, nvjitlink.version())),
        "cuda-version": fit(),
        "arch": arch,
        "cubin bytes": len(cubin(arch).code),
        "linked bytes": len(linked(arch).code),
        "gpus": count,
    }
    assert cubin(arch).code[:4] == linked(arch).code[:4] == b"\x7fELF", "not a cubin"
    if count:
        found["largest difference, cubin"] = compute(cubin, arch)
        found["largest difference, linked"] = compute(linked, arch)
        assert found["largest difference, cubin"] < 1e-6 > found["largest difference, linked"]
        found["ptx"] = loaded_ptx(arch)
        assert found["ptx"] == "runs" or found["cuda-version"] == "compat", (
            "a native toolkit's PTX must load"
        )
    json.dump(found, sys.stdout)


main()
