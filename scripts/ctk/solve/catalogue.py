"""The records of channels for one platform, and the solver's answers to what is asked of them, each solved once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rattler import Gateway, MatchSpec, RepoDataRecord, Subdir, Version

from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH
from ctk.core.process import run
from ctk.solve.machine import driver_version
from ctk.solve.solve import Pick, Scenario, channel_url, reading, solve

ANY_DRIVER = "99.0"  # newer than any: a machine with it refuses nothing for its driver
PYTHON = ("python", "python_abi")


@dataclass(frozen=True)
class ChannelToolkit:
    """The machines that one cuda-version of a channel is for, as its records have it."""

    version: str
    driver: str | None = None  # the oldest of the native build; None without a native build
    compat_driver: str | None = None  # the oldest of the compat build; None where no record states one
    gpus: tuple[str, ...] = ()  # compute capabilities that it compiles for, oldest first; empty where none is stated

    def knows(self, gpu: str) -> bool:
        """Whether it compiles for a GPU; true as well where no record states for which ones."""
        return not self.gpus or Version(gpu) in map(Version, self.gpus)

    def beside(self, gpu: str) -> tuple[str, str]:
        """The nearest older and the nearest newer GPU that it compiles for; "" for none."""
        below, above = [g for g in self.gpus if older(g, gpu)], [g for g in self.gpus if older(gpu, g)]
        return below[-1] if below else "", above[0] if above else ""


@dataclass(frozen=True)
class Asked:
    """One spec of a request, as the user wrote it."""

    text: str

    @cached_property
    def match(self) -> MatchSpec:
        return MatchSpec(self.text)

    @property
    def name(self) -> str:
        return str(self.match.name.normalized)

    @property
    def pinned(self) -> bool:
        """Whether it asks for more than a name."""
        return self.match.version is not None or self.match.build is not None

    @property
    def version(self) -> str:
        """The version as a person writes it: ``13.7`` of ``==13.7`` and ``13.7.*``."""
        return re.sub(r"^==|\.\*$", "", self.match.version or "")

    @property
    def constraint(self) -> str:
        """Version and build."""
        return " ".join(part for part in (self.version, str(self.match.build or "")) if part)


@dataclass(frozen=True)
class Maker:
    """The recipe of this checkout that makes a package, and whether `ctk build` without options builds it."""

    recipe: str
    by_default: bool


class Catalogue:
    """Channels for one platform, the most important first; `maker` gives the recipe of a package that none has."""

    def __init__(
        self,
        channels: Sequence[Path | str],
        subdir: str,
        gateway: Gateway | None = None,
        maker: Callable[[str], Maker | None] = lambda name: None,
    ) -> None:
        self.channels = tuple(channels)
        self.subdir = subdir
        self.maker = maker
        self.gateway = gateway or Gateway()
        self._picks: dict[Scenario, Pick | None] = {}
        self._records: dict[str, list[RepoDataRecord]] = {}
        self._names: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = {}

    def pick(self, scenario: Scenario) -> Pick | None:
        """The solver's pick, or None without a solution; `Unsolvable` where a channel or the request is unreadable."""
        if scenario not in self._picks:
            try:
                self._picks[scenario] = solve(scenario, self.channels, self.gateway)
            except Unsolvable as error:
                if not error.solver:
                    raise
                self._picks[scenario] = None
        return self._picks[scenario]

    def records(self, name: str) -> list[RepoDataRecord]:
        """The records of a package, newest first, from the first channel that has it: solvers look no further."""
        if name not in self._records:
            with reading(self.channels):
                subdirs = [Subdir(self.subdir), Subdir(NOARCH)]
                by_channel = run(self.gateway.query(self.sources, subdirs, [f"{name} *"], recursive=False))
            records = next((list(records) for records in by_channel if records), [])
            self._records[name] = sorted(records, key=lambda r: (r.version, r.build_number), reverse=True)
        return self._records[name]

    def names(self, subdirs: Iterable[str], channels: Sequence[Path | str] | None = None) -> set[str]:
        """The names of all packages of some platforms, in all channels or some."""
        sources = self.sources if channels is None else [channel_url(c) for c in channels]
        key = (tuple(sources), tuple(subdirs))
        if key not in self._names:
            with reading(self.channels):
                names = run(self.gateway.names(sources, [Subdir(name) for name in key[1]]))
            self._names[key] = {name.normalized for name in names}
        return self._names[key]

    @cached_property
    def toolkits(self) -> tuple[ChannelToolkit, ...]:
        """The toolkits, newest first."""
        toolkits: dict[str, ChannelToolkit] = {}
        for record in self.records("cuda-version"):
            version, rules = str(record.version), [*record.depends, *record.constrains]
            toolkit = toolkits.get(version, ChannelToolkit(version))
            bound = next((m[1] for rule in rules if (m := re.match(r"__cuda .*?>=(\d+(?:\.\d+)*)", rule))), None)
            driver = bound and driver_version(bound)
            if any(rule.startswith("__cuda ") for rule in record.depends):  # the native build
                toolkits[version] = replace(toolkit, driver=driver, gpus=_gpus(rules))
            else:
                toolkits[version] = replace(toolkit, compat_driver=driver)
        return tuple(toolkits.values())

    def toolkit(self, version: str) -> ChannelToolkit | None:
        return next((t for t in self.toolkits if t.version == version), None)

    @cached_property
    def sources(self) -> list[str]:
        return [channel_url(c) for c in self.channels]


def _gpus(rules: Iterable[str]) -> tuple[str, ...]:
    """The versions that ``__cuda_arch ==7.5|==8.0`` names."""
    return tuple(gpu for rule in rules if rule.startswith("__cuda_arch ") for gpu in re.findall(r"==([\d.]+)", rule))


def older(left: str, right: str) -> bool:
    """Whether one version is older than another: 9.0 is older than 12.1."""
    return Version(left) < Version(right)


def listing(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join([part for part in (", ".join(words[:-1]), words[-1]) if part]) if words else "none"
