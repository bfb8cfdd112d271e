"""The components that a CTK manifest can state, and the Python projects."""

from __future__ import annotations

from dataclasses import dataclass

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
"""The project whose version is the CUDA major's, and whose requirements come first in the choice of the others."""

PYTHON_PROJECTS: tuple[str, ...] = (
    PYTHON_ROOT,
    "cuda-bindings",
    "cuda-core",
    "numba-cuda",
    "cuda-pathfinder",
    "cuda-cccl",  # before what it compiles with: it reads numba-cuda-mlir's internals, so it accepts few versions
    "numba-cuda-mlir",
)
"""In the order of choice of the set in which each accepts those before it, and they accept it."""
