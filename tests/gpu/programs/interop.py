"""Runs inside an environment with both: cuda.core and numba.cuda work on the same memory, and on the same stream.

Prints one JSON object. Nothing is copied between the two: that the address stays the same is among what is shown.
"""

import json
import sys

import cuda.core
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.utils import StridedMemoryView
from numba import cuda as numba_cuda

CODE = r"""
extern "C" __global__ void triple(long long* values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= 3;
}
"""
SIZE = 100_003
BLOCK = 128
CONFIG = LaunchConfig(grid=(SIZE + BLOCK - 1) // BLOCK, block=BLOCK)


class Exported:
    """A buffer of cuda.core as numba takes memory of others: with shape and type, by the CUDA array interface.

    A buffer exports DLPack, of bytes, and numba takes the CUDA array interface only.
    """

    def __init__(self, buffer, shape, dtype) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (int(buffer.handle), False),
            "strides": None,
            "version": 3,
        }


@numba_cuda.jit
def increment(values):
    i = numba_cuda.grid(1)
    if i < values.size:
        values[i] += 1


def main() -> None:
    found: dict[str, object] = {"cuda-core": cuda.core.__version__, "gpus": 0}
    if numba_cuda.is_available():
        found["gpus"] = len(numba_cuda.list_devices())
        found.update(shared())
    json.dump(found, sys.stdout)


def shared() -> dict[str, object]:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    same_stream = numba_cuda.external_stream(int(stream.handle))
    arch = "".join(map(str, device.compute_capability))
    triple = Program(CODE, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin").get_kernel("triple")
    values = np.arange(SIZE, dtype=np.int64)
    found: dict[str, object] = {}

    # Memory of cuda.core, which numba works on: increment, triple, increment, on one stream without a wait between.
    host = cuda.core.LegacyPinnedMemoryResource().allocate(values.nbytes, stream=stream)
    np.from_dlpack(host).view(np.int64)[:] = values
    buffer = device.allocate(values.nbytes, stream=stream)
    buffer.copy_from(host, stream=stream)
    array = numba_cuda.as_cuda_array(Exported(buffer, (SIZE,), np.int64))
    increment[CONFIG.grid, BLOCK, same_stream](array)
    launch(stream, CONFIG, triple, buffer, np.int32(SIZE))
    increment[CONFIG.grid, BLOCK, same_stream](array)
    host.copy_from(buffer, stream=stream)
    stream.sync()
    found["buffer: wrong"] = int((np.from_dlpack(host).view(np.int64) != (values + 1) * 3 + 1).sum())
    found["buffer: same address"] = array.__cuda_array_interface__["data"][0] == int(buffer.handle)

    # The same buffer by DLPack, as any library takes it.
    view = StridedMemoryView.from_dlpack(buffer, stream_ptr=-1)
    found["dlpack: same address"] = view.ptr == int(buffer.handle)
    found["dlpack: bytes"] = int(np.prod(view.shape)) * view.dtype.itemsize
    found["dlpack: on the GPU"] = bool(view.is_device_accessible)

    # Memory of numba, which cuda.core works on.
    array = numba_cuda.to_device(values, stream=same_stream)
    view = StridedMemoryView.from_cuda_array_interface(array, stream_ptr=int(stream.handle))
    increment[CONFIG.grid, BLOCK, same_stream](array)
    launch(stream, CONFIG, triple, view.ptr, np.int32(SIZE))
    got = array.copy_to_host(stream=same_stream)
    stream.sync()
    found["array: wrong"] = int((got != (values + 1) * 3).sum())
    found["array: same address"] = view.ptr == array.__cuda_array_interface__["data"][0]
    found["array: seen as"] = [list(view.shape), str(view.dtype)]
    return found


main()
