"""The machine that a request is for: as options state it, and as it is detected where they do not."""

from __future__ import annotations

import os
import platform as host
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import rattler
from rattler import GenericVirtualPackage, PackageName, Version, VirtualPackageOverrides
from rattler.exceptions import DetectVirtualPackageError
from rattler.package.build_string import BuildString

from ctk.core.errors import BadValue, check_names
from ctk.core.platforms import PLATFORMS, this_platform

# What a machine of a platform has at least, where it is not this one. glibc: AlmaLinux 8's, the oldest that
# manylinux_2_28 wheels (cuda-bindings, cuda-core, numba-cuda) are meant for.
_FOREIGN = {
    "linux": [("__unix", "0", "0"), ("__linux", "4.18", "0"), ("__glibc", "2.28", "0")],
    "win": [("__win", "10.0", "0")],
}
_ARCH_STEP = "write it as 9.0, sm_90 or none; nvidia-smi --query-gpu=compute_cap --format=csv shows it"
_ARCHSPEC = {"64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Machine:
    """The part of a scenario that is not the request."""

    subdir: str
    driver: str | None  # the newest CUDA version that it supports (13.0); None without a driver
    arch: str | None  # compute capability of the oldest GPU (9.0); None where it is unknown, or without a driver
    words: str  # driver and GPU for people, with how they are known


def machine(platform: str | None = None, driver: str | None = None, arch: str | None = None) -> Machine:
    """The machine that the options state; what they leave open is detected, if it is this one.

    A driver given by hand comes with the GPU given by hand: this machine's GPU would say nothing about another's
    driver. On a foreign platform nothing is detected, but what ``CONDA_OVERRIDE_CUDA`` states holds there too.
    """
    subdir = platform or this_platform()
    check_names("platform", [subdir], PLATFORMS)
    found_driver, found_arch = detected(subdir) if driver is None else (None, None)
    known_driver = _stated(driver, driver_version, found_driver)
    known_arch = _stated(arch, compute_capability, found_arch)
    if arch is not None and known_arch and not known_driver:
        raise BadValue(
            f"--arch {arch} describes a GPU on a machine without a driver, and no client sees such a GPU",
            f"add the driver, such as --driver 13.0 --arch {arch}",
        )
    how = "" if driver is not None else " detected" if known_driver or subdir == this_platform() else " given"
    if not known_driver:
        return Machine(subdir, None, None, f"no driver{how}")
    gpu = "no GPU" if arch is not None else "GPU not given" if driver is not None else "no GPU detected"
    if known_arch:
        gpu = f"GPU {known_arch}{' detected' if arch is None else ''}"
    return Machine(subdir, known_driver, known_arch, f"driver {known_driver}{how}, {gpu}")


def _stated(option: str | None, read: Callable[[str], str], otherwise: str | None) -> str | None:
    if option is None:
        return otherwise
    return None if option.lower() == "none" else read(option)


def detected(subdir: str) -> tuple[str | None, str | None]:
    """The driver and GPU of this machine as rattler detects them, or as the overrides of CEP 30 and 46 state them."""
    if subdir != this_platform():
        driver, arch = (os.environ.get(f"CONDA_OVERRIDE_{name}") for name in ("CUDA", "CUDA_ARCH"))
        return (driver_version(driver), compute_capability(arch) if arch else None) if driver else (None, None)
    try:
        # Without from_env() rattler does not look at the overrides.
        packages = [p.into_generic() for p in rattler.VirtualPackage.detect(VirtualPackageOverrides.from_env())]
    except DetectVirtualPackageError as error:
        raise BadValue(f"this machine's driver and GPU cannot be told: {error}", _ARCH_STEP) from None
    found = {p.name.normalized: str(p.version) for p in packages}
    driver, arch = found.get("__cuda"), found.get("__cuda_arch")
    return (driver_version(driver), arch) if driver else (None, None)


def detected_driver() -> str | None:
    """The CUDA version that this machine's driver supports; None without a driver."""
    return detected(this_platform())[0]


def driver_version(text: str) -> str:
    """``12.4`` of ``12.4``, ``13.0`` of ``13``, as conda's ``__cuda`` has it."""
    match = re.fullmatch(r"(\d{1,2})(?:\.(\d{1,2}))?", text.strip())
    if match:
        return f"{int(match[1])}.{int(match[2] or 0)}"
    cause = f"{text!r} is not the CUDA version of a driver"
    if re.match(r"\d{3}", text):
        cause = f"{text} is a driver's own version; the CUDA version that it supports is wanted"
    raise BadValue(cause, "write it as 12.4 or none; nvidia-smi shows it as CUDA Version or CUDA UMD Version")


def compute_capability(text: str) -> str:
    """``9.0`` of ``9.0``, ``90``, ``sm_90`` or ``sm_90a``; ``12`` is refused, as it could be 1.2 or 12.0.

    The letters name instruction sets, not another GPU (CEP 46).
    """
    match = re.fullmatch(r"(\d{1,2})\.(\d)[af]?|(?:sm_|compute_)?([3-9]|\d\d)(\d)[af]?", text.strip().lower())
    if match is None:
        raise BadValue(f"{text!r} is not a compute capability", _ARCH_STEP)
    return f"{int(match[1] or match[3])}.{match[2] or match[4]}"


def python_specs(text: str) -> tuple[str, ...]:
    """The specs for Python ``3.13``, ``3.13.2``, or free-threaded ``3.14t``."""
    match = re.fullmatch(r"(\d+\.\d+)((?:\.\d+)?)(t?)", text.strip())
    if not match:
        raise BadValue(f"{text!r} is not a version of Python", "write --python 3.13, or 3.14t for free-threaded Python")
    minor, patch, free_threaded = match.groups()
    specs = (f"python={minor}{patch}",)
    # python_abi is what tells the two kinds of one version apart; packages depend on it.
    return (*specs, f"python_abi={minor}=*_cp{minor.replace('.', '')}t") if free_threaded else specs


@lru_cache(maxsize=4096)
def virtual_packages(subdir: str, driver: str | None, arch: str | None) -> list[GenericVirtualPackage]:
    """The virtual packages that a client would detect on such a machine."""
    system, architecture = subdir.split("-")
    base = list(_FOREIGN[system])
    if subdir == this_platform() and system == "linux":
        base[-1] = ("__glibc", host.libc_ver()[1] or "2.17", "0")
    base.append(("__archspec", "1", _ARCHSPEC[architecture]))
    if driver:
        base.append(("__cuda", driver, "0"))
        if arch:
            base.append(("__cuda_arch", arch, "0"))
    return [GenericVirtualPackage(PackageName(n), Version(v), BuildString(build)) for n, v, build in base]
