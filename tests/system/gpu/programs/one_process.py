"""One array in one process: PyTorch makes it, CuPy, numba-cuda, cuda-core and JAX use it where it
lies.

Prints one JSON object: who saw the array at which address, what it held in the end, the toolkit
that each library says it uses, and the libraries of CUDA that are loaded.
"""

import json
import os
import sys

import cupy
import jax
import numpy as np
import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.utils import StridedMemoryView
from numba import cuda

LENGTH = 1000
SOURCE = """
extern "C" __global__ void triple(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3;
}
"""


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def main():
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # an isolated Python leaves it out
    from loaded import loaded

    seen = {}
    array = torch.arange(LENGTH, dtype=torch.float32, device="cuda")
    seen["torch"] = array.data_ptr()

    doubled = cupy.from_dlpack(array)  # DLPack
    doubled *= 2
    seen["cupy"] = doubled.data.ptr
    cupy.cuda.get_current_stream().synchronize()

    view = cuda.as_cuda_array(array)  # the CUDA array interface
    add_one[4, 256](view)
    seen["numba-cuda"] = view.device_ctypes_pointer.value
    cuda.synchronize()

    device = Device()
    device.set_current()
    stream = device.create_stream()
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    strided = StridedMemoryView.from_any_interface(array, stream_ptr=-1)
    launch(
        stream,
        LaunchConfig(grid=4, block=256),
        code.get_kernel("triple"),
        strided.ptr,
        np.int32(LENGTH),
    )
    stream.sync()
    seen["cuda-core"] = int(strided.ptr)

    there = jax.dlpack.from_dlpack(array)
    seen["jax"] = there.unsafe_buffer_pointer()
    summed = float(jax.jit(lambda x: x.sum())(there))
    back = torch.from_dlpack(there)
    seen["torch, from jax"] = back.data_ptr()

    wanted = (np.arange(LENGTH, dtype=np.float32) * 2 + 1) * 3
    print(
        json.dumps(
            {
                "seen": seen,
                "difference": float(np.abs(back.cpu().numpy() - wanted).max()),
                "sum off by": (
                    abs(summed - float(wanted.sum(dtype=np.float64)))
                    / float(wanted.sum(dtype=np.float64))
                ),
                "toolkit": {
                    "torch": torch.version.cuda,
                    "cupy": "{}.{}".format(
                        *divmod(
                            cupy.cuda.nvrtc.getVersion()[0] * 10 + cupy.cuda.nvrtc.getVersion()[1],
                            10,
                        )
                    ),
                    "runtime": cupy.cuda.runtime.runtimeGetVersion(),
                },
                "gpu": jax.devices()[0].device_kind,
                "loaded": loaded(),
            }
        )
    )


main()
