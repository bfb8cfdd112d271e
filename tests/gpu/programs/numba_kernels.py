"""Runs inside an environment with numba-cuda: kernels as users of ``numba.cuda`` write them, against NumPy.

Prints one JSON object: of each kernel, the largest difference from NumPy and what it may be; and what the driver
answers when it is given PTX of libNVVM.
"""

import json
import math
import os
import sys
import tempfile
from pathlib import Path

SCRATCH = tempfile.TemporaryDirectory(prefix="numba-kernels-")
os.environ["NUMBA_CACHE_DIR"] = SCRATCH.name  # numba reads it when it is imported

import numba  # noqa: E402
import numpy as np  # noqa: E402
from cuda.bindings import driver  # noqa: E402
from numba import cuda, float32, int32, int64, void  # noqa: E402

SIZE = 100_003  # no multiple of a block
BLOCK = 128
GRID = (SIZE + BLOCK - 1) // BLOCK


@cuda.jit
def arithmetic(out, a, b):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (a[i] - b[i]) * 3 + a[i] // b[i] - a[i] % b[i]


@cuda.jit
def shared(out, values):
    """Each block turns its tile round, through shared memory."""
    tile = cuda.shared.array(BLOCK, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < values.size:
        tile[t] = values[i]
    cuda.syncthreads()
    first = cuda.blockIdx.x * BLOCK
    last = min(first + BLOCK, values.size) - 1
    if i < values.size:
        out[i] = tile[last - first - t]


@cuda.jit
def atomics(counts, most, values):
    """A histogram and a maximum that all threads write to."""
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i] % counts.size, 1)
        cuda.atomic.max(most, 0, values[i])


@cuda.jit
def libdevice(out, values):
    i = cuda.grid(1)
    if i < values.size:
        x = values[i]
        out[i] = math.erf(x) + math.exp(-x) * math.sin(x) + math.lgamma(x + 1.5) + math.atan2(x, 2.0)


@cuda.jit
def cooperative(steps, values):
    """All blocks wait for each other between steps, which takes a cooperative launch: steps add a neighbour's value."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for step in range(steps.shape[0] - 1):
        j = i
        while j < values.size:
            steps[step + 1, j] = steps[step, j] + steps[step, (j + 1) % values.size]
            j += cuda.gridsize(1)
        grid.sync()


@cuda.jit(device=True)
def half(x):
    return x * float32(0.5)


@cuda.jit
def lazily_typed(out, values):
    """A device function, and a kernel that is compiled for two types."""
    i = cuda.grid(1)
    if i < values.size:
        out[i] = half(values[i])


def plus_one(out, values):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = values[i] + 1


def off_plus_one(kernel, random):
    """By how much a kernel made of `plus_one` is off."""
    values = random.integers(0, 10**9, SIZE)
    out = cuda.device_array_like(values)
    kernel[GRID, BLOCK](out, cuda.to_device(values))
    return np.abs(out.copy_to_host() - (values + 1)).max(), 0


def off_twice(link, abi, random):
    """By how much a kernel is off that calls a function ``twice`` of another file."""
    twice = cuda.declare_device("twice", int64(int64), link=[str(link)], abi=abi)

    @cuda.jit
    def kernel(out, values):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(values[i])

    values = random.integers(0, 10**9, SIZE)
    out = cuda.device_array_like(values)
    kernel[GRID, BLOCK](out, cuda.to_device(values))
    return np.abs(out.copy_to_host() - 2 * values).max(), 0


def test_debug(random):
    """Without link-time optimisation: libNVVM writes PTX, which nvJitLink compiles."""
    return off_plus_one(cuda.jit(plus_one, debug=True, opt=False), random)


def test_without_lto(random):
    return off_plus_one(cuda.jit(plus_one, lto=False), random)


def test_cached(random):
    """The second time the machine code is read from the disk."""
    off = 0
    for _ in range(2):
        kernel = cuda.jit(plus_one, cache=True)
        off += off_plus_one(kernel, random)[0]
    if not kernel.stats.cache_hits:
        raise RuntimeError("it was compiled again")
    return off, 0


def test_linked_with_source(random):
    """A device function in CUDA C++, which NVRTC compiles."""
    source = Path(SCRATCH.name) / "twice.cu"
    source.write_text('extern "C" __device__ int twice(long long* result, long long x) { *result = 2 * x; return 0; }')
    return off_twice(source, "numba", random)


def test_linked_with_ptx(random):
    """A device function as PTX, here of libNVVM."""

    def twice(x):
        return 2 * x

    options = {"device": True, "abi": "c", "abi_info": {"abi_name": "twice"}, "output": "ptx"}
    code, _ = cuda.compile_for_current_device(twice, int64(int64), **options)
    file = Path(SCRATCH.name) / "twice.ptx"
    file.write_text(code)
    return off_twice(file, "c", random)


def loading_ptx() -> dict[str, object]:
    """What the driver answers to PTX of libNVVM; the version that it states."""
    code, _ = cuda.compile_for_current_device(plus_one, void(int64[:], int64[:]), output="ptx")
    cuda.current_context()  # a module is loaded into a context
    status, module = driver.cuModuleLoadData(code.encode() + b"\0")
    if status == driver.CUresult.CUDA_SUCCESS:
        driver.cuModuleUnload(module)
    isa = next(line.split()[1] for line in code.splitlines() if line.startswith(".version"))
    return {"code": int(status), "name": status.name, "isa": isa}


def test_arithmetic(random):
    a, b = random.integers(-(10**6), 10**6, SIZE), random.integers(1, 1000, SIZE)
    out = cuda.device_array(SIZE, np.int64)
    arithmetic[GRID, BLOCK](out, cuda.to_device(a), cuda.to_device(b))
    return np.abs(out.copy_to_host() - ((a - b) * 3 + a // b - a % b)).max(), 0


def test_shared(random):
    values = random.integers(0, 2**31, SIZE, dtype=np.int32)
    out = cuda.device_array_like(values)
    shared[GRID, BLOCK](out, cuda.to_device(values))
    turned = np.concatenate([values[i : i + BLOCK][::-1] for i in range(0, SIZE, BLOCK)])
    return int((out.copy_to_host() != turned).sum()), 0


def test_atomics(random):
    values = random.integers(0, 10**9, SIZE, dtype=np.int64)
    counts, most = cuda.to_device(np.zeros(97, np.int64)), cuda.to_device(np.zeros(1, np.int64))
    atomics[GRID, BLOCK](counts, most, cuda.to_device(values))
    wrong = np.abs(counts.copy_to_host() - np.bincount(values % 97, minlength=97)).max()
    return wrong + abs(int(most.copy_to_host()[0]) - int(values.max())), 0


def test_libdevice(random):
    values = random.random(SIZE) * 8
    out = cuda.device_array_like(values)
    libdevice[GRID, BLOCK](out, cuda.to_device(values))
    own = np.array(
        [math.erf(x) + math.exp(-x) * math.sin(x) + math.lgamma(x + 1.5) + math.atan2(x, 2.0) for x in values]
    )
    return np.abs(out.copy_to_host() - own).max(), 1e-13  # the sums are below 20, each function within some ulps


def test_cooperative(random):
    values = random.integers(0, 100, 10_007, dtype=np.int64)
    expected = values
    for _ in range(16):
        expected = expected + np.roll(expected, -1)
    steps = np.zeros((17, values.size), np.int64)
    steps[0] = values
    given = cuda.to_device(steps)
    cooperative[32, BLOCK](given, cuda.to_device(values))
    return np.abs(given.copy_to_host()[-1] - expected).max(), 0


def test_device_function(random):
    worst = 0.0
    for kind in (np.float32, np.float64):
        values = random.random(SIZE).astype(kind)
        out = cuda.device_array_like(values)
        lazily_typed[GRID, BLOCK](out, cuda.to_device(values))
        worst = max(worst, float(np.abs(out.copy_to_host() - values * kind(0.5)).max()))
    return worst, 0


def foreign() -> list[str]:
    """The toolkit's libraries in this process that are not the environment's, such as those of /usr/local/cuda."""
    names = ("libnvrtc", "libnvJitLink", "libnvvm", "libcudart")
    files = {
        line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line
    }
    here = Path(sys.prefix).resolve()
    return sorted(f for f in files if Path(f).name.startswith(names) and not Path(f).is_relative_to(here))


def main() -> None:
    import numba_cuda

    gpus = len(cuda.list_devices()) if cuda.is_available() else 0
    found = {
        "numba": numba.__version__,
        "numba-cuda": numba_cuda.__version__,
        "target": Path(cuda.__file__).resolve().as_posix().split("site-packages/")[-1],
        "gpus": gpus,
        "kernels": {},
    }
    tests = {name.removeprefix("test_"): f for name, f in globals().items() if name.startswith("test_")}
    for name, test in tests.items() if gpus else ():
        try:
            difference, allowed = test(np.random.default_rng(5))
            found["kernels"][name] = {"difference": float(difference), "allowed": allowed}
        except Exception as error:
            found["kernels"][name] = {"error": f"{type(error).__name__}: {error}"}
    if gpus:
        found["loading ptx"] = loading_ptx()
    found["foreign libraries"] = foreign()
    json.dump(found, sys.stdout)


main()
