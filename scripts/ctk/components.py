"""The components that are packaged, and where a CTK manifest states them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

MANIFEST = "cuda-toolkit"
"""The distribution whose metadata at version X.Y.Z is the manifest of CTK release X.Y.Z."""


@dataclass(frozen=True)
class CtkComponent:
    """A component of the CTK.

    Attributes:
        name: Our name of it, and the manifest's extra.
        project: Its distribution; in CUDA 12 with ``-cu12`` appended.
        inside: The component whose artefact contains it in the releases that have no distribution of its own.
    """

    name: str
    project: str
    inside: str | None = None

    def distribution(self, major: str) -> str:
        """Its name on the index for a CUDA major."""
        return f"{self.project}-cu{major}" if int(major) < 13 else self.project


CTK_COMPONENTS: tuple[CtkComponent, ...] = (
    CtkComponent("cccl", "nvidia-cuda-cccl"),
    CtkComponent("crt", "nvidia-cuda-crt", inside="nvcc"),
    CtkComponent("cublas", "nvidia-cublas"),
    CtkComponent("cudart", "nvidia-cuda-runtime"),
    CtkComponent("cudla", "nvidia-cudla"),
    CtkComponent("cufft", "nvidia-cufft"),
    CtkComponent("cufile", "nvidia-cufile"),
    CtkComponent("culibos", "nvidia-cuda-culibos"),
    CtkComponent("cuobjdump", "nvidia-cuda-cuobjdump"),
    CtkComponent("cupti", "nvidia-cuda-cupti"),
    CtkComponent("curand", "nvidia-curand"),
    CtkComponent("cusolver", "nvidia-cusolver"),
    CtkComponent("cusparse", "nvidia-cusparse"),
    CtkComponent("cuxxfilt", "nvidia-cuda-cuxxfilt"),
    CtkComponent("npp", "nvidia-npp"),
    CtkComponent("nvcc", "nvidia-cuda-nvcc"),
    CtkComponent("nvdisasm", "nvidia-cuda-nvdisasm"),
    CtkComponent("nvfatbin", "nvidia-nvfatbin"),
    CtkComponent("nvjitlink", "nvidia-nvjitlink"),
    CtkComponent("nvjpeg", "nvidia-nvjpeg"),
    CtkComponent("nvml", "nvidia-nvml-dev"),
    CtkComponent("nvptxcompiler", "nvidia-nvptxcompiler"),
    CtkComponent("nvrtc", "nvidia-cuda-nvrtc"),
    CtkComponent("nvtx", "nvidia-nvtx"),
    CtkComponent("nvvm", "nvidia-nvvm", inside="nvcc"),
    CtkComponent("opencl", "nvidia-cuda-opencl"),
    CtkComponent("profiler", "nvidia-cuda-profiler-api"),
    CtkComponent("sanitizer", "nvidia-cuda-sanitizer-api"),
    CtkComponent("tileiras", "nvidia-cuda-tileiras"),
)

PYTHON_ROOT = "cuda-python"
"""The project whose version is the CUDA major's, and whose requirements choose the others."""

PYTHON_PROJECTS: tuple[str, ...] = (
    PYTHON_ROOT,
    "cuda-bindings",
    "cuda-core",
    "numba-cuda",
    "cuda-pathfinder",
    "cuda-cccl",  # before what it compiles with: it reads numba-cuda-mlir's internals, so it accepts few versions
    "numba-cuda-mlir",
)
"""In the order of choice: each is chosen so that it accepts those before it, and they accept it."""


@dataclass(frozen=True)
class Pin:
    """One requirement of a manifest, with the line that states it."""

    requirement: Requirement
    line: str


def extra_of(pin: Pin) -> str | None:
    """The extra under which a requirement is stated; None for an unconditional one."""
    found = re.search(r"""extra == ["']([^"']+)["']""", str(pin.requirement.marker or ""))
    return found[1] if found else None


def pins_of(component: CtkComponent, major: str, manifest: Sequence[Pin]) -> list[Pin]:
    """What a manifest states of a component: of all requirements of its extra, those on its own distribution.

    An extra also names what the component needs (``nvcc`` names cudart and nvvm); those have extras of their own.
    """
    own = component.distribution(major)
    return [pin for pin in manifest if extra_of(pin) == component.name and pin.requirement.name == own]
