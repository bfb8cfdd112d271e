"""Runs inside an environment with jax and jax-finufft: transforms on the GPU, and what two runtimes do to contexts.

Prints one JSON object. Asks the driver and the libraries themselves, by ctypes, and imports nothing of this project.
"""

import ctypes
import glob
import json
import os
import re
import sys

import jax
import jax.numpy as jnp
import jax_finufft
import numpy as np
from jax_finufft import nufft1, nufft2

POINTS, MODES = 5_003, 64
DEVICE = 0
# Type -> (precision that is asked for, difference that is accepted).
TYPES = {"complex64": (1e-5, 1e-3), "complex128": (1e-10, 1e-8)}
CONTEXT = 1  # CU_POINTER_ATTRIBUTE_CONTEXT


class Driver:
    """The driver's API; every failure is an exception."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)

    def __call__(self, function: str, *arguments: object) -> None:
        if error := getattr(self.library, function)(*arguments):
            raise RuntimeError(f"{function}: error {error}")

    def version(self) -> int:
        number = ctypes.c_int()
        self("cuDriverGetVersion", ctypes.byref(number))
        return number.value

    def current(self) -> int:
        context = ctypes.c_void_p()
        self("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def primary(self) -> int:
        """The primary context's handle, 0 while it is not active: to retain it would make it."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self("cuDevicePrimaryCtxGetState", DEVICE, ctypes.byref(flags), ctypes.byref(active))
        if not active.value:
            return 0
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), DEVICE)
        self("cuDevicePrimaryCtxRelease_v2", DEVICE)
        return context.value or 0

    def context_of(self, pointer: int) -> int:
        context = ctypes.c_void_p()
        self("cuPointerGetAttribute", ctypes.byref(context), CONTEXT, ctypes.c_ulonglong(pointer))
        return context.value or 0


def loaded(pattern: str) -> list[str]:
    """Libraries of this process, below the environment where they are there."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split(maxsplit=5)[-1].strip() for line in maps if re.search(pattern, line)}
    home = os.path.realpath(sys.prefix) + os.sep
    return sorted(os.path.realpath(file).removeprefix(home) for file in files)


def number_of(library: str, function: str) -> int:
    number = ctypes.c_int()
    assert getattr(ctypes.CDLL(library), function)(ctypes.byref(number)) == 0
    return number.value


def versions() -> dict[str, object]:
    """What the libraries say that are loaded; compiled in is what the module's own text says of its runtime."""
    found: dict[str, object] = {"jax": jax.__version__, "jax-finufft": jax_finufft.__version__}
    # The runtime inside the module exports nothing to ask: the package says with which toolkit it was built at least.
    for note in glob.glob(os.path.join(sys.prefix, "conda-meta", "jax-finufft-*.json")):
        with open(note, encoding="utf-8") as file:
            found["requires"] = [spec for spec in json.load(file)["depends"] if spec.startswith(("cuda", "libcu"))]
    home = os.path.realpath(sys.prefix)
    for name, function in (("libcufft", "cufftGetVersion"), ("libcudart", "cudaRuntimeGetVersion")):
        found[name] = {f: number_of(os.path.join(home, f), function) for f in loaded(rf"/{name}\.so")}
    return found


def data(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    real = "float32" if kind == "complex64" else "float64"
    x, y = random.uniform(-np.pi, np.pi, (2, POINTS)).astype(real)
    values = (random.standard_normal(POINTS) + 1j * random.standard_normal(POINTS)).astype(kind)
    modes = (random.standard_normal((MODES, MODES)) + 1j * random.standard_normal((MODES, MODES))).astype(kind)
    return x, y, values, modes


def results(kind: str, device: jax.Device) -> dict[str, np.ndarray]:
    """Both types of transform, in one and in two dimensions, and a gradient, on a device."""
    eps, _ = TYPES[kind]
    x, y, values, modes = (jax.device_put(a, device) for a in data(kind))

    def loss(points):
        return jnp.sum(jnp.abs(nufft2(modes[0], points, eps=eps)) ** 2)

    computed = {
        "nufft1 1d": nufft1((MODES,), values, x, eps=eps, iflag=1),
        "nufft1 2d": nufft1((MODES, MODES), values, x, y, eps=eps, iflag=1),
        "nufft2 1d": nufft2(modes[0], x, eps=eps),
        "nufft2 2d": nufft2(modes, x, y, eps=eps),
        "jit": jax.jit(lambda c, p: nufft1((MODES,), c, p, eps=eps, iflag=1))(values, x),
        "grad": jax.grad(loss)(x),
    }
    assert all(next(iter(array.devices())) == device for array in computed.values())
    return {name: np.asarray(array) for name, array in computed.items()}


def far(one: np.ndarray, other: np.ndarray) -> float:
    return float(abs(one - other).max() / abs(other).max())


def transforms(device: jax.Device) -> dict[str, dict[str, float]]:
    """Relative differences in the largest norm: GPU from CPU, and the CPU from the sum written out."""
    found = {}
    for kind in TYPES:
        # The gradient of single precision is one of double with this set, which jax-finufft refuses.
        jax.config.update("jax_enable_x64", kind == "complex128")
        here, there = results(kind, jax.devices("cpu")[0]), results(kind, device)
        found[kind] = {name: far(there[name], here[name]) for name in here}
        x, _, values, _ = data(kind)
        waves = np.exp(1j * np.outer(np.arange(-MODES // 2, MODES // 2), x.astype("float64")))
        found[kind]["cpu from the sum"] = far(here["nufft1 1d"], waves @ values)
    return found


def contexts(driver: Driver, first: int, device: jax.Device) -> dict[str, object]:
    """Handles of contexts, from before JAX touches the GPU until after the module's kernels ran there.

    A runtime with a context of its own would show: another one would be current or of the memory, or the driver would
    refuse the kernels the pointers of JAX's.

    Args:
        first: The primary context before JAX had one.
    """
    found: dict[str, object] = {"driver": driver.version(), "primary before JAX": first}
    x, _, values, _ = (jax.device_put(a, device).block_until_ready() for a in data("complex64"))
    found["primary"] = driver.primary()
    found["of JAX's array"] = driver.context_of(x.unsafe_buffer_pointer())
    made = nufft1((MODES,), values, x, eps=1e-5).block_until_ready()
    found["of the transform's array"] = driver.context_of(made.unsafe_buffer_pointer())
    found["primary after a transform"], found["current"] = driver.primary(), driver.current()
    # The driver names no context for memory of a pool, as XLA's is; in this thread none need be current: XLA launches
    # from others.
    primary = found["primary"]
    memory = {found["of JAX's array"], found["of the transform's array"], found["current"]}
    found["one context"] = primary != 0 and primary == found["primary after a transform"] and memory <= {0, primary}
    return found


def main() -> None:
    try:
        driver = Driver()
        first = driver.primary()
        device = jax.devices("cuda")[DEVICE]
    except (OSError, RuntimeError) as error:
        json.dump({"gpus": 0, "reason": str(error)}, sys.stdout)
        return
    found: dict[str, object] = {"gpus": len(jax.devices("cuda")), "gpu": device.device_kind}
    found["contexts"] = contexts(driver, first, device)
    found["differences"] = differences = transforms(device)
    found["right"] = all(d < TYPES[kind][1] for kind, each in differences.items() for d in each.values())
    found["versions"] = versions()
    found["cuda libraries"] = loaded(r"/lib(cudart|cufft|cuda|nvrtc|cublas|cudnn)[-_.\w]*\.so")
    json.dump(found, sys.stdout)


main()
