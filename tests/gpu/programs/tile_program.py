"""Adds two arrays of CuPy with a kernel of cuTile: prints what differs, and the GPU and compiler, as a line of JSON."""

from __future__ import annotations

import json
import subprocess

import cuda.tile as ct
import cupy

TILE = 16


@ct.kernel
def add(a, b, total):  # type: ignore[no-untyped-def]  # cuTile reads annotations as types of its own
    block = ct.bid(0)
    sum_ = ct.load(a, index=(block,), shape=(TILE,)) + ct.load(b, index=(block,), shape=(TILE,))
    ct.store(total, index=(block,), tile=sum_)


a = cupy.arange(1000, dtype=cupy.float32)
b = 3 - a / 7
total = cupy.zeros_like(a)
grid = (-(-a.size // TILE), 1, 1)
ct.launch(cupy.cuda.get_current_stream().ptr, grid, add, (a, b, total))
compiler = subprocess.run(["tileiras", "--version"], capture_output=True, text=True, check=True).stdout
print(
    json.dumps(
        {
            "difference": float(abs(total - (a + b)).max()),
            "sum": float(total.sum()),
            "gpu": cupy.cuda.Device().compute_capability,
            "compiler": next(line for line in compiler.splitlines() if "release" in line.lower()),
        }
    )
)
