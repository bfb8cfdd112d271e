"""Which libraries a package may need without shipping them: the system's, the driver's, and well-known packages' own.

The packages of `EXTERNAL` stand for their real selves where these are not audited: some platforms have no base channel
here, and the local one holds no more of them than this machine does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# glibc, and the loader; a system that installs conda packages has them.
_GLIBC = r"lib(c|m|dl|pthread|rt|util)\.so\.\d+|ld-linux-(x86-64\.so\.2|aarch64\.so\.1)"
# The driver's own libraries: only ever the machine's.
_LINUX_DRIVER = r"lib(cuda|nvidia-ml|cudla)\.so\.1"
_WINDOWS = (
    r"(kernel32|user32|advapi32|ole32|oleaut32|shell32|ws2_32|ntdll|gdi32|bcrypt|crypt32|setupapi|cfgmgr32|version|dbghelp"
    r"|psapi|shlwapi|rpcrt4|secur32|winmm|userenv|powrprof|iphlpapi|mswsock|msvcrt)\.dll"
    r"|(api-ms-win-(core|security|eventing|service|base)|ext-ms)-.*\.dll"
)
_WINDOWS_DRIVER = r"(nvcuda|nvml)\.dll"

_SYSTEM = {
    "elf": re.compile(f"{_GLIBC}|{_LINUX_DRIVER}"),
    "pe": re.compile(f"{_WINDOWS}|{_WINDOWS_DRIVER}", re.IGNORECASE),
}

# Also on every system, new enough for what NVIDIA builds to the manylinux rules.
_COMPILER_RUNTIME = re.compile(r"libgcc_s\.so\.1|libstdc\+\+\.so\.6")

_UCRT = r"api-ms-win-crt-.*\.dll|ucrtbase\.dll"
_VC = rf"(vcruntime140(_1|_threads)?|msvcp140(_1|_2|_atomic_wait|_codecvt_ids)?|concrt140|vccorlib140)\.dll|{_UCRT}"

EXTERNAL: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "libgcc": r"libgcc_s\.so\.1|libgomp\.so\.1|libatomic\.so\.1",
        # libstdcxx depends on libgcc.
        "libstdcxx": r"libstdc\+\+\.so\.6|libgcc_s\.so\.1",
        "libzlib": r"libz\.so\.1",
        "rdma-core": r"lib(ibverbs|rdmacm|mlx5|mlx4|ibumad)\.so\.1",
        "ucrt": _UCRT,
        # vc and vc14_runtime depend on ucrt, python on all three.
        "vc14_runtime": _VC,
        "vc": _VC,
        "python": rf"libpython3\..*|python3\d*t?\.dll|{_VC}",
    }.items()
}

# Modules that are imported only where what they need is, without a dependency on it: (package, file) -> library.
OPTIONAL: Mapping[tuple[str, str], re.Pattern[str]] = {
    # Reads PyTorch tensors; imported once torch is.
    ("cuda-core", "_tensor_bridge"): re.compile(r"torch_cpu\.dll", re.IGNORECASE),
}


def is_system(binary_format: str, library: str) -> bool:
    """Whether every machine that runs the package has the library, or gets it with its driver."""
    return bool(_SYSTEM[binary_format].fullmatch(library))


def is_compiler_runtime(library: str) -> bool:
    """Whether the system's copy serves where the environment's is not found."""
    return bool(_COMPILER_RUNTIME.fullmatch(library))


def is_optional(package: str, path: str, library: str) -> bool:
    """Whether the file is only ever used where the library is."""
    return any(
        package == owner and name in path and pattern.fullmatch(library) for (owner, name), pattern in OPTIONAL.items()
    )
