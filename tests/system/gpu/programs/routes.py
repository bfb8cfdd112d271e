"""Runs inside an environment with cuda-core: two kernels through every route from C++ to the GPU,
against NumPy.

Prints one JSON object. Without a GPU the code is compiled and linked only, for compute capability
9.0; PTX is not, since cuda.core asks the driver whether it could load it. Both kernels give the
very bits that NumPy gives: one rounds each sum once, the other adds whole numbers.
"""

import json
import sys
from pathlib import Path

import cuda.core
import numpy as np
from cuda.bindings import driver, nvjitlink, nvrtc
from cuda.core import (
    Device,
    LaunchConfig,
    Linker,
    LinkerOptions,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
)

KERNELS = r"""
__device__ float plus(float x, float y);

extern "C" __global__ void add(float* out, const float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = plus(a[i], b[i]);
}

extern "C" __global__ void total(unsigned long long* out, const unsigned int* values, int n) {
    __shared__ unsigned long long part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? values[i] : 0;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
"""
HELPER = "__device__ float plus(float x, float y) { return x + y; }"
WHOLE = HELPER + KERNELS.replace("__device__ float plus(float x, float y);", "")
BLOCK = 256
SIZE = 1_000_003  # no multiple of a block


def cubin(arch: str) -> ObjectCode:
    """Machine code, from NVRTC."""
    return Program(WHOLE, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")


def ptx(arch: str) -> ObjectCode:
    """PTX, which the driver compiles when it loads it."""
    return Program(WHOLE, "c++", ProgramOptions(arch=f"compute_{arch}")).compile("ptx")


def lto_parts(arch: str) -> list[ObjectCode]:
    """Two parts as LTO code, which nvJitLink links and optimises as one."""
    options = ProgramOptions(
        arch=f"sm_{arch}", relocatable_device_code=True, link_time_optimization=True
    )
    return [Program(code, "c++", options).compile("ltoir") for code in (KERNELS, HELPER)]


def lto(arch: str) -> ObjectCode:
    """Machine code of the LTO code."""
    options = LinkerOptions(arch=f"sm_{arch}", link_time_optimization=True)
    return Linker(*lto_parts(arch), options=options).link("cubin")


def lto_ptx(arch: str) -> ObjectCode:
    """PTX of the LTO code, which nvJitLink writes and the driver compiles when it loads it."""
    options = LinkerOptions(arch=f"sm_{arch}", link_time_optimization=True, ptx=True)
    return Linker(*lto_parts(arch), options=options).link("ptx")


def ptx_linked(arch: str) -> ObjectCode:
    """PTX that nvJitLink compiles instead of the driver: so newer PTX runs on an older driver of
    the same major.
    """
    options = ProgramOptions(arch=f"compute_{arch}", relocatable_device_code=True)
    parts = [Program(code, "c++", options).compile("ptx") for code in (KERNELS, HELPER)]
    return Linker(*parts, options=LinkerOptions(arch=f"sm_{arch}")).link("cubin")


def isa(code: ObjectCode) -> str:
    """The version of PTX that a text is in."""
    return next(
        line.split()[1]
        for line in bytes(code.code).decode().splitlines()
        if line.startswith(".version")
    )


WITHOUT_DRIVER = {"cubin": cubin, "nvjitlink lto": lto, "nvjitlink lto to ptx": lto_ptx}
ROUTES = {**WITHOUT_DRIVER, "ptx": ptx, "nvjitlink ptx": ptx_linked}


def gpus() -> int:
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # no driver library on this machine
        return 0
    return int(driver.cuDeviceGetCount()[1]) if status == driver.CUresult.CUDA_SUCCESS else 0


class Bench:
    """A GPU with memory, and arrays that go to it and come back."""

    def __init__(self) -> None:
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.host = cuda.core.LegacyPinnedMemoryResource()

    def pinned(self, array: np.ndarray) -> cuda.core.Buffer:
        buffer = self.host.allocate(array.nbytes, stream=self.stream)
        np.from_dlpack(buffer).view(array.dtype)[:] = array
        return buffer

    def given(self, array: np.ndarray) -> cuda.core.Buffer:
        """A copy of an array in the GPU's memory."""
        there = self.device.allocate(array.nbytes, stream=self.stream)
        there.copy_from(self.pinned(array), stream=self.stream)
        self.stream.sync()
        return there

    def got(self, there: cuda.core.Buffer, like: np.ndarray) -> np.ndarray:
        """A copy of what the GPU has."""
        here = self.pinned(like)
        here.copy_from(there, stream=self.stream)
        self.stream.sync()
        return np.from_dlpack(here).view(like.dtype).copy()

    def run(self, code: ObjectCode) -> dict[str, object]:
        """How many elements of the sum of two vectors are not NumPy's, and by how much a reduction
        is off.
        """
        random = np.random.default_rng(11)
        a, b = (random.random(SIZE, dtype=np.float32) for _ in range(2))
        out = self.given(np.full(SIZE, np.nan, np.float32))
        config = LaunchConfig(grid=(SIZE + BLOCK - 1) // BLOCK, block=BLOCK)
        kernel = code.get_kernel("add")
        launch(self.stream, config, kernel, out, self.given(a), self.given(b), np.int32(SIZE))
        wrong = int((self.got(out, a) != a + b).sum())

        values = random.integers(0, 2**32, SIZE, dtype=np.uint32)
        sums = np.zeros(1, np.uint64)
        out = self.given(sums)
        launch(
            self.stream, config, code.get_kernel("total"), out, self.given(values), np.int32(SIZE)
        )
        off = abs(int(self.got(out, sums)[0]) - int(values.astype(object).sum()))
        return {"wrong sums": wrong, "reduction off by": off}


def tried(code: ObjectCode, bench: Bench) -> dict[str, object]:
    """What a route gives: numbers, or the error that cuda.core raises when the driver loads the
    code.
    """
    try:
        return bench.run(code)
    except Exception as error:  # cuda.core's own class, whose name is not public
        return {"error": f"{type(error).__name__}: {error}"}


def loaded(code: bytes) -> dict[str, object]:
    """What the driver answers when it is given PTX directly: its number and name for it."""
    Device().set_current()  # a module is loaded into a context
    status, module = driver.cuModuleLoadData(code if code.endswith(b"\0") else code + b"\0")
    if status == driver.CUresult.CUDA_SUCCESS:
        driver.cuModuleUnload(module)
    return {"code": int(status), "name": status.name}


def foreign() -> list[str]:
    """The toolkit's libraries in this process that are not the environment's, such as those of
    /usr/local/cuda.
    """
    names = ("libnvrtc", "libnvJitLink", "libnvvm", "libcudart")
    files = {
        line.split(maxsplit=5)[-1].strip()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/" in line
    }
    here = Path(sys.prefix).resolve()
    return sorted(
        f for f in files if Path(f).name.startswith(names) and not Path(f).is_relative_to(here)
    )


def main() -> None:
    status, *nvrtc_version = nvrtc.nvrtcVersion()
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    _, archs = nvrtc.nvrtcGetSupportedArchs()
    count = gpus()
    arch = "".join(map(str, Device().compute_capability)) if count else "90"
    codes = {name: route(arch) for name, route in (ROUTES if count else WITHOUT_DRIVER).items()}
    found = {
        "cuda-core": cuda.core.__version__,
        "nvrtc": ".".join(map(str, nvrtc_version)),
        "nvjitlink": ".".join(map(str, nvjitlink.version())),
        "linker": str(Linker.which_backend()),
        "archs": sorted(
            {f"{a // 10}.{a % 10}" for a in archs}, key=lambda a: tuple(map(int, a.split(".")))
        ),
        "arch": arch,
        "bytes": {name: len(code.code) for name, code in codes.items()},
        "cubins": sorted(
            name for name, code in codes.items() if bytes(code.code[:4]) == b"\x7fELF"
        ),
        "gpus": count,
    }
    found["linked ptx isa"] = isa(codes["nvjitlink lto to ptx"])
    if count:
        found["ptx isa"] = isa(codes["ptx"])
        found["loading ptx"] = loaded(bytes(codes["ptx"].code))
        found["loading linked ptx"] = loaded(bytes(codes["nvjitlink lto to ptx"].code))
        bench = Bench()
        found["routes"] = {name: tried(code, bench) for name, code in codes.items()}
    found["foreign libraries"] = foreign()
    json.dump(found, sys.stdout)


main()
