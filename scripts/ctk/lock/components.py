"""The components that a CTK manifest can state, the Python projects, and the libraries beside the toolkit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, TypeAdapter
from pydantic_core import PydanticKnownError

from ctk.core.checkout import Workspace
from ctk.core.document import parse_by_hand, read
from ctk.lock.model import ReleaseLock

MANIFEST = "cuda-toolkit"
"""The distribution whose metadata at version X.Y.Z is the manifest of CTK release X.Y.Z."""


@dataclass(frozen=True)
class CtkComponent:
    """A component of the CTK.

    Attributes:
        name: Our name of it, and the manifest's extra.
        project: Its distribution; in CUDA 12 with ``-cu12`` appended.
        inside: The component whose artefact contains it where a release has no distribution of its own for it.
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
"""Components of the CTK that are installed for the GPUs of their own code. Of the others that have some, cuFile would
refuse a GPU all groups of the toolkit, cudart has libcudadevrt for compilers, and the files of CUPTI and the sanitizer
are each for a GPU of their own."""

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


LIBRARIES: Mapping[str, str] = {
    "cudnn": "nvidia-cudnn-cu{major}",
    "cudss": "nvidia-cudss-cu{major}",
    "cusparse-lt": "nvidia-cusparselt-cu{major}",
    "cutensor": "cutensor-cu{major}",
    "nccl": "nvidia-nccl-cu{major}",
    "nvcomp": "nvidia-libnvcomp-cu{major}",
    "nvjpeg2k": "nvidia-nvjpeg2k-cu{major}",
    "cupy": "cupy-cuda{major}x",
    "nvmath-python": "nvmath-python",
    # What its extra asks for says which toolkits it stands on: none of CUDA 12.
    "cuda-tile": "cuda-tile[tileiras]",
    # Before what it requires: its parts go together in one version only.
    "jax": "jax",
    "jaxlib": "jaxlib",
    "jax-cuda-plugin": "jax-cuda{major}-plugin",
    "jax-cuda-pjrt": "jax-cuda{major}-pjrt",
}
"""Libraries and programs with a version of their own that stand on the toolkit: name -> distribution for a major, with
the extras whose requirements count."""

EXCLUSIONS = "exclusions.yaml"


def _minors(text: Any) -> SpecifierSet:
    """``*`` is every release."""
    if not isinstance(text, str):
        raise PydanticKnownError("string_type")
    try:
        if text == "*" or str(SpecifierSet(text)):
            return SpecifierSet("" if text == "*" else text)
    except InvalidSpecifier:
        pass
    raise ValueError(f"{text!r} says no releases; write a specifier of minors like '<12.3', or '*'")


def _component(text: str) -> str:
    if text not in {component.name for component in CTK_COMPONENTS}:
        raise ValueError(f"{text!r} is no component of a CTK release")
    return text


def _sentence(text: str) -> str:
    if " " not in text.strip():
        raise ValueError("a reason is a sentence")
    return text


ComponentName = Annotated[str, AfterValidator(_component)]
Minors = Annotated[SpecifierSet, PlainValidator(_minors)]
Sentence = Annotated[str, AfterValidator(_sentence)]


@dataclass(frozen=True)
class Exclusion:
    """A component of the release locks that some CTK minors have and no recipe reads, with one sentence why."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    component: ComponentName
    releases: Minors
    reason: Sentence

    def applies_to(self, lock: ReleaseLock) -> bool:
        return self.component in lock.components and Version(lock.minor) in self.releases


@dataclass(frozen=True)
class Unpublished:
    """A part of the CTK, named as in a manifest, that the manifests of some CTK minors do not name, and why."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    releases: Minors
    reason: Sentence


@dataclass(frozen=True)
class Exclusions:
    """The written list."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    excluded: tuple[Exclusion, ...] = ()
    unpublished: tuple[Unpublished, ...] = ()


_SHAPE = TypeAdapter(Exclusions)


@dataclass(frozen=True)
class Classes:
    """The components of one release: read by a planned build, on the written list, neither, or both.

    There must be none of the last two.
    """

    packaged: frozenset[str]
    excluded: frozenset[str]
    unclassified: frozenset[str]
    needless: frozenset[str]


def classify(lock: ReleaseLock, read: Collection[str], excluded: Iterable[Exclusion]) -> Classes:
    """Sorts the components of a release by what the builds planned for it read, and by the written list."""
    everything = frozenset(lock.components)
    packaged = everything.intersection(read)
    listed = frozenset(entry.component for entry in excluded if entry.applies_to(lock))
    return Classes(packaged, listed - packaged, everything - packaged - listed, listed & packaged)


def load_exclusions(workspace: Workspace) -> Exclusions:
    """The written list of a checkout, empty where there is none; LockError with every problem of it and its line."""
    path = workspace.variants / EXCLUSIONS
    return parse_exclusions(read(path)) if path.exists() else Exclusions()


def parse_exclusions(text: str) -> Exclusions:
    """The list in the text of the file; its errors are those of `load_exclusions`."""
    return parse_by_hand(text, _SHAPE, EXCLUSIONS, f"mend variants/{EXCLUSIONS}: it is kept by hand")


def needless_exclusions(exclusions: Exclusions, locks: Mapping[str, ReleaseLock]) -> list[str]:
    """The entries that speak of no locked release."""
    releases = [lock for lock in locks.values() if lock.is_ctk]
    unused = [e.component for e in exclusions.excluded if not any(e.applies_to(lock) for lock in releases)]
    minors = [Version(lock.minor) for lock in releases]
    return unused + [u.name for u in exclusions.unpublished if not any(minor in u.releases for minor in minors)]
