"""Sources that are made of the names in an artefact: stubs of the driver, and import libraries.

A linker needs the names of a library's functions, and nothing else of it. NVIDIA's wheels have no
stub of the driver's libraries, and for Windows few import libraries. This module says which of
these files an artefact gives, and where they are; `ctk.fetch.derive` makes them. They hold no byte
of NVIDIA's.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ctk.lock.model import Artefact

REVISION = 1
"""Raise this when the same names give other files."""
ZIG_VERSION = "0.17.1"
"""Of the program that writes them; another version may write other bytes."""
IMPORTS, STUBS = "imports", "stubs"
KINDS = (IMPORTS, STUBS)
NOTE = "names.txt"
"""A text beside the tree: rattler-build would unpack an archive of one folder without it."""
# The end of a DLL's name that the name of its import library lacks: 64_13 of cublas64_13.dll.
_VERSION = re.compile(r"(64)?(_[0-9.]+)+$")
# DLLs that other DLLs load by name, and no program links with.
_NOT_LINKED = re.compile(r"nvrtc-builtins.*|.*\.alt")
# DLLs whose import libraries NVIDIA's archives have also under the DLL's own name.
_TWO_NAMES = re.compile(r"cudnn.*")


@dataclass(frozen=True)
class Stub:
    """A library of the driver, and where its functions are declared.

    Attributes:
        library: The name of its stub.
        soname: The name of the library itself, which programs need.
        headers: Headers of the artefact that declare its functions.
        macro: With it, they declare also older names (cuMemAlloc beside cuMemAlloc_v2), and the
            names for a default stream in each thread (cuLaunchKernel_ptsz).
        others: Functions that are declared by headers of other artefacts.
        status: The type that most of its functions return.
        value: The value of that type that says "this is a stub".
        windows: The DLL with these functions.
    """

    library: str
    soname: str
    headers: tuple[str, ...]
    macro: str
    others: tuple[str, ...]
    status: str
    value: int
    windows: str = ""


STUB_OF: Mapping[str, Stub] = {
    "cudart": Stub(
        "libcuda.so",
        "libcuda.so.1",
        ("cuda.h", "cudaEGL.h", "cudaGL.h", "cudaVDPAU.h"),
        "__CUDA_API_VERSION_INTERNAL",
        # In cudaProfiler.h, of the wheel of the profiler API.
        ("cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"),
        "CUresult",
        34,  # CUDA_ERROR_STUB_LIBRARY
        "nvcuda.dll",
    ),
    "nvml": Stub(
        "libnvidia-ml.so",
        "libnvidia-ml.so.1",
        ("nvml.h",),
        "NVML_NO_UNVERSIONED_FUNC_DEFS",
        (),
        "nvmlReturn_t",
        12,  # NVML_ERROR_LIBRARY_NOT_FOUND
    ),
}
"""Component -> the library of the driver that its headers declare."""


@dataclass(frozen=True)
class Derived:
    """A source that is made of the names in an artefact.

    Attributes:
        kind: One of `KINDS`.
    """

    kind: str
    artefact: Artefact

    @property
    def target(self) -> str:
        """Stem of the file that recipes read, beside the artefact's own."""
        return f"{self.artefact.target}-{self.kind}"


def import_libraries(names: Iterable[str], subdir: str) -> dict[str, str]:
    """The import libraries that a wheel lacks, as members of its tree, with the DLL of each.

    Args:
        names: The members of the wheel.
        subdir: Its platform.
    """
    machine = "arm64" if subdir == "win-arm64" else "x64"
    listed = sorted(names)
    given = {posixpath.basename(name).lower() for name in listed}
    found = {}
    for name in listed:
        stem, ending = posixpath.splitext(posixpath.basename(name))
        library = f"{_VERSION.sub('', stem)}.lib"
        is_linked = ending == ".dll" and not _NOT_LINKED.fullmatch(stem)
        if is_linked and library.lower() not in given:
            root = "/".join(name.split("/")[:2])
            # libNVVM has a tree of its own in the toolkit, also where its wheel has none.
            part = "nvvm/lib" if library == "nvvm.lib" else "lib"
            found[f"{root}/{part}/{machine}/{library}"] = name
            if _TWO_NAMES.fullmatch(stem):
                found[f"{root}/{part}/{machine}/{stem}.lib"] = name
    return found


def driver_import(artefact: Artefact, names: Iterable[str]) -> str:
    """The member of the driver's import library that a wheel of the runtime lacks, or ""."""
    listed = list(names)
    if artefact.component != "cudart" or any(name.endswith("/cuda.lib") for name in listed):
        return ""
    folder = posixpath.dirname(header_folder(STUB_OF["cudart"], listed))
    return f"{folder}/lib/x64/cuda.lib"


def stub_member(stub: Stub, names: Iterable[str]) -> str:
    """The stub of a driver's library, as a member of the tree of the wheel that declares it."""
    return f"{posixpath.dirname(header_folder(stub, names))}/lib/stubs/{stub.library}"


def header_folder(stub: Stub, names: Iterable[str]) -> str:
    """The folder of a wheel that has the headers of a driver's library."""
    wanted = f"/include/{stub.headers[0]}"
    return next(posixpath.dirname(name) for name in names if name.endswith(wanted))
