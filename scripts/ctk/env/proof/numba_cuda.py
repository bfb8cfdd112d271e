"""Runs inside an environment with numba-cuda: compiles a kernel without a GPU, computes with one.

Prints one JSON object. The code is what users of ``numba.cuda`` have always written.
"""

import json
import math
import platform
import sys
from pathlib import Path

import numba
import numpy as np
from numba import cuda, float32, types


def kernel(out, values, factor):
    """Each block sums its tile in shared memory; libdevice's sine on the way."""
    tile = cuda.shared.array(64, float32)
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


def main() -> None:
    signature = types.void(float32[::1], float32[::1], float32)
    gpus = len(cuda.list_devices()) if cuda.is_available() else 0
    capability = cuda.get_current_device().compute_capability if gpus else (9, 0)
    ptx, returned = cuda.compile_ptx(kernel, signature.args, cc=capability)
    import numba_cuda

    found = {
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numba-cuda": numba_cuda.__version__,
        "target": Path(cuda.__file__).resolve().as_posix().split("site-packages/")[-1],
        "ptx isa": next(line.split()[1] for line in ptx.splitlines() if line.startswith(".version")),
        "ptx target": next(line.split()[1] for line in ptx.splitlines() if line.startswith(".target")),
        "ptx bytes": len(ptx),
        "gpus": gpus,
    }
    assert str(returned) == "none"
    assert found["target"].startswith("numba_cuda"), "numba's own, old CUDA target is in use"
    if gpus:
        values = np.random.default_rng(7).random(100_003).astype(np.float32)
        out = cuda.to_device(np.zeros(1, np.float32))
        cuda.jit(signature)(kernel)[(values.size + 63) // 64, 64](out, cuda.to_device(values), np.float32(0.5))
        expected = float(np.sin(values.astype(np.float64)).sum() * 0.5)
        found["relative difference"] = abs(float(out.copy_to_host()[0]) - expected) / expected
        assert found["relative difference"] < 1e-5
    json.dump(found, sys.stdout)


main()
