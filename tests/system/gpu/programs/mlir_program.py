"""Runs inside an environment with numba-cuda-mlir: compiles kernels without a GPU, sums with one.

Prints one JSON object.
"""

import json
import math
import platform
import sys
from importlib.metadata import version

import numpy as np
from numba_cuda_mlir import cuda, tools, types


def kernel(out, values, factor):
    """Each block sums its tile in shared memory; a sine on the way."""
    tile = cuda.shared.array(64, types.float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile[t] = math.sin(values[i]) * factor if i < values.size else 0.0
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


def half(value):
    return value * 0.5


SIGNATURE = types.void(types.float32[::1], types.float32[::1], types.float32)


def relative_difference() -> float:
    """The relative difference between the kernel's result on the GPU and NumPy's."""
    values = np.random.default_rng(7).random(100_003).astype(np.float32)
    out = cuda.to_device(np.zeros(1, np.float32))
    blocks = (values.size + 63) // 64
    cuda.jit(kernel)[blocks, 64](out, cuda.to_device(values), np.float32(0.5))
    expected = float(np.sin(values.astype(np.float64)).sum() * 0.5)
    return abs(float(out.copy_to_host()[0]) - expected) / expected


def value_of(directive: str, ptx: str) -> str:
    lines = [line for line in ptx.splitlines() if line.startswith(directive)]
    return lines[0].split()[1]


def main() -> None:
    gpus = len(cuda.list_devices()) if cuda.is_available() else 0
    if not gpus:
        tools._cached_cc = (9, 0)  # else it asks the driver for a GPU, even with an explicit one
    capability = tools.get_gpu_compute_capability(tuple)
    ptx, _ = cuda.compile_ptx(kernel, SIGNATURE, cc=capability)
    cubin = cuda.compile_cubin(kernel, SIGNATURE, chip="sm_{}{}".format(*capability))
    code, returned = cuda.compile(half, types.float32(types.float32), cc=capability, output="ltoir")
    assert bytes(cubin[:4]) == b"\x7fELF", "not a cubin"
    assert returned == types.float32
    found = {
        "python": platform.python_version(),
        "numba-cuda-mlir": version("numba-cuda-mlir"),
        "ptx isa": value_of(".version", ptx),
        "ptx target": value_of(".target", ptx),
        "ptx bytes": len(ptx),
        "cubin bytes": len(cubin),
        "lto bytes": len(code),
        "gpus": gpus,
    }
    if gpus:
        found["relative difference"] = relative_difference()
        assert found["relative difference"] < 1e-5
    json.dump(found, sys.stdout)


main()
