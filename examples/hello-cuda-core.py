"""A first program with cuda.core: compiles a kernel, links another, and runs both on a GPU.

On a machine without a GPU it compiles and links them, and says that they did not run.

    ctk env create cuda-core --prefix ./my-env
    ctk env run ./my-env -- python hello-cuda-core.py
"""

import json
import platform
import sys
from pathlib import Path

try:
    import numpy as np
    from cuda import core
    from cuda.bindings import driver, nvjitlink, nvrtc
    from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions
except ImportError as error:
    sys.exit(
        f"error: {error}\n"
        "next: start this with the Python of an environment with cuda-core:"
        " `ctk env add ./my-env cuda-core` adds it to one,"
        " and `ctk env create cuda-core --prefix ./my-env` makes one"
    )

# out = 2 * in + 1. The kernel calls a function that another source defines.
KERNEL = r"""
__device__ float twice(float x);

extern "C" __global__ void scale(float* out, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = twice(in[i]) + 1.0f;
}
"""
FUNCTION = "__device__ float twice(float x) { return x + x; }\n"

SIZE = 100_003  # not a multiple of a block
BLOCK = 256
TOLERANCE = 1e-6


def main():
    print_versions()
    gpus = count_gpus()
    arch = gpu_architecture() if gpus else newest_known_architecture()
    show("arch", arch)

    compiled = compile_cubin(arch)
    show("cubin bytes", len(compiled.code))
    linked = link_cubin(arch)
    show("linked bytes", len(linked.code))
    for name, cubin in (("compiled", compiled), ("linked", linked)):
        if bytes(cubin.code[:4]) != b"\x7fELF":
            fail(f"the {name} kernel is not machine code for a GPU")

    show("gpus", gpus)
    if not gpus:
        print(f"no GPU here, so kernels were compiled and linked for sm_{arch}, not run")
        return
    show("largest difference, cubin", checked(run(compiled)))
    show("largest difference, linked", checked(run(linked)))
    show("ptx", run_ptx(arch))


def print_versions():
    """Prints what is in this environment, and how its toolkit fits the driver."""
    _, major, minor = nvrtc.nvrtcVersion()
    show("python", platform.python_version())
    show("cuda-core", core.__version__)
    show("toolkit", toolkit_of_environment())
    show("nvrtc", f"{major}.{minor}")
    show("nvjitlink", ".".join(map(str, nvjitlink.version())))


def toolkit_of_environment():
    """The version of cuda-version and its build: native or compat."""
    for file in Path(sys.prefix, "conda-meta").glob("cuda-version-[0-9]*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        fit = record["build"].partition("_")[0]
        return f"{record['version']} {fit}"
    return "not from conda"


def count_gpus():
    """The number of GPUs that the driver finds; 0 without a driver."""
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # there is no driver library
        return 0
    if status != driver.CUresult.CUDA_SUCCESS:
        return 0
    _, count = driver.cuDeviceGetCount()
    return int(count)


def gpu_architecture():
    """The compute capability of the first GPU, as in sm_90."""
    major, minor = Device().compute_capability
    return f"{major}{minor}"


def newest_known_architecture():
    """One that this toolkit compiles for: the newest up to 9.0."""
    _, known = nvrtc.nvrtcGetSupportedArchs()
    return str(max(arch for arch in known if arch <= 90))


def compile_cubin(arch):
    """Machine code of one source, by NVRTC."""
    whole = FUNCTION + KERNEL
    return Program(whole, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")


def link_cubin(arch):
    """Machine code of two sources, which nvJitLink links and optimises together."""
    options = ProgramOptions(
        arch=f"sm_{arch}", relocatable_device_code=True, link_time_optimization=True
    )
    parts = [Program(code, "c++", options).compile("ltoir") for code in (KERNEL, FUNCTION)]
    linker = Linker(*parts, options=LinkerOptions(arch=f"sm_{arch}", link_time_optimization=True))
    return linker.link("cubin")


def run(code):
    """Runs the kernel on the first GPU, and returns its largest difference from NumPy's result."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = code.get_kernel("scale")

    # Pinned memory: NumPy and the GPU use the same arrays.
    memory = core.LegacyPinnedMemoryResource()
    given = memory.allocate(SIZE * 4, stream=stream)
    out = memory.allocate(SIZE * 4, stream=stream)
    values = np.from_dlpack(given).view(np.float32)
    results = np.from_dlpack(out).view(np.float32)
    values[:] = np.random.default_rng(7).random(SIZE, dtype=np.float32)
    results[:] = np.nan

    blocks = (SIZE + BLOCK - 1) // BLOCK
    core.launch(stream, LaunchConfig(grid=blocks, block=BLOCK), kernel, out, given, np.int32(SIZE))
    stream.sync()
    expected = 2 * values + 1
    return float(np.abs(results - expected).max())


def run_ptx(arch):
    """Runs the kernel from PTX, which the driver compiles, and says if the driver takes it.

    A driver takes PTX of a toolkit that is not newer than itself. A `native` toolkit is not; a
    `compat` one may be, and then only machine code runs.
    """
    whole = FUNCTION + KERNEL
    try:
        code = Program(whole, "c++", ProgramOptions(arch=f"compute_{arch}")).compile("ptx")
        difference = run(code)
    except Exception as error:  # cuda.core's own class, whose name is not public
        if "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" not in str(error):
            raise
        if toolkit_of_environment().endswith("native"):
            fail("the driver refuses the PTX of a native toolkit")
        return "refused, as it is newer than the driver"
    checked(difference)
    return "runs"


def checked(difference):
    """The difference, if it is as small as it must be. NaN is not."""
    if not difference < TOLERANCE:
        fail(f"the GPU's result differs from NumPy's by {difference}")
    return difference


def show(name, value):
    print(f"{name:<28}{value}", flush=True)


def fail(cause):
    sys.exit(
        f"error: {cause}\n"
        f"next: `ctk doctor {sys.prefix}` looks for what is wrong with this environment"
    )


if __name__ == "__main__":
    main()
