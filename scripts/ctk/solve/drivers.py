"""The last driver for old GPUs, as NVIDIA states it: with a newer driver such a machine cannot exist.

Sources: https://docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html for the last
driver branch, https://developer.nvidia.com/cuda-legacy-gpus for 6.2 and 7.2 (Jetson), which that table leaves out, and
https://docs.nvidia.com/cuda/archive/13.2.2/cuda-toolkit-release-notes/index.html for the CUDA version of the branch.
"""

from __future__ import annotations

from typing import NamedTuple

from packaging.version import Version


class LastDriver(NamedTuple):
    """GPUs of one architecture, and the last driver branch that runs them."""

    architecture: str
    gpus: tuple[str, ...]  # compute capabilities
    branch: str
    cuda: str  # the newest CUDA version that the branch supports


LAST_DRIVERS = (
    LastDriver("Maxwell", ("5.0", "5.2", "5.3"), "R580", "13.0"),
    LastDriver("Pascal", ("6.0", "6.1", "6.2"), "R580", "13.0"),
    LastDriver("Volta", ("7.0", "7.2"), "R580", "13.0"),
)


def impossible(driver: str | None, gpu: str | None) -> str:
    """Why no machine has a driver for this CUDA version and this GPU; "" where one may be."""
    last = next((last for last in LAST_DRIVERS if gpu in last.gpus), None)
    if not driver or last is None or Version(driver) <= Version(last.cuda):
        return ""
    return (
        f"no driver for CUDA {driver} runs a GPU {gpu}: {last.branch}, for CUDA {last.cuda}, "
        f"is the last branch for {last.architecture}"
    )
