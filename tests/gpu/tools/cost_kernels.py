"""Runs inside an environment: the shortest program of a user, one kernel compiled, launched and waited for."""

import sys


def cuda_core() -> None:
    from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    arch = "".join(map(str, device.compute_capability))
    code = 'extern "C" __global__ void answer(int* out) { *out = 42; }'
    kernel = Program(code, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin").get_kernel("answer")
    out = LegacyPinnedMemoryResource().allocate(4, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), kernel, out)
    stream.sync()

    import numpy as np

    assert int(np.from_dlpack(out).view(np.int32)[0]) == 42


def numba_cuda() -> None:
    import numpy as np
    from numba import cuda

    @cuda.jit
    def answer(out):
        out[0] = 42

    out = cuda.to_device(np.zeros(1, np.int32))
    answer[1, 1](out)
    assert int(out.copy_to_host()[0]) == 42


{"cuda-core": cuda_core, "numba-cuda": numba_cuda}[sys.argv[1]]()
