"""A first program with numba.cuda: compiles a kernel that is written in Python, and runs it.

On a machine without a GPU it compiles the kernel, and says that it did not run.

    ctk env create numba-cuda --prefix ./my-env
    ctk env run ./my-env -- python hello-numba-cuda.py
"""

import math
import platform
import sys
from importlib.metadata import version
from pathlib import Path

try:
    import numpy as np
    from numba import cuda, types
except ImportError as error:
    sys.exit(
        f"error: {error}\n"
        "next: start this with the Python of an environment with numba-cuda:"
        " `ctk env add ./my-env numba-cuda` adds it to one,"
        " and `ctk env create numba-cuda --prefix ./my-env` makes one"
    )

SIZE = 100_003  # not a multiple of a block
BLOCK = 64
TOLERANCE = 1e-5
SIGNATURE = types.void(types.float32[::1], types.float32[::1], types.float32)


def add_sines(out, values, factor):
    """Adds sin(value) * factor of all values to out[0]; each block sums in shared memory."""
    tile = cuda.shared.array(BLOCK, types.float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < values.size:
        tile[t] = math.sin(values[i]) * factor
    else:
        tile[t] = 0.0
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


def main():
    show("python", platform.python_version())
    show("numba", version("numba"))
    show("numba-cuda", version("numba-cuda"))
    show("target", cuda_target())

    gpus = len(cuda.list_devices()) if cuda.is_available() else 0
    capability = cuda.get_current_device().compute_capability if gpus else (9, 0)
    ptx, _ = cuda.compile_ptx(add_sines, SIGNATURE.args, cc=capability)
    show("ptx isa", value_of(".version", ptx))
    target = value_of(".target", ptx)
    show("ptx target", target)
    show("ptx bytes", len(ptx))

    show("gpus", gpus)
    if not gpus:
        print(f"no GPU here, so the kernel was compiled for {target}, not run")
        return
    difference = relative_difference()
    if not difference < TOLERANCE:  # NaN is not smaller either
        fail(f"the GPU's sum differs from NumPy's by {difference} of it")
    show("relative difference", difference)


def cuda_target():
    """The file of numba.cuda: NVIDIA's, and not the old one that numba itself contains."""
    file = Path(cuda.__file__).resolve().as_posix().rpartition("site-packages/")[2]
    if not file.startswith("numba_cuda/"):
        fail("numba.cuda is numba's own, old target, and not that of numba-cuda")
    return file


def value_of(directive, ptx):
    """The value of the first line of PTX that begins with a directive."""
    lines = [line for line in ptx.splitlines() if line.startswith(directive)]
    return lines[0].split()[1]


def relative_difference():
    """Runs the kernel on the first GPU, and compares the sum with NumPy's."""
    values = np.random.default_rng(7).random(SIZE).astype(np.float32)
    out = cuda.to_device(np.zeros(1, np.float32))
    kernel = cuda.jit(SIGNATURE)(add_sines)
    blocks = (SIZE + BLOCK - 1) // BLOCK
    kernel[blocks, BLOCK](out, cuda.to_device(values), np.float32(0.5))
    result = float(out.copy_to_host()[0])
    expected = float(np.sin(values.astype(np.float64)).sum() * 0.5)
    return abs(result - expected) / expected


def show(name, value):
    print(f"{name:<28}{value}", flush=True)


def fail(cause):
    sys.exit(
        f"error: {cause}\n"
        f"next: `ctk doctor {sys.prefix}` looks for what is wrong with this environment"
    )


if __name__ == "__main__":
    main()
