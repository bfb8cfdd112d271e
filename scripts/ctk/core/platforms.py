"""The four subdirs of the channel, and their names in other tools."""

from __future__ import annotations

import platform as host
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.tags import Tag


@dataclass(frozen=True)
class Platform:
    """One conda subdir.

    Attributes:
        wheel_tag: Regular expression of the platform tags of wheels.
        target: The directory of the CTK's cross layout (``targets/<target>``), "" on Windows.
        marker_environment: PEP 508 environment markers.
    """

    subdir: str
    wheel_tag: str
    target: str
    marker_environment: dict[str, str] = field(hash=False)

    @property
    def is_windows(self) -> bool:
        return self.subdir.startswith("win-")


def _platform(subdir: str, wheel_tag: str, target: str, machine: str) -> Platform:
    sys_platform, os_name, system = (
        ("win32", "nt", "Windows") if not target else ("linux", "posix", "Linux")
    )
    names = ("sys_platform", "platform_machine", "os_name", "platform_system")
    markers = dict(zip(names, (sys_platform, machine, os_name, system), strict=True))
    return Platform(subdir, wheel_tag, target, markers)


PLATFORMS: dict[str, Platform] = {
    platform.subdir: platform
    for platform in (
        _platform("linux-64", r"(many)?linux.*_x86_64", "x86_64-linux", "x86_64"),
        # A wheel of cuSPARSELt has NVIDIA's name of these machines in its WHEEL file.
        _platform("linux-aarch64", r"(many)?linux.*_(aarch64|sbsa)", "sbsa-linux", "aarch64"),
        _platform("win-64", r"win_amd64", "", "AMD64"),
        _platform("win-arm64", r"win_arm64", "", "ARM64"),
    )
}

SYSTEMS: dict[str, tuple[str, ...]] = {
    "linux": ("linux-64", "linux-aarch64"),
    "win": ("win-64", "win-arm64"),
}
"""The subdirs of each operating system."""

NOARCH = "noarch"


@lru_cache(maxsize=1024)
def targets(tags: frozenset[Tag]) -> frozenset[str]:
    """The targets of a wheel's tags: ``noarch``, ``<subdir>`` or ``<subdir>-<ABI>``.

    An extension module has an ABI. One for the stable ABI (``cp312-abi3``) has a target for that
    Python with the GIL, and for each later one.
    """
    found = set()
    for tag in tags:
        abis = (
            [f"cp3{minor}" for minor in range(int(tag.interpreter[3:]), 100)]
            if _is_stable(tag)
            else [tag.abi]
        )
        pure = tag.interpreter.startswith("py") and tag.abi == "none"
        if pure and tag.platform == "any":
            found.add(NOARCH)
        for platform in PLATFORMS.values():
            if re.fullmatch(platform.wheel_tag, tag.platform):
                found |= {platform.subdir} if pure else {f"{platform.subdir}-{abi}" for abi in abis}
    return frozenset(found)


def _is_stable(tag: Tag) -> bool:
    return tag.abi == "abi3" and re.fullmatch(r"cp3\d+", tag.interpreter) is not None


def this_platform() -> str:
    """The subdir of the machine that runs this process."""
    machine = {
        "x86_64": "64",
        "AMD64": "64",
        "aarch64": "aarch64",
        "arm64": "aarch64",
        "ARM64": "arm64",
    }[host.machine()]
    system = "win" if sys.platform == "win32" else "linux"
    return f"{system}-{machine}"
