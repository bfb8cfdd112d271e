"""The places of toolkit components' files: a table for recipe tests, the audit and docs.

recipes/common/layout.sh brings wheels into this layout; a test compares the two. Paths are relative
to the prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ctk.core.platforms import PLATFORMS

MAJORS = (12, 13)
OPENS_BY_NAME = re.compile(r"lib(cufile|cupti|OpenCL)\.so\..*|libnvrtc\..*")
"""Libraries that open another one by its name: their RPATH is needed, though nothing in their
headers says so.
"""
OF_GLIBC = re.compile(
    r"lib[cm]\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|libutil\.so\.1|ld-linux-.*\.so\..*"
)


@dataclass(frozen=True)
class Layout:
    """The places in packages of a subdir and CUDA major."""

    subdir: str
    cuda_major: int
    # shared libraries; on Linux the real files, which have the component's full version as their
    # name
    libraries: str
    # where loaders find them: a link for each of their names on Linux, the DLLs themselves on
    # Windows
    links: str
    linking: str  # static and import libraries
    stubs: str  # stubs of the driver's libraries, where linkers look and no loader does
    headers: str  # C and C++ headers
    # headers of Thrust, CUB and libcu++; apart from the others on Windows, and in ``cccl/`` from 13
    cccl_headers: str
    nvtx_headers: str  # NVTX's headers; on Windows apart from those of other packages of NVTX
    cmake: str  # CMake's configuration files of CCCL
    find_package: str  # files that read these, where CMake looks without activation
    pkgconfig: str  # ``.pc`` files, "" on Windows
    tools: str  # programs of the compiler
    nvvm_library: str  # libNVVM
    nvvm_imports: str  # its import library, "" on Linux
    nvvm_headers: str  # its header
    nvvm_tools: str  # cicc
    libdevice: str  # the bitcode file
    sanitizer: str  # all of Compute Sanitizer: programs, libraries, headers
    rpath: str  # RPATH of the libraries, except libNVVM, which is never changed
    tool_rpath: str  # RPATH of the programs in ``tools``
    sanitizer_rpath: str  # RPATH of the programs and libraries in ``sanitizer``
    forbidden: tuple[str, ...]  # patterns (regular expressions) of paths that no package may have

    def library_names(self, soname: str, version: str) -> tuple[str, ...]:
        """The names of a shared library on Linux: the file, then links for loaders and linkers.

        The version of the real file is the component's (``13.4.92``). cuFile leaves the fourth
        number out, libNVVM has a version of its own, and CUPTI's file has its SONAME as the name. A
        library without a version in its SONAME has no other name.
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
        """Whether no package may have the path."""
        return any(re.match(pattern, path) for pattern in self.forbidden)


# Field of a layout -> its place on Linux and on Windows.
_PLACES = {
    "libraries": ("{target}/lib", "Library/bin"),
    "links": ("lib", "Library/bin"),
    "stubs": ("{target}/lib/stubs", ""),
    # CUDA 12 has its libraries where linkers search by default, CUDA 13 in a folder for each
    # machine.
    "linking": ("{target}/lib", "Library/lib/{machine}"),
    "headers": ("{target}/include", "Library/include"),
    # Tools search below targets/x64 on both machines; conda-forge's own cccl package has
    # Library/include/cccl.
    "cccl_headers": ("{target}/include/cccl", "Library/include/targets/x64/cccl"),
    "nvtx_headers": ("{target}/include", "Library/include/targets/x64"),
    "cmake": ("{target}/lib/cmake", "Library/lib/{machine}/cmake"),
    "find_package": ("share/cmake", "Library/share/cmake"),
    "pkgconfig": ("lib/pkgconfig", ""),
    "tools": ("bin", "Library/bin"),
    "nvvm_library": ("nvvm/lib64", "Library/nvvm/bin"),
    "nvvm_imports": ("", "Library/nvvm/lib/{machine}"),
    "nvvm_headers": ("nvvm/include", "Library/nvvm/include"),
    "nvvm_tools": ("nvvm/bin", "Library/nvvm/bin"),
    "libdevice": ("nvvm/libdevice/libdevice.10.bc", "Library/nvvm/libdevice/libdevice.10.bc"),
    "sanitizer": ("compute-sanitizer", "Library/compute-sanitizer"),
    "rpath": ("$ORIGIN", ""),
    "tool_rpath": ("$ORIGIN/../lib", ""),
    "sanitizer_rpath": ("$ORIGIN:$ORIGIN/../lib", ""),
}
_OF_CUDA_12 = {
    "linking": ("{target}/lib", "Library/lib"),
    "cccl_headers": ("{target}/include", "Library/include/targets/x64"),
}
# Paths of a wheel that no package has, on all platforms.
_LEFTOVERS = (
    r"(.*/)?nvidia/",
    r"(.*/)?cu1\d/",
    r"(.*/)?\.metadata/",
    r"(.*/)?__init__\.py$",
    r".*\.dist-info/",
)
_FORBIDDEN = (
    (*_LEFTOVERS, r"lib64/", r"include/", r"Library/", r"(lib|targets/[^/]+/lib)/libnvvm\."),
    # All of CUDA 13.0.0 was once in Library/bin/x64, where no program searches a DLL.
    (*_LEFTOVERS, r"Library/bin/(x64|x86_64|arm64|nvvm)", r"(targets|bin|lib|include)/"),
)


def _layout(subdir: str, major: int) -> Layout:
    platform = PLATFORMS[subdir]
    names = {
        "target": f"targets/{platform.target}",
        "machine": "arm64" if subdir == "win-arm64" else "x64",
    }
    places = _PLACES if major >= 13 else _PLACES | _OF_CUDA_12
    own = {field: pair[platform.is_windows].format(**names) for field, pair in places.items()}
    return Layout(subdir=subdir, cuda_major=major, forbidden=_FORBIDDEN[platform.is_windows], **own)


LAYOUTS: dict[tuple[str, int], Layout] = {
    (subdir, major): _layout(subdir, major)
    for subdir in PLATFORMS
    for major in MAJORS
    # Windows on ARM came with CUDA 13.
    if (subdir, major) != ("win-arm64", 12)
}
