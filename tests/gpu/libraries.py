"""Uses cuDNN and NCCL of an environment on this machine's GPUs, with nothing but ctypes: `python libraries.py PREFIX`.

A convolution is compared with the same sums in Python, and a sum over all GPUs with what each of them gave. Prints one
line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from array import array
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from itertools import product
from pathlib import Path

_CUDNN_FLOAT = 0
_NCHW = 0
_CROSS_CORRELATION = 1
_IMPLICIT_GEMM = 0
_NCCL_FLOAT, _NCCL_SUM = 7, 0


def check(what: str, status: int) -> None:
    if status:
        raise SystemExit(f"{what} gave {status}")


class Gpus:
    """The GPUs, each with its primary context, by the driver's own interface."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        count = c_int()
        self.call("cuDeviceGetCount", byref(count))
        self.count = count.value
        self.contexts = []
        for number in range(self.count):
            context = c_void_p()
            self.call("cuDevicePrimaryCtxRetain", byref(context), number)
            self.contexts.append(context)

    def call(self, name: str, *values: object) -> None:
        check(name, getattr(self.driver, name)(*values))

    def use(self, number: int) -> None:
        self.call("cuCtxSetCurrent", self.contexts[number])

    def put(self, values: Sequence[float]) -> c_uint64:
        """The address of these numbers in the memory of the GPU in use."""
        place, content = c_uint64(), array("f", values)
        self.call("cuMemAlloc_v2", byref(place), c_size_t(4 * len(content)))
        self.call("cuMemcpyHtoD_v2", place, c_void_p(content.buffer_info()[0]), c_size_t(4 * len(content)))
        return place

    def get(self, place: c_uint64, count: int) -> array[float]:
        content = array("f", bytes(4 * count))
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", c_void_p(content.buffer_info()[0]), place, c_size_t(4 * count))
        return content


def convolution(lib: Path, gpus: Gpus) -> dict[str, object]:
    """Two images of three channels with four filters of 3 x 3; the largest difference from the sums in Python."""
    cudnn = ctypes.CDLL(str(lib / "libcudnn.so.9"))
    cudnn.cudnnGetVersion.restype = c_size_t

    def call(name: str, *values: object) -> None:
        check(name, getattr(cudnn, name)(*values))

    images, channels, size, filters, side = 2, 3, 9, 4, 3
    out = size - side + 1
    data = [((7 * n) % 11 - 5) / 4 for n in range(images * channels * size * size)]
    weights = [((5 * n) % 7 - 3) / 2 for n in range(filters * channels * side * side)]
    gpus.use(0)
    handle, x, w, y, conv = (c_void_p() for _ in range(5))
    call("cudnnCreate", byref(handle))
    call("cudnnCreateTensorDescriptor", byref(x))
    call("cudnnCreateTensorDescriptor", byref(y))
    call("cudnnCreateFilterDescriptor", byref(w))
    call("cudnnCreateConvolutionDescriptor", byref(conv))
    call("cudnnSetTensor4dDescriptor", x, _NCHW, _CUDNN_FLOAT, images, channels, size, size)
    call("cudnnSetTensor4dDescriptor", y, _NCHW, _CUDNN_FLOAT, images, filters, out, out)
    call("cudnnSetFilter4dDescriptor", w, _CUDNN_FLOAT, _NCHW, filters, channels, side, side)
    call("cudnnSetConvolution2dDescriptor", conv, 0, 0, 1, 1, 1, 1, _CROSS_CORRELATION, _CUDNN_FLOAT)
    count = images * filters * out * out
    given, kernel, result = gpus.put(data), gpus.put(weights), gpus.put([0.0] * count)
    one, zero = c_float(1), c_float(0)
    call(
        "cudnnConvolutionForward",
        *(handle, byref(one), x, given, w, kernel, conv, _IMPLICIT_GEMM),
        *(c_void_p(), c_size_t(0), byref(zero), y, result),
    )
    found = gpus.get(result, count)
    expected = [
        sum(
            data[((image * channels + channel) * size + row + i) * size + column + j]
            * weights[((chosen * channels + channel) * side + i) * side + j]
            for channel, i, j in product(range(channels), range(side), range(side))
        )
        for image, chosen, row, column in product(range(images), range(filters), range(out), range(out))
    ]
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    return {"cudnn": cudnn.cudnnGetVersion(), "convolution": worst}


def all_reduce(lib: Path, gpus: Gpus) -> dict[str, object]:
    """A sum over all GPUs of this machine; the largest difference on any of them."""
    nccl = ctypes.CDLL(str(lib / "libnccl.so.2"))
    version = c_int()
    check("ncclGetVersion", nccl.ncclGetVersion(byref(version)))
    communicators = (c_void_p * gpus.count)()
    check("ncclCommInitAll", nccl.ncclCommInitAll(communicators, gpus.count, None))
    length = 1000
    places = []
    for number in range(gpus.count):
        gpus.use(number)
        places.append((gpus.put([number + n / 8 for n in range(length)]), gpus.put([0.0] * length)))
    check("ncclGroupStart", nccl.ncclGroupStart())
    for number, (given, result) in enumerate(places):
        gpus.use(number)
        values = (given, result, c_size_t(length), _NCCL_FLOAT, _NCCL_SUM, c_void_p(communicators[number]), c_void_p())
        check("ncclAllReduce", nccl.ncclAllReduce(*values))
    check("ncclGroupEnd", nccl.ncclGroupEnd())
    worst = 0.0
    expected = [sum(number + n / 8 for number in range(gpus.count)) for n in range(length)]
    for number, (_, result) in enumerate(places):
        gpus.use(number)
        found = gpus.get(result, length)
        worst = max(worst, *(abs(a - b) for a, b in zip(found, expected, strict=True)))
    return {"nccl": version.value, "gpus": gpus.count, "all_reduce": worst}


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "lib"
    there = Gpus()
    print(json.dumps(convolution(folder, there) | all_reduce(folder, there)))
