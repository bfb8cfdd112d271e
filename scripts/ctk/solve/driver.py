"""Whether this machine's driver works, and what hides it.

A child starts the driver as every CUDA program does. Clients of conda read the driver's version.
That says what is installed, not whether a program can use it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from ctk.core.children import run_bytes

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
"""The name by which CUDA programs load the driver."""
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64/nvidia",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
)
"""Where installers put the library on Linux: Debian, RHEL, containers of Kubernetes, WSL."""
NO_DEVICE = "CUDA_ERROR_NO_DEVICE"
"""The driver's name for the error of a program from which all GPUs are hidden."""
_PROBE = Path(__file__).with_name("driver_probe.py")
_DETECTION_PROBE = Path(__file__).with_name("detection_probe.py")
_SECONDS = 60.0  # conda waits as long for the same call
_SEARCH_PATH = "LD_LIBRARY_PATH"
_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap")  # of a GPU on Linux, in WSL, on a Jetson

Ask = Callable[[Mapping[str, str]], "Answer"]
"""Starts the driver with these variables."""


@dataclass(frozen=True)
class Answer:
    """What one start of the driver gave."""

    library: str = ""  # its path; "" if none could be loaded
    is_found: bool = True  # whether the loader found it by name, as programs look for it
    version: str = ""  # the newest CUDA version that it supports: "13.0"
    gpus: tuple[str, ...] = ()  # compute capabilities of the GPUs that programs see
    function: str = ""  # the function that failed; "" if none did
    code: int = 0  # its result
    error: str = ""  # the driver's name for the result: "CUDA_ERROR_NO_DEVICE"
    description: str = ""  # the driver's words for it
    not_loaded: str = ""  # the loader's words, if no library could be loaded
    is_silent: bool = False  # it crashed, or did not end in time

    @property
    def works(self) -> bool:
        """Whether a program finds the driver, starts it, and sees a GPU."""
        return bool(self.is_found and self.gpus and not self.function)


class Limit(Enum):
    """What keeps programs from the GPU."""

    NOTHING = "nothing"
    NO_DRIVER = "no driver"  # no library of a driver is installed
    NOT_FOUND = "not found"  # the library is where the loader does not look
    VARIABLE = "variable"  # a variable hides the GPU, or leads to another library
    NO_DEVICE = (  # the library is there and the GPU's device files are not, as in a container
        "no device"
    )
    REFUSED = "refused"  # the driver does not start
    SILENT = "silent"  # the driver crashes or does not answer


@dataclass(frozen=True)
class Change:
    """A change of one variable."""

    variable: str
    was: str
    value: str | None  # None: unset

    def apply(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables after the change."""
        changed = dict(variables)
        changed.pop(self.variable, None)
        if self.value is not None:
            changed[self.variable] = self.value
        return changed


@dataclass(frozen=True)
class DriverState:
    """The driver as programs see it, and what would make it work."""

    limit: Limit
    seen: Answer
    change: Change | None = None  # tried: with it, the driver works
    after: Answer = field(default_factory=Answer)  # what the driver gave after the change

    @property
    def works(self) -> Answer | None:
        """The answer of the driver that works, if need be after the change; None if it does not."""
        return next((answer for answer in (self.seen, self.after) if answer.works), None)


def ask(variables: Mapping[str, str]) -> Answer:
    """Starts the driver of this machine in a child with these variables."""
    folders = [] if sys.platform == "win32" else [f"{folder}/{LIBRARY}" for folder in FOLDERS]
    said = _said("-S", str(_PROBE), LIBRARY, *folders, variables=variables)
    if said is None:
        return Answer(is_silent=True)
    return Answer(**{**said, "gpus": tuple(said.get("gpus", ()))})


@dataclass(frozen=True)
class Detection:
    """What clients of conda detect on this machine.

    Nothing if the driver ended or held the program that asked.
    """

    packages: Mapping[str, str] = field(default_factory=dict)  # virtual package -> version
    error: str = ""  # rattler's words, if it cannot tell


def detect(variables: Mapping[str, str] = os.environ) -> Detection:
    """Has a child detect the virtual packages of this machine, with these variables.

    No child is started to look for a driver where there is no library of one.
    """
    if ask(variables).not_loaded:
        return Detection()
    return Detection(**(_said(str(_DETECTION_PROBE), variables=variables) or {}))


def _said(*words: str, variables: Mapping[str, str]) -> Any:
    """What a program of ours printed; None if it crashed, or did not end in time."""
    return _printed(words, tuple(variables.items()))


# One command asks several times, and a driver that hangs takes a minute each time.
@lru_cache(maxsize=64)
def _printed(words: Sequence[str], variables: Sequence[tuple[str, str]]) -> Any:
    try:
        done = run_bytes([sys.executable, "-I", *words], env=dict(variables), timeout=_SECONDS)
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def driver_state(
    ask: Ask = ask,
    variables: Mapping[str, str] = os.environ,
    has_devices: Callable[[], bool] = lambda: any(map(os.path.exists, _DEVICES)),
) -> DriverState:
    """Starts the driver; if it does not work, tries without each variable that can be the cause.

    Args:
        ask: Starts the driver.
        variables: The variables of this process.
        has_devices: Whether there is a device file of a GPU.
    """
    seen = ask(variables)
    if seen.works:
        return DriverState(Limit.NOTHING, seen)
    if seen.not_loaded:
        return DriverState(Limit.NO_DRIVER, seen)
    for change in _changes(seen, variables):
        after = ask(change.apply(variables))
        if after.works:
            limit = Limit.VARIABLE if seen.is_found else Limit.NOT_FOUND
            return DriverState(limit, seen, change, after)
    if seen.is_silent:
        return DriverState(Limit.SILENT, seen)
    is_here = sys.platform == "win32" or has_devices()
    return DriverState(Limit.REFUSED if is_here else Limit.NO_DEVICE, seen)


def _changes(seen: Answer, variables: Mapping[str, str]) -> Iterator[Change]:
    """The changes that may make the driver work, one variable each."""
    path = variables.get(_SEARCH_PATH, "")
    folders = [folder for folder in path.split(os.pathsep) if folder]
    if seen.library and not seen.is_found:
        own = os.path.dirname(seen.library)
        yield Change(_SEARCH_PATH, path, os.pathsep.join([*folders, own]))
        return
    others = [folder for folder in folders if not os.path.exists(os.path.join(folder, LIBRARY))]
    if len(others) < len(folders):
        # First without the folder that the library came from: a later one can have the right
        # library.
        first = [folder for folder in folders if not _has(folder, seen.library)]
        for rest in (first, others):
            yield Change(_SEARCH_PATH, path, os.pathsep.join(rest) or None)
    if seen.is_silent:  # each further try could take a minute
        return
    for name in sorted(variables):
        if name.startswith(("CUDA_", "NVIDIA_")) or name == "LD_PRELOAD":
            yield Change(name, variables[name], None)


def _has(folder: str, library: str) -> bool:
    """Whether a library that was loaded is the one in a folder."""
    try:
        return os.path.samefile(os.path.join(folder, LIBRARY), library)
    except OSError:
        return False
