"""The four subdirs the channel serves, and how other tools name them."""

from __future__ import annotations

import platform as host
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.tags import Tag


@dataclass(frozen=True)
class Platform:
    """One conda subdir.

    Attributes:
        wheel_tag: Regular expression of the platform tags that run there.
        markers: PEP 508 environment markers.
        target: The directory of the CTK's cross layout (``targets/<target>``), "" on Windows.
    """

    subdir: str
    wheel_tag: str
    markers: tuple[tuple[str, str], ...]
    target: str

    @property
    def is_windows(self) -> bool:
        return self.subdir.startswith("win-")

    @property
    def marker_environment(self) -> dict[str, str]:
        return dict(self.markers)


def _markers(sys_platform: str, machine: str, os_name: str, system: str) -> tuple[tuple[str, str], ...]:
    return (
        ("sys_platform", sys_platform),
        ("platform_machine", machine),
        ("os_name", os_name),
        ("platform_system", system),
    )


PLATFORMS: dict[str, Platform] = {
    p.subdir: p
    for p in (
        Platform("linux-64", r"(many)?linux.*_x86_64", _markers("linux", "x86_64", "posix", "Linux"), "x86_64-linux"),
        Platform(
            "linux-aarch64", r"(many)?linux.*_aarch64", _markers("linux", "aarch64", "posix", "Linux"), "sbsa-linux"
        ),
        Platform("win-64", r"win_amd64", _markers("win32", "AMD64", "nt", "Windows"), ""),
        Platform("win-arm64", r"win_arm64", _markers("win32", "ARM64", "nt", "Windows"), ""),
    )
}

SYSTEMS: dict[str, tuple[str, ...]] = {"linux": ("linux-64", "linux-aarch64"), "win": ("win-64", "win-arm64")}
"""The subdirs of each operating system."""

PLACES: dict[str, tuple[str, ...]] = {subdir: (subdir,) for subdir in PLATFORMS} | SYSTEMS
"""Where a manifest can ask for a wheel: one subdir, or any of an operating system."""

NOARCH = "noarch"


def targets(tags: Iterable[Tag]) -> set[str]:
    """What a wheel of these tags is for: ``noarch``, ``<subdir>``, or ``<subdir>-<ABI>`` for an extension module."""
    found = set()
    for tag in tags:
        pure = tag.interpreter.startswith("py") and tag.abi == "none"
        if pure and tag.platform == "any":
            found.add(NOARCH)
        for platform in PLATFORMS.values():
            if re.fullmatch(platform.wheel_tag, tag.platform):
                found.add(platform.subdir if pure else f"{platform.subdir}-{tag.abi}")
    return found


def this_platform() -> str:
    """The subdir of the machine that runs this process."""
    machine = {"x86_64": "64", "AMD64": "64", "aarch64": "aarch64", "arm64": "aarch64", "ARM64": "arm64"}[
        host.machine()
    ]
    return f"{'win' if sys.platform == 'win32' else 'linux'}-{machine}"
