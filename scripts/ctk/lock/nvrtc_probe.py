"""Asks a libnvrtc for its GPUs and its PTX ISA; prints JSON. Needs no GPU and no driver.

Run as a program of its own, ``nvrtc_probe.py <library>``: NVRTC of two releases cannot be in one
process.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from typing import Any

KERNEL = b'extern "C" __global__ void store(float *to, float value) { *to = value; }'


def probe(path: str) -> dict[str, Any]:
    """``gpu_architectures`` as numbers (75 is 7.5), lowest first, and ``ptx_isa``."""
    nvrtc = ctypes.CDLL(path)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(name: str, *arguments: Any) -> None:
        code = getattr(nvrtc, name)(*arguments)
        if code:
            raise SystemExit(f"{name}: {nvrtc.nvrtcGetErrorString(code).decode()}")

    count = ctypes.c_int()
    call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
    architectures = (ctypes.c_int * count.value)()
    call("nvrtcGetSupportedArchs", architectures)
    lowest = min(architectures)

    program = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(program), KERNEL, b"probe.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=compute_{lowest}".encode())
    call("nvrtcCompileProgram", program, 1, options)
    size = ctypes.c_size_t()
    call("nvrtcGetPTXSize", program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    call("nvrtcGetPTX", program, ptx)
    version = re.search(rb"^\.version (\d+\.\d+)", ptx.value, re.MULTILINE)
    if not version:
        raise SystemExit("the PTX states no version")
    return {"gpu_architectures": sorted(set(architectures)), "ptx_isa": version[1].decode()}


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
