"""Adds two arrays with a kernel of cuTile.

Prints the difference, GPU, compiler and driver as a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

import cuda.tile as ct
import numpy as np
from cuda.bindings import driver
from cuda.core import Buffer, Device, LegacyPinnedMemoryResource

TILE = 16
LENGTH = 1000


@ct.kernel
def add(a, b, total):  # type: ignore[no-untyped-def]  # cuTile reads annotations as types of its own
    block = ct.bid(0)
    sum_ = ct.load(a, index=(block,), shape=(TILE,)) + ct.load(b, index=(block,), shape=(TILE,))
    ct.store(total, index=(block,), tile=sum_)


@dataclass
class Array:
    """32-bit floats in memory that the CPU and the GPU both see."""

    buffer: Buffer

    @property
    def numbers(self) -> np.ndarray:
        return np.from_dlpack(self.buffer).view(np.float32)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "typestr": "<f4",
            "shape": (LENGTH,),
            "data": (int(self.buffer.handle), False),
            "version": 3,
        }


device = Device()
device.set_current()
stream = device.create_stream()
a, b, total = (
    Array(LegacyPinnedMemoryResource().allocate(4 * LENGTH, stream=stream)) for _ in range(3)
)
a.numbers[:] = np.arange(LENGTH)
b.numbers[:] = 3 - a.numbers / 7
total.numbers[:] = np.nan
ct.launch(int(stream.handle), (-(-LENGTH // TILE), 1, 1), add, (a, b, total))
stream.sync()
compiler = subprocess.run(
    ["tileiras", "--version"], capture_output=True, text=True, check=True
).stdout
found = {
    "difference": float(np.abs(total.numbers - (a.numbers + b.numbers)).max()),
    "gpu": "{}.{}".format(*device.compute_capability),
    "driver": driver.cuDriverGetVersion()[1],
    "compiler": next(line.strip() for line in compiler.splitlines() if "release" in line),
}
print(json.dumps(found))
