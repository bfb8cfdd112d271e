"""Where the files of a CTK component lie in a package: the one table that recipes' tests, the audit and the docs use.

recipes/common/layout.sh brings wheels into this layout; a test compares the two. Paths are relative to the prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ctk.core.platforms import PLATFORMS

MAJORS = (12, 13)


@dataclass(frozen=True)
class Layout:
    """The places in packages of one subdir and CUDA major."""

    subdir: str
    cuda_major: int
    libraries: str  # shared libraries; on Linux the real files, which have the component's full version as their name
    links: str  # where loaders find them: a link for each of their names on Linux, the DLLs themselves on Windows
    linking: str  # static and import libraries
    headers: str  # C and C++ headers
    cccl_headers: str  # headers of Thrust, CUB and libcu++; apart from the others on Windows, and in ``cccl/`` from 13
    nvtx_headers: str  # NVTX's headers; on Windows apart from those of other packages of NVTX
    cmake: str  # CMake's configuration files of CCCL
    pkgconfig: str  # ``.pc`` files, "" on Windows
    tools: str  # programs of the compiler
    nvvm_library: str  # libNVVM
    nvvm_headers: str  # its header
    nvvm_tools: str  # cicc
    libdevice: str  # the bitcode file
    sanitizer: str  # all of Compute Sanitizer: programs, libraries, headers
    rpath: str  # RPATH of the libraries, libNVVM's excepted: that file is never touched
    tool_rpath: str  # RPATH of the programs in ``tools``
    sanitizer_rpath: str  # RPATH of the programs and libraries in ``sanitizer``
    forbidden: tuple[str, ...]  # patterns (regular expressions) of paths that no package may hold

    def library_names(self, soname: str, version: str) -> tuple[str, ...]:
        """The names of a shared library on Linux: the real file, then the links for loaders and for linkers.

        One that has no version in its SONAME has no other name.

        Args:
            soname: Its SONAME, e.g. ``libcudart.so.13``.
            version: Of the component, e.g. ``13.4.92``; cuFile leaves the fourth number out, libNVVM counts for itself,
                and CUPTI's file is called as its SONAME.
        """
        stem, _, number = soname.partition(".so.")
        if not number:
            return (soname,)
        if stem == "libcupti":
            return soname, f"{stem}.so"
        full = version
        if stem.startswith("libcufile"):
            full = ".".join(version.split(".")[:3])
        elif stem == "libnvvm":
            full = f"{number}.0.0"
        return f"{stem}.so.{full}", soname, f"{stem}.so"

    def is_forbidden(self, path: str) -> bool:
        """Whether no package may hold the path."""
        return any(re.match(pattern, path) for pattern in self.forbidden)


# What a wheel is made of besides its files, whichever the platform.
_LEFTOVERS = (r"(.*/)?nvidia/", r"(.*/)?cu1\d/", r"(.*/)?\.metadata/", r"(.*/)?__init__\.py$", r".*\.dist-info/")


def _linux(subdir: str, major: int) -> Layout:
    target = f"targets/{PLATFORMS[subdir].target}"
    return Layout(
        subdir=subdir,
        cuda_major=major,
        libraries=f"{target}/lib",
        links="lib",
        linking=f"{target}/lib",
        headers=f"{target}/include",
        cccl_headers=f"{target}/include/cccl" if major >= 13 else f"{target}/include",
        nvtx_headers=f"{target}/include",
        cmake=f"{target}/lib/cmake",
        pkgconfig="lib/pkgconfig",
        tools="bin",
        nvvm_library="nvvm/lib64",
        nvvm_headers="nvvm/include",
        nvvm_tools="nvvm/bin",
        libdevice="nvvm/libdevice/libdevice.10.bc",
        sanitizer="compute-sanitizer",
        rpath="$ORIGIN",
        tool_rpath="$ORIGIN/../lib",
        sanitizer_rpath="$ORIGIN:$ORIGIN/../lib",
        forbidden=(*_LEFTOVERS, r"lib64/", r"include/", r"Library/", r"(lib|targets/[^/]+/lib)/libnvvm\."),
    )


def _windows(subdir: str, major: int) -> Layout:
    machine = {"win-64": "x64", "win-arm64": "arm64"}[subdir]
    # CUDA 12 has its libraries where linkers look by default, CUDA 13 in one folder for each machine.
    linking = f"Library/lib/{machine}" if major >= 13 else "Library/lib"
    # Tools look below targets/x64 on either machine; conda-forge's own cccl package has Library/include/cccl.
    apart = "Library/include/targets/x64"
    return Layout(
        subdir=subdir,
        cuda_major=major,
        libraries="Library/bin",
        links="Library/bin",
        linking=linking,
        headers="Library/include",
        cccl_headers=f"{apart}/cccl" if major >= 13 else apart,
        nvtx_headers=apart,
        cmake=f"Library/lib/{machine}/cmake",
        pkgconfig="",
        tools="Library/bin",
        nvvm_library="Library/nvvm/bin",
        nvvm_headers="Library/nvvm/include",
        nvvm_tools="Library/nvvm/bin",
        libdevice="Library/nvvm/libdevice/libdevice.10.bc",
        sanitizer="Library/compute-sanitizer",
        rpath="",
        tool_rpath="",
        sanitizer_rpath="",
        # All of CUDA 13.0.0 was once in Library/bin/x64, where nothing looks for a DLL.
        forbidden=(*_LEFTOVERS, r"Library/bin/(x64|x86_64|arm64|nvvm)", r"(targets|bin|lib|include)/"),
    )


LAYOUTS: dict[tuple[str, int], Layout] = {
    (subdir, major): (_windows if platform.is_windows else _linux)(subdir, major)
    for subdir, platform in PLATFORMS.items()
    for major in MAJORS
    # Windows on ARM came with CUDA 13.
    if (subdir, major) != ("win-arm64", 12)
}
