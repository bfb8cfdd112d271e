"""Runs inside an environment with cccl-python: compiles with its headers without a GPU, reduces an
array with one.

Prints one JSON object.
"""

import json
import platform
import sys
import warnings
from importlib.metadata import version

import numpy as np
from cuda.bindings import nvrtc
from cuda.cccl import get_include_paths
from cuda.core import Program, ProgramOptions

with warnings.catch_warnings():
    # Its library needs the driver's; without a driver, importing says so, and cuda.compute is
    # empty.
    warnings.filterwarnings("ignore", "CUDA CCCL bindings", RuntimeWarning)
    import cuda.compute
    import cuda.compute._mlir  # what compiles operators in Python: it reads much of numba-cuda-mlir

CODE = r"""
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void total(float* out, const float* in) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage shared;
    float sum = Reduce(shared).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0) *out = sum;
}
"""


def larger(a, b):
    return a if a > b else b  # noqa: FURB136 - it is compiled as it stands


def reduced() -> dict[str, float]:
    """What a GPU computes: with an operator that is known, and with one that is compiled from
    Python.
    """
    from numba_cuda_mlir import cuda as device

    values = np.random.default_rng(7).random(100_003, dtype=np.float32)
    given, got = device.to_device(values), device.to_device(np.zeros(1, np.float32))
    found = {}
    start = np.zeros(1, np.float32)
    cuda.compute.reduce_into(
        d_in=given, d_out=got, num_items=values.size, op=cuda.compute.OpKind.PLUS, h_init=start
    )
    found["sum"] = abs(float(got.copy_to_host()[0]) / float(values.astype(np.float64).sum()) - 1)
    cuda.compute.reduce_into(d_in=given, d_out=got, num_items=values.size, op=larger, h_init=start)
    found["largest"] = abs(float(got.copy_to_host()[0]) - float(values.max()))
    return found


def main() -> None:
    headers = [str(path) for path in get_include_paths().as_tuple()]
    options = ProgramOptions(arch="sm_90", std="c++17", include_path=headers)
    cubin = Program(CODE, "c++", options).compile("cubin").code
    available = cuda.compute._bindings._BINDINGS_AVAILABLE
    found = {
        "python": platform.python_version(),
        "cuda-cccl": version("cuda-cccl"),
        "nvrtc": ".".join(map(str, nvrtc.nvrtcVersion()[1:])),
        "headers": headers[0].split("site-packages/")[-1],
        "cubin bytes": len(cubin),
        "driver": available,
        "gpus": 0,
    }
    assert cubin[:4] == b"\x7fELF", "not a cubin"
    assert found["headers"].startswith("cuda/cccl"), "the toolkit's own CCCL is in use"
    if available:
        from numba_cuda_mlir import cuda as device

        found["gpus"] = len(device.list_devices()) if device.is_available() else 0
    if found["gpus"]:
        found["differences"] = reduced()
        assert found["differences"]["sum"] < 1e-5
        assert found["differences"]["largest"] == 0
    json.dump(found, sys.stdout)


main()
