"""Loads the driver's library and starts it, as every CUDA program does; prints JSON.

Imports nothing of ctk. A program of its own, because a driver that is broken can crash or hang a
process, and because the driver reads variables such as ``CUDA_VISIBLE_DEVICES`` once.
``driver_probe.py NAME...`` tries the libraries in this order.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

# CUdevice_attribute in cuda.h: CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
CAPABILITY_MAJOR = 75
CAPABILITY_MINOR = 76


class Failed(Exception):
    """A function of the driver returned an error."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code}")
        self.function = function
        self.code = code


def load(names: list[str]) -> tuple[ctypes.CDLL | None, str]:
    """The first library that loads, and its name; without one, the loader's words for the first."""
    errors = []
    for name in names:
        try:
            return ctypes.CDLL(name), name
        except OSError as error:
            errors.append(str(error))
    return None, errors[0] if errors else ""


def loaded_from(name: str) -> str:
    """The path of the library in this process; its name where the system does not say."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return name
    paths = [line.split(maxsplit=5)[5] for line in lines if "libcuda.so" in line]
    return paths[0] if paths else name


def call(library: Any, function: str, *arguments: Any) -> None:
    """Calls a function of the driver; raises Failed for any result but CUDA_SUCCESS."""
    code = getattr(library, function)(*arguments)
    if code:
        raise Failed(function, code)


def text_of(library: Any, function: str, code: int) -> str:
    """The name or the description that the driver has for an error; "" if it has none."""
    text = ctypes.c_char_p()
    library_function = getattr(library, function, None)
    if library_function is None or library_function(code, ctypes.byref(text)) or not text.value:
        return ""
    return text.value.decode(errors="replace")


def cuda_version(library: Any) -> str:
    """The newest CUDA version that the driver supports, such as ``13.0``; it needs no GPU."""
    version = ctypes.c_int()
    call(library, "cuDriverGetVersion", ctypes.byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def gpus(library: Any) -> list[str]:
    """Starts the driver, and asks for the compute capabilities of the GPUs that programs see.

    They are in the driver's order.
    """
    call(library, "cuInit", 0)
    number = ctypes.c_int()
    call(library, "cuDeviceGetCount", ctypes.byref(number))
    return [capability(library, index) for index in range(number.value)]


def capability(library: Any, index: int) -> str:
    """The compute capability of one GPU, such as ``9.0``."""
    device = ctypes.c_int()
    call(library, "cuDeviceGet", ctypes.byref(device), index)
    parts = []
    for attribute in (CAPABILITY_MAJOR, CAPABILITY_MINOR):
        value = ctypes.c_int()
        call(library, "cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        parts.append(str(value.value))
    return ".".join(parts)


def probe(names: list[str]) -> dict[str, Any]:
    """What the driver says: keys as the fields of `ctk.solve.driver.Answer`."""
    library, name = load(names)
    if library is None:
        return {"not_loaded": name}
    answer: dict[str, Any] = {"library": loaded_from(name), "is_found": name == names[0]}
    try:
        answer["version"] = cuda_version(library)
        answer["gpus"] = gpus(library)
    except Failed as failed:
        answer["function"] = failed.function
        answer["code"] = failed.code
        answer["error"] = text_of(library, "cuGetErrorName", failed.code)
        answer["description"] = text_of(library, "cuGetErrorString", failed.code)
    except AttributeError as missing:  # a file of that name that is not a driver
        answer["function"] = "dlsym"
        answer["description"] = str(missing)
    return answer


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1:])))
