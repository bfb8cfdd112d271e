"""What this machine's driver says of itself and of its GPUs, asked by ctypes alone, and what
follows from it.

Nothing of the project is imported: the tests in this folder run on machines that have a Python and
pytest only.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
# From cuda.h.
_SUCCESS = 0
_NO_DEVICE = 100
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = (75, 76)


@dataclass(frozen=True)
class Machine:
    """What a machine has to run kernels with.

    Attributes:
        driver: The newest CUDA version that the driver supports (``13.0``), or None without a
            driver.
        gpus: Compute capability of each GPU (``9.0``).
        lacks: A sentence with what is missing to run any kernel; "" when nothing is.
    """

    driver: str | None
    gpus: tuple[str, ...]
    lacks: str

    @property
    def arch(self) -> str | None:
        """Compute capability of the oldest GPU, which is what conda's ``__cuda_arch`` says.

        None without a GPU.
        """
        return min(self.gpus, key=numbers, default=None)


def detect(load: Callable[[str], Any] = ctypes.CDLL) -> Machine:
    """Asks the driver's library.

    Args:
        load: Opens a library by its name; raises OSError when there is none.
    """
    try:
        cuda = load(LIBRARY)
    except OSError as error:
        return Machine(None, (), f"this machine has no NVIDIA driver: {error}")
    version = ctypes.c_int()
    status = cuda.cuDriverGetVersion(ctypes.byref(version))
    if status != _SUCCESS:
        return Machine(
            None,
            (),
            f"the driver does not say its version: cuDriverGetVersion gives error {status}",
        )
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    status = cuda.cuInit(0)
    if status == _NO_DEVICE:
        return Machine(
            driver, (), f"this machine has a driver for CUDA {driver}, but no GPU that it shows"
        )
    if status != _SUCCESS:
        return Machine(
            driver, (), f"the driver for CUDA {driver} does not start: cuInit gives error {status}"
        )
    count = ctypes.c_int()
    status = cuda.cuDeviceGetCount(ctypes.byref(count))
    if status != _SUCCESS or not count.value:
        return Machine(
            driver, (), f"this machine has a driver for CUDA {driver}, but no GPU that it shows"
        )
    try:
        return Machine(driver, tuple(_capability(cuda, i) for i in range(count.value)), "")
    except OSError as error:
        return Machine(driver, (), str(error))


def _capability(cuda: Any, index: int) -> str:
    device = ctypes.c_int()
    status = cuda.cuDeviceGet(ctypes.byref(device), index)
    parts = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        value = ctypes.c_int()
        status = status or cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        parts.append(str(value.value))
    if status != _SUCCESS:
        raise OSError(f"the driver does not say what GPU {index} is: error {status}")
    return ".".join(parts)


def refusal(machine: Machine, toolkit: str) -> str:
    """A sentence why no kernel of a toolkit can run on a machine, with what to do; "" when it can.

    A driver runs machine code of its own CUDA major and of older ones, whatever the minor.
    """
    if machine.lacks or machine.driver is None:
        return machine.lacks
    if numbers(machine.driver)[0] < numbers(toolkit)[0]:
        major = numbers(machine.driver)[0]
        return (
            f"the driver supports CUDA {machine.driver}, which is older than toolkit {toolkit} of"
            " the environment: update the driver, or make the environment with"
            f" cuda-version={major}"
        )
    return ""


def right_fit(machine: Machine, toolkit: str, archs: tuple[str, ...]) -> str:
    """What a toolkit is for a machine that runs it: ``native`` where the driver loads its PTX and
    it knows all GPUs.

    Args:
        machine: With a driver.
        toolkit: ``13.4``.
        archs: The compute capabilities that its NVRTC can target.
    """
    assert machine.driver is not None, machine.lacks
    loads = numbers(toolkit) <= numbers(machine.driver)
    knows = all(numbers(gpu) in map(numbers, archs) for gpu in machine.gpus)
    return "native" if loads and knows else "compat"


def numbers(version: str) -> tuple[int, ...]:
    """``12.10`` as numbers, which compare as versions do."""
    return tuple(int(part) for part in version.split("."))


def search_path(
    outside: Mapping[str, str] = os.environ, maps: Path = Path("/proc/self/maps")
) -> dict[str, str]:
    """What a process needs in its environment to find the driver's library: mostly nothing.

    Where only LD_LIBRARY_PATH leads to it, as in some containers, that one folder, and no other of
    that variable: another toolkit's libraries would be found there as well. To be called after
    `detect`, which loads the library.
    """
    try:
        lines = [line for line in maps.read_text().splitlines() if "libcuda.so" in line]
    except OSError:
        return {}
    files = {Path(line.split(maxsplit=5)[5].strip()) for line in lines}
    stated = [
        Path(folder) for folder in outside.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder
    ]
    used = [
        str(folder) for folder in stated if any(_same(folder / LIBRARY, file) for file in files)
    ]
    return {"LD_LIBRARY_PATH": used[0]} if used else {}


def _same(left: Path, right: Path) -> bool:
    try:
        return left.samefile(right)
    except OSError:
        return False
