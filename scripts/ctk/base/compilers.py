"""The GCCs of this machine, which stand in the base channel for conda-forge's: nvcc calls them.

installed()  # {"linux-64": "12.2.0", "linux-aarch64": "12.2.0"}
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from functools import cache

from ctk.core.platforms import this_platform

# The names that Debian and Fedora give to cross compilers.
CROSS = {"linux-64": "x86_64-linux-gnu-g++", "linux-aarch64": "aarch64-linux-gnu-g++"}


@cache
def installed() -> Mapping[str, str]:
    """Platform that a g++ on PATH makes programs for -> its version; empty without one."""
    names = {target: "g++" if target == this_platform() else name for target, name in CROSS.items()}
    found = {target: _version(name) for target, name in names.items()}
    return {target: version for target, version in found.items() if version}


def glibc() -> str:
    """The version of this machine's glibc, e.g. ``2.36``."""
    return (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.17").split()[-1]


def _version(name: str) -> str:
    """``12.2.0``; "" where there is no such compiler, or where another one answers to the name."""
    try:
        done = subprocess.run([name, "-dumpfullversion"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    version = done.stdout.strip()
    return version if done.returncode == 0 and re.fullmatch(r"\d+\.\d+\.\d+", version) else ""
