"""Runs inside an environment with JAX: what a GPU computes is held against the CPU, in one process.

Prints one JSON object: devices, library versions, relative differences (0 is equal) and median
times in milliseconds of programs that are compiled already. Imports nothing of this project;
without a GPU it says which devices there are.
"""

import json
import os
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas

SIZE = 1024
RUNS = 9


def difference(found, wanted):
    found, wanted = (np.asarray(value, dtype=np.complex128) for value in (found, wanted))
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def _sine(x, y):
    y[...] = jnp.sin(x[...])


def _with_pallas(x):
    block = pallas.BlockSpec((256,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = [
        pallas.pallas_call(
            _sine,
            shape,
            grid=(x.size // 256,),
            in_specs=[block],
            out_specs=block,
            interpret=interpret,
        )
        for interpret in (True, False)
    ]
    return jax.lax.platform_dependent(x, cpu=call[0], cuda=call[1])


def programs():
    """Name -> a function, and what goes in."""
    key = jax.random.key(7)
    square = jax.random.normal(key, (SIZE, SIZE))
    image, kernel = jax.random.normal(key, (8, 16, 64, 64)), jax.random.normal(key, (32, 16, 3, 3))
    long = jax.random.normal(key, (1 << 18,))
    small = square[:64, :64]
    return {
        "jit of elementwise functions": (
            lambda x: jnp.sin(x) * jnp.exp(-x * x) + jnp.tanh(x),
            (square,),
        ),
        "grad": (jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2 + jnp.log1p(x * x))), (square,)),
        "matrix product": (lambda x: jnp.matmul(x, x, precision="highest"), (square,)),
        "convolution": (
            lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME", precision="highest"),
            (image, kernel),
        ),
        "fft": (jnp.fft.fft, (long,)),
        "eigenvalues of a symmetric matrix": (lambda x: jnp.linalg.eigh(x + x.T)[0], (small,)),
        "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), (small,)),
        "solve": (lambda x: jnp.linalg.solve(x @ x.T + 9 * jnp.eye(64), x), (small,)),
        "sort": (jnp.sort, (long,)),
        "random": (lambda x: x + jax.random.uniform(jax.random.key(3), x.shape), (small,)),
        "a kernel of Pallas": (_with_pallas, (long,)),
        # What a ptxas before 12.6.3 compiles wrong.
        "gather": (lambda x: x[:, ::-1].reshape(-1)[jnp.clip(jnp.arange(9) * 7, 0, 63)], (small,)),
    }


def median(function, arguments):
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def main():
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # an isolated Python leaves it out
    from loaded import loaded

    found = {
        "jax": jax.__version__,
        "devices": [f"{d.platform}: {d.device_kind}" for d in jax.devices()],
    }
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if gpus:
        cpu, found["differences"], found["milliseconds"] = jax.devices("cpu")[0], {}, {}
        with jax.default_device(cpu):
            listed = programs()
        for name, (function, arguments) in listed.items():
            # Put there for good: what is on a device by default goes to the GPU when a program
            # starts.
            here, there = (
                [jax.device_put(a, device) for a in arguments] for device in (cpu, gpus[0])
            )
            compiled = jax.jit(function)
            wanted, computed = compiled(*here), compiled(*there)
            assert (wanted.devices(), computed.devices()) == ({cpu}, {gpus[0]})
            found["differences"][name] = difference(computed, wanted)
            found["milliseconds"][name] = median(compiled, there)
        # NCCL, over all GPUs that there are.
        parts = jnp.arange(4.0 * len(gpus)).reshape(len(gpus), 4)
        summed = jax.pmap(lambda x: jax.lax.psum(x, "gpu"), axis_name="gpu", devices=gpus)(parts)
        found["differences"][f"pmap and psum over {len(gpus)}"] = difference(
            summed[0], np.asarray(parts).sum(axis=0)
        )
        found["loaded"] = loaded()
    print(json.dumps(found))


main()
