"""Compiles a kernel with numba-cuda, or with the module named, numba_cuda_mlir.

With a GPU it also runs the kernel.
    PREFIX/bin/python -I numba_cuda.py [numba_cuda_mlir]

Prints one JSON object. The code is what users of ``numba.cuda`` have always written.
"""

import json
import math
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

if sys.argv[1:] == ["numba_cuda_mlir"]:
    from numba_cuda_mlir import cuda, tools, types
else:
    from numba import cuda, types

    tools = None


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


def with_numba_cuda(gpus: int) -> tuple[str, dict[str, object]]:
    """The kernel's PTX, and findings."""
    capability = cuda.get_current_device().compute_capability if gpus else (9, 0)
    ptx, returned = cuda.compile_ptx(kernel, SIGNATURE.args, cc=capability)
    assert str(returned) == "none"
    target = Path(cuda.__file__).resolve().as_posix().split("site-packages/")[-1]
    assert target.startswith("numba_cuda"), "numba's own, old CUDA target is in use"
    return ptx, {"numba": version("numba"), "numba-cuda": version("numba-cuda"), "target": target}


def with_mlir(gpus: int) -> tuple[str, dict[str, object]]:
    """The kernel's PTX, and findings; it also compiles to a cubin and to code for linking."""
    if not gpus:
        tools._cached_cc = (9, 0)  # else it asks the driver for a GPU, even with an explicit one
    capability = tools.get_gpu_compute_capability(tuple)
    ptx, _ = cuda.compile_ptx(kernel, SIGNATURE, cc=capability)
    cubin = cuda.compile_cubin(kernel, SIGNATURE, chip="sm_{}{}".format(*capability))
    code, returned = cuda.compile(half, types.float32(types.float32), cc=capability, output="ltoir")
    assert bytes(cubin[:4]) == b"\x7fELF", "not a cubin"
    assert returned == types.float32
    return ptx, {
        "numba-cuda-mlir": version("numba-cuda-mlir"),
        "cubin bytes": len(cubin),
        "lto bytes": len(code),
    }


def relative_difference() -> float:
    """The relative difference between the kernel's result on the GPU and NumPy's."""
    values = np.random.default_rng(7).random(100_003).astype(np.float32)
    out = cuda.to_device(np.zeros(1, np.float32))
    compiled = cuda.jit(kernel) if tools else cuda.jit(SIGNATURE)(kernel)
    compiled[(values.size + 63) // 64, 64](out, cuda.to_device(values), np.float32(0.5))
    expected = float(np.sin(values.astype(np.float64)).sum() * 0.5)
    return abs(float(out.copy_to_host()[0]) - expected) / expected


def main() -> None:
    gpus = len(cuda.list_devices()) if cuda.is_available() else 0
    ptx, findings = with_mlir(gpus) if tools else with_numba_cuda(gpus)
    words = {
        line.split()[0]: line.split()[1]
        for line in ptx.splitlines()
        if line.startswith((".version", ".target"))
    }
    findings |= {
        "python": platform.python_version(),
        "ptx isa": words[".version"],
        "ptx target": words[".target"],
        "ptx bytes": len(ptx),
        "gpus": gpus,
    }
    if gpus:
        difference = relative_difference()
        assert difference < 1e-5
        findings["relative difference"] = difference
    json.dump(findings, sys.stdout)


main()
