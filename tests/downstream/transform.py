"""Runs inside an environment with cufinufft and numba-cuda: asks the library for a plan, runs transforms with a GPU.

Prints one JSON object. Imports nothing of this project.
"""

import ctypes
import json
import os
import re
import sys

import cufinufft
import numpy as np
from numba import cuda

MODES = 64
POINTS = 10_007


def loaded() -> dict[str, str]:
    """Name of each CUDA library in this process -> its file, below the environment where it is there."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split()[-1] for line in maps if re.search(r"/lib(cufinufft|cufft|cudart)\.so", line)}
    home = os.path.realpath(sys.prefix) + os.sep
    return {re.sub(r"\.so.*", "", os.path.basename(f)): os.path.realpath(f).removeprefix(home) for f in files}


def numbers() -> dict[str, int]:
    """The versions that the libraries state: cuFFT's, and the CUDA runtime's as 1000 * major + 10 * minor."""
    found = {}
    for name, function in (("libcufft", "cufftGetVersion"), ("libcudart", "cudaRuntimeGetVersion")):
        library = ctypes.CDLL(os.path.join(sys.prefix, loaded()[name]))
        number = ctypes.c_int()
        assert getattr(library, function)(ctypes.byref(number)) == 0
        found[name] = number.value
    return found


def refusal() -> str:
    """What the library says when it is asked for a plan and there is no GPU."""
    try:
        cufinufft.Plan(1, (MODES,), dtype="complex128")
    except RuntimeError as error:
        return str(error)
    return ""


def differences() -> dict[str, float]:
    """Relative differences from sums written out, in the largest norm: there (type 1) and back (type 2)."""
    random = np.random.default_rng(7)
    x = random.uniform(-np.pi, np.pi, POINTS)
    values = random.standard_normal(POINTS) + 1j * random.standard_normal(POINTS)
    waves = np.exp(1j * np.outer(np.arange(-MODES // 2, MODES // 2), x))
    modes = waves @ values
    points = cuda.to_device(x)
    there = cufinufft.nufft1d1(points, cuda.to_device(values), (MODES,), eps=1e-10).copy_to_host()
    back = cufinufft.nufft1d2(points, cuda.to_device(modes), eps=1e-10).copy_to_host()
    wanted = waves.conj().T @ modes
    return {
        "type 1": float(abs(there - modes).max() / abs(modes).max()),
        "type 2": float(abs(back - wanted).max() / abs(wanted).max()),
    }


def main() -> None:
    found = {"version": cufinufft.__version__, "loaded": loaded(), "numbers": numbers()}
    found["gpus"] = len(cuda.list_devices()) if cuda.is_available() else 0
    if found["gpus"]:
        found["differences"] = differences()
    else:
        found["refusal"] = refusal()
    json.dump(found, sys.stdout)


main()
