"""The components that toolkit manifests can state, Python projects, and libraries beside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import ConfigDict, PlainValidator, TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.document import parse_by_hand, read
from ctk.core.errors import LockError
from ctk.lock.model import ReleaseLock

MANIFEST = "cuda-toolkit"
"""The distribution whose metadata at version X.Y.Z is the manifest of CTK release X.Y.Z."""


@dataclass(frozen=True)
class CtkComponent:
    """A component of the CTK.

    Attributes:
        name: Our name of it, and the manifest's extra.
        project: Its distribution; in CUDA 12 with ``-cu12`` appended.
        inside: The component whose artefact contains it where a release has no distribution of its
            own for it.
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

GPU_LIBRARIES = ("cublas", "cufft", "curand", "cusolver", "cusparse", "npp", "nvjpeg")
"""Components of the CTK whose packages are bound to the GPUs of their own code.

Others have code for GPUs without a bound: cuFile, as all groups of the toolkit depend on it;
cudart, as libcudadevrt is for compilers; CUPTI and the sanitizer, as each of their files is for a
GPU of its own."""

PYTHON_ROOT = "cuda-python"
"""Its major version is CUDA's, and its requirements are met first when the other projects are
chosen.
"""

PYTHON_PROJECTS: tuple[str, ...] = (
    PYTHON_ROOT,
    "cuda-bindings",
    "cuda-core",
    "numba-cuda",
    "cuda-pathfinder",
    # before its compiler: it reads numba-cuda-mlir's internals, so it accepts few versions
    "cuda-cccl",
    "numba-cuda-mlir",
)
"""In the order of choice: each accepts the projects before it, and they accept it."""


LIBRARIES: Mapping[str, str] = {
    "cudnn": "nvidia-cudnn-cu{major}",
    "cudss": "nvidia-cudss-cu{major}",
    "cusparse-lt": "nvidia-cusparselt-cu{major}",
    "custatevec": "custatevec-cu{major}",
    "cutensor": "cutensor-cu{major}",
    # After cuTENSOR, which it requires.
    "cutensornet": "cutensornet-cu{major}",
    "nccl": "nvidia-nccl-cu{major}",
    "nvcomp": "nvidia-libnvcomp-cu{major}",
    "nvjpeg2k": "nvidia-nvjpeg2k-cu{major}",
    "nvshmem": "nvidia-nvshmem-cu{major}",
    "nvidia-ml-py": "nvidia-ml-py",
    "cupy": "cupy-cuda{major}x",
    "nvmath-python": "nvmath-python",
    # Its extra requires the toolkits that it runs with: none of CUDA 12.
    "cuda-tile": "cuda-tile[tileiras]",
    # Before its parts, which it requires in one version only.
    "jax": "jax",
    "jaxlib": "jaxlib",
    "jax-cuda-plugin": "jax-cuda{major}-plugin",
    "jax-cuda-pjrt": "jax-cuda{major}-pjrt",
    # Before what it requires in one version only.
    "torch": "torch",
    "triton": "triton",
    "torch-cpu": "torch",
    # After what they extend.
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "torchcodec": "torchcodec",
    "torchvision-cpu": "torchvision",
    "torchaudio-cpu": "torchaudio",
    "torchcodec-cpu": "torchcodec",
}
"""Libraries and programs with a version of their own that need the toolkit: name -> distribution
for a major, with the
extras whose requirements count.

PyTorch's wheels need the toolkit on some platforms only; a name that ends in `WITHOUT_TOOLKIT` is
for the others."""

WITHOUT_TOOLKIT = "-cpu"
"""The end of such a name."""

EXTENDED: Mapping[str, str] = dict.fromkeys(("torchvision", "torchaudio", "torchcodec"), "torch")
"""Project -> the project that its libraries extend.

The metadata of these wheels names no CUDA, and often no version of the other project; their module
``version`` names the CUDA that they were compiled with."""

OLDER_TOOLKITS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # The driver branch R580 stays at 13.0, and is the last for Volta and older GPUs.
    "13.0": {"13": ("torch", "triton", *EXTENDED)},
}
"""CTK minor -> CUDA major -> projects whose newest version for that toolkit is locked beside the
newest of all.
"""

AS_REQUIRED: Mapping[str, tuple[str, ...]] = {
    # Newer cuDNN has no code for GPUs before 7.5, and the handles of newer cuSPARSELt have another
    # alignment.
    "12": ("cudnn", "cusparse-lt"),
}
"""CUDA major -> libraries that are also locked in the version which another project requires
exactly.
"""

EXCLUSIONS = "exclusions.yaml"


def _minors(text: Any) -> SpecifierSet:
    """``*`` is every release."""
    return SpecifierSet("" if text == "*" else str(text))


Minors = Annotated[SpecifierSet, PlainValidator(_minors)]


@dataclass(frozen=True)
class Exclusion:
    """A component that no recipe reads for some CTK minors, with the reason in a sentence."""

    component: str
    releases: Minors
    reason: str

    def applies_to(self, lock: ReleaseLock) -> bool:
        return self.component in lock.components and Version(lock.minor) in self.releases


@dataclass(frozen=True)
class Unpublished:
    """A part of the CTK that the manifests of some CTK minors do not name, with the reason."""

    name: str
    releases: Minors
    reason: str


@dataclass(frozen=True)
class Exclusions:
    """The list in ``variants/exclusions.yaml``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    excluded: tuple[Exclusion, ...] = ()
    unpublished: tuple[Unpublished, ...] = ()


_SHAPE = TypeAdapter(Exclusions)


@dataclass(frozen=True)
class Classes:
    """The components of a release: read by a planned build, excluded, neither, or both.

    The last two must be empty.
    """

    packaged: frozenset[str]
    excluded: frozenset[str]
    unclassified: frozenset[str]
    needless: frozenset[str]


def classify(lock: ReleaseLock, read: Collection[str], excluded: Iterable[Exclusion]) -> Classes:
    """Sorts the components of a release by the planned builds and the exclusions."""
    everything = frozenset(lock.components)
    packaged = everything.intersection(read)
    listed = frozenset(entry.component for entry in excluded if entry.applies_to(lock))
    return Classes(packaged, listed - packaged, everything - packaged - listed, listed & packaged)


def load_exclusions(workspace: Workspace) -> Exclusions:
    """The list of a checkout, empty without the file.

    LockError names every problem with its line.
    """
    path = workspace.variants / EXCLUSIONS
    return parse_exclusions(read(path)) if path.exists() else Exclusions()


def parse_exclusions(text: str) -> Exclusions:
    """The list in the text of the file; raises the errors of `load_exclusions`."""
    return parse_by_hand(text, _SHAPE, EXCLUSIONS, f"fix variants/{EXCLUSIONS}: it is kept by hand")


def needless_exclusions(exclusions: Exclusions, locks: Mapping[str, ReleaseLock]) -> list[str]:
    """Entries that apply to no locked release."""
    releases = [lock for lock in locks.values() if lock.is_ctk]
    unused = [
        e.component for e in exclusions.excluded if not any(e.applies_to(lock) for lock in releases)
    ]
    minors = [Version(lock.minor) for lock in releases]
    return unused + [
        u.name for u in exclusions.unpublished if not any(minor in u.releases for minor in minors)
    ]


def gpu_libraries(lock: ReleaseLock) -> Collection[str]:
    """The components whose packages are for the GPUs of their code."""
    return (
        [name for name in GPU_LIBRARIES if name in lock.components]
        if lock.is_ctk
        else lock.components.keys()
    )


def unmeasured(lock: ReleaseLock) -> list[str]:
    """What a lock does not say that `ctk release measure` finds out, in words; recipes need it."""
    if not lock.is_measured:
        return []
    facts = ["its facts"] if lock.is_ctk and lock.facts is None else []
    return facts + [
        f"the GPUs of {name}" for name in gpu_libraries(lock) if name not in lock.gpu_code
    ]


def require_measured(lock: ReleaseLock) -> None:
    """Raises LockError for a lock that lacks measured values."""
    if unmeasured(lock):
        name = lock.minor or lock.name
        raise LockError(
            f"release {name} has not been measured", f"run `ctk release measure {name} --write`"
        )
