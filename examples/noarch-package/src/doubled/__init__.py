"""Doubles numbers on a GPU.

It can be imported, and its kernel compiled, on a machine that has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_float, c_uint

from cuda.core import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
)

KERNEL = """
extern "C" __global__ void twice(float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
"""


def compiled(arch: str) -> ObjectCode:
    """The kernel as machine code for a GPU such as ``90``.

    Every driver of the CUDA major loads it.
    """
    return Program(KERNEL, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")


def doubled(values: Sequence[float]) -> list[float]:
    """The numbers times two; RuntimeError on a machine without a driver."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = compiled(device.arch).get_kernel("twice")
    # Memory that both can use.
    buffer = LegacyPinnedMemoryResource().allocate(4 * len(values), stream=stream)
    numbers = (c_float * len(values)).from_address(int(buffer.handle))
    numbers[:] = values
    launch(
        stream,
        LaunchConfig(grid=len(values) // 256 + 1, block=256),
        kernel,
        buffer,
        c_uint(len(values)),
    )
    stream.sync()
    return list(numbers)
