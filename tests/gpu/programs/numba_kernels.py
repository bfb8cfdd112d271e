"""Runs inside an environment with numba-cuda: kernels as users of ``numba.cuda`` write them, against NumPy.

Prints one JSON object: of each kernel, the largest difference from NumPy and what it may be.
"""

import json
import math
import sys
from pathlib import Path

import numba
import numpy as np
from numba import cuda, float32, int32

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
    found["foreign libraries"] = foreign()
    json.dump(found, sys.stdout)


main()
