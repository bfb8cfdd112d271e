"""Solves a request for a machine: the scenario, and the pick of rattler's solver for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import rattler
from rattler import Gateway, GenericVirtualPackage, MatchSpec, RepoDataRecord, Subdir
from rattler.exceptions import GatewayError, InvalidMatchSpecError, SolverError

from ctk.core.errors import UnknownName, Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.process import run
from ctk.solve.machine import virtual_packages


@dataclass(frozen=True)
class Scenario:
    """A machine and a request."""

    specs: tuple[str, ...]
    subdir: str
    driver: str | None = None  # the newest CUDA version that it supports (13.0); None without a driver
    arch: str | None = None  # compute capability of the GPU (9.0); None where no client detects one

    @property
    def virtual_packages(self) -> list[GenericVirtualPackage]:
        return virtual_packages(self.subdir, self.driver, self.arch)


@dataclass(frozen=True)
class Pick:
    """The packages that a solver picks for a scenario, by name."""

    scenario: Scenario
    records: tuple[RepoDataRecord, ...]

    def record(self, name: str) -> RepoDataRecord | None:
        return next((r for r in self.records if r.name.normalized == name), None)

    def version(self, name: str) -> str:
        """The version of a package, or ""."""
        record = self.record(name)
        return str(record.version) if record else ""

    @property
    def toolkit(self) -> str:
        """The CTK minor of the pick, e.g. ``13.0``; "" for a pick without CUDA."""
        return self.version("cuda-version")

    @property
    def fit(self) -> str:
        """``native`` or ``compat``, as the pick's cuda-version is; "" without CUDA or in a channel with one build."""
        record = self.record("cuda-version")
        kind = str(record.build).split("_")[0] if record else ""
        return kind if kind in ("native", "compat") else ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(r.size or 0 for r in self.records)


def solve(scenario: Scenario, channels: Sequence[Path | str], gateway: Gateway | None = None) -> Pick:
    """Solves one scenario with rattler; callers that solve often keep the gateway, so that repodata is read once.

    Raises:
        Unsolvable: With the solver's own text in `solver`, or without when a channel or the request cannot be read.
    """
    if scenario.subdir not in PLATFORMS:
        raise UnknownName.of("platform", scenario.subdir, PLATFORMS)
    try:
        with reading(channels):
            records = run(solve_records(scenario, [channel_url(c) for c in channels], gateway or Gateway()))
    except InvalidMatchSpecError as error:
        raise Unsolvable(
            f"the request cannot be read: {error}", "write it as for conda: name, name=1.2 or 'name >=1.2'"
        ) from None
    except SolverError as error:
        raise Unsolvable(
            f"no set of packages satisfies {' '.join(scenario.specs)} on {scenario.subdir} "
            f"{'with a driver for CUDA ' + scenario.driver if scenario.driver else 'without a driver'}:\n{error}",
            "change what was asked for, or update the driver",
            str(error),
        ) from None
    return Pick(scenario, tuple(sorted(records, key=lambda r: r.name.normalized)))


@contextmanager
def reading(channels: Sequence[Path | str]) -> Iterator[None]:
    """Turns rattler's error for a channel that cannot be read into `Unsolvable`."""
    for channel in channels:
        if isinstance(channel, Path) and not channel.is_dir():
            raise Unsolvable(f"there is no channel in {channel}", "run `ctk build` first")
    try:
        yield
    except GatewayError as error:
        first, *rest = str(error).splitlines()
        why = f" ({rest[-1].removeprefix('Caused by: ')})" if rest else ""
        step = "check the channel's address, and whether it can be reached from here"
        raise Unsolvable(f"a channel could not be read: {first}{why}", step) from None


async def solve_records(scenario: Scenario, sources: Sequence[str], gateway: Gateway) -> list[RepoDataRecord]:
    """The records that rattler's solver picks, with rattler's own errors, for callers with an event loop."""
    return await rattler.solve(
        sources=sources,
        # As MatchSpec reads them: rattler's own reading of strings refuses conda's name=version=build.
        specs=[_spec(text) for text in scenario.specs],
        gateway=gateway,
        platforms=[Subdir(scenario.subdir), Subdir(NOARCH)],
        virtual_packages=scenario.virtual_packages,
    )


_spec = lru_cache(maxsize=1024)(MatchSpec)


def channel_url(channel: Path | str) -> str:
    """A channel as rattler wants it: folders as file URLs, anything else as it is."""
    return channel.resolve().as_uri() if isinstance(channel, Path) else channel


def channel_name(url: str) -> str:
    """The last part of a channel's address; for one of ours, of the link and not of the state behind it."""
    place = Path(url.rstrip("/"))
    if place.parent.name.endswith("-states"):
        return place.parent.name.removeprefix(".").removesuffix("-states")
    return place.name
