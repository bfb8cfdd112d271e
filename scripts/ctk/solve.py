"""Asks a solver what a machine would get: the pick for a scenario."""

from __future__ import annotations

import asyncio
import platform as host
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rattler
from rattler import Gateway, GenericVirtualPackage, PackageName, RepoDataRecord, Version
from rattler.exceptions import GatewayError, InvalidMatchSpecError, SolverError
from rattler.package.build_string import BuildString

from ctk.errors import UnknownName, Unsolvable
from ctk.platforms import NOARCH, PLATFORMS, this_platform

# What a machine of a platform has at least, where it is not this one. glibc: AlmaLinux 8's, the oldest that
# manylinux_2_28 wheels (cuda-bindings, cuda-core, numba-cuda) are meant for.
_FOREIGN = {
    "linux": [("__unix", "0", "0"), ("__linux", "4.18", "0"), ("__glibc", "2.28", "0")],
    "win": [("__win", "10.0", "0")],
}
_ARCHSPEC = {"64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Scenario:
    """A machine and what is asked of it.

    Attributes:
        specs: What the user types.
        subdir: The platform.
        driver: The newest CUDA version the driver supports (``13.0``), or None without a driver.
        arch: Compute capability of the GPU (``9.0``), or None where no client detects one.
    """

    specs: tuple[str, ...]
    subdir: str
    driver: str | None = None
    arch: str | None = None

    @property
    def virtual_packages(self) -> list[GenericVirtualPackage]:
        """What a client would detect on that machine."""
        system, machine = self.subdir.split("-")
        base = [(n, v, b) for n, v, b in _FOREIGN[system]]
        if self.subdir == this_platform() and system == "linux":
            base[-1] = ("__glibc", host.libc_ver()[1] or "2.17", "0")
        base.append(("__archspec", "1", _ARCHSPEC[machine]))
        if self.driver:
            base.append(("__cuda", self.driver, "0"))
        if self.arch:
            base.append(("__cuda_arch", self.arch, "0"))
        return [virtual_package(*parts) for parts in base]


@dataclass(frozen=True)
class Pick:
    """What the solver answers.

    Attributes:
        scenario: What was asked.
        records: Every package, by name.
    """

    scenario: Scenario
    records: tuple[RepoDataRecord, ...]

    def record(self, name: str) -> RepoDataRecord | None:
        """The record of one package, or None when the pick has none of that name."""
        return next((r for r in self.records if r.name.normalized == name), None)

    def version(self, name: str) -> str:
        """Its version, or ""."""
        record = self.record(name)
        return str(record.version) if record else ""

    @property
    def toolkit(self) -> str:
        """The CTK minor of the pick, e.g. ``13.0``; "" for a pick without CUDA."""
        return self.version("cuda-version")

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(r.size or 0 for r in self.records)


def virtual_package(name: str, version: str, build: str = "0") -> GenericVirtualPackage:
    """One virtual package, e.g. ``__cuda`` 13.0."""
    return GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))


def detected_driver() -> str | None:
    """The CUDA version that this machine's driver supports, as rattler detects it; None without a driver."""
    for package in rattler.VirtualPackage.detect():
        generic = package.into_generic()
        if generic.name.normalized == "__cuda":
            return str(generic.version)
    return None


def solve(scenario: Scenario, channels: Sequence[Path | str], gateway: Gateway | None = None) -> Pick:
    """Solves one scenario with rattler's solver.

    Args:
        scenario: Machine and request.
        channels: Channel folders or URLs, the most important first.
        gateway: Kept by callers that solve often, so that repodata is read once.

    Raises:
        Unsolvable: With the solver's own explanation.
    """
    if scenario.subdir not in PLATFORMS:
        raise UnknownName.of("platform", scenario.subdir, PLATFORMS)
    sources = [channel_url(c) for c in channels]
    try:
        records = asyncio.run(_solve(scenario, sources, gateway))
    except InvalidMatchSpecError as error:
        raise Unsolvable(
            f"the request cannot be read: {error}", "write it as for conda: name, name=1.2 or 'name >=1.2'"
        ) from None
    except SolverError as error:
        raise Unsolvable(
            f"no set of packages satisfies {' '.join(scenario.specs)} on {scenario.subdir} "
            f"{'with a driver for CUDA ' + scenario.driver if scenario.driver else 'without a driver'}:\n{error}",
            "change what was asked for, or update the driver",
        ) from None
    except GatewayError as error:
        raise Unsolvable(
            f"a channel could not be read: {error}", "run `ctk build` first, or check the channel's address"
        ) from None
    return Pick(scenario, tuple(sorted(records, key=lambda r: r.name.normalized)))


async def _solve(scenario: Scenario, sources: Sequence[str], gateway: Gateway | None) -> list[RepoDataRecord]:
    return await rattler.solve(
        sources=sources,
        specs=list(scenario.specs),
        gateway=gateway or Gateway(),
        platforms=[scenario.subdir, NOARCH],
        virtual_packages=scenario.virtual_packages,
    )


def channel_url(channel: Path | str) -> str:
    """A channel as rattler wants it: folders as file URLs, anything else as it is."""
    return channel.resolve().as_uri() if isinstance(channel, Path) else channel
