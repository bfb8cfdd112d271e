"""What channels hold, and what a solver makes of it: the questions that an explanation asks, each answered once."""

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

# Newer than any: a machine with it refuses nothing for its driver.
ANY_DRIVER = "99.0"
PYTHON = ("python", "python_abi")


@dataclass(frozen=True)
class Toolkit:
    """What the records of one cuda-version say of the machines it is for.

    Attributes:
        version: ``13.0``.
        driver: The oldest driver of the native build; None where the channel has no native build.
        compat_driver: The oldest driver of the compat build; None where nothing says it.
        gpus: Compute capabilities of the GPUs that it compiles for, oldest first; none where nothing says it.
    """

    version: str
    driver: str | None = None
    compat_driver: str | None = None
    gpus: tuple[str, ...] = ()

    def knows(self, gpu: str) -> bool:
        """Whether it compiles for a GPU; also where nothing says for which ones it does."""
        return not self.gpus or Version(gpu) in map(Version, self.gpus)

    def beside(self, gpu: str) -> tuple[str, str]:
        """The nearest older and the nearest newer GPU that it compiles for; "" where there is none."""
        below, above = [g for g in self.gpus if older(g, gpu)], [g for g in self.gpus if older(gpu, g)]
        return below[-1] if below else "", above[0] if above else ""


@dataclass(frozen=True)
class Asked:
    """One spec of a request.

    Attributes:
        text: As the user wrote it.
    """

    text: str

    @cached_property
    def match(self) -> MatchSpec:
        return MatchSpec(self.text)

    @property
    def name(self) -> str:
        """The name of the package, normalized."""
        return str(self.match.name.normalized)

    @property
    def pinned(self) -> bool:
        """Whether it asks for more than a name."""
        return self.match.version is not None or self.match.build is not None


@dataclass(frozen=True)
class Maker:
    """What makes a package.

    Attributes:
        recipe: The feedstock of this checkout.
        by_default: Whether `ctk build` without options builds it.
    """

    recipe: str
    by_default: bool


class Catalogue:
    """Channels, for one platform.

    Args:
        channels: Channel folders or URLs, the most important first.
        subdir: The platform.
        gateway: Kept by callers that ask often, so that repodata is read once.
        maker: Says what makes a package of a name that no channel has; None for one that this checkout does not make.
    """

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
        """What a solver picks, or None when it finds nothing.

        Raises:
            Unsolvable: A channel or the request cannot be read.
        """
        if scenario not in self._picks:
            try:
                self._picks[scenario] = solve(scenario, self.channels, self.gateway)
            except Unsolvable as error:
                if not error.solver:
                    raise
                self._picks[scenario] = None
        return self._picks[scenario]

    def records(self, name: str) -> list[RepoDataRecord]:
        """Every record of a package, newest first, from the first channel that has it: solvers look no further."""
        if name not in self._records:
            with reading(self.channels):
                subdirs = [Subdir(self.subdir), Subdir(NOARCH)]
                found = run(self.gateway.query(self.sources, subdirs, [f"{name} *"], recursive=False))
            records = next((list(records) for records in found if records), [])
            self._records[name] = sorted(records, key=lambda r: (r.version, r.build_number), reverse=True)
        return self._records[name]

    def names(self, subdirs: Iterable[str], channels: Sequence[Path | str] | None = None) -> set[str]:
        """The names of all packages."""
        sources = self.sources if channels is None else [channel_url(c) for c in channels]
        place = (tuple(sources), tuple(subdirs))
        if place not in self._names:
            with reading(self.channels):
                found = run(self.gateway.names(sources, [Subdir(name) for name in place[1]]))
            self._names[place] = {name.normalized for name in found}
        return self._names[place]

    @cached_property
    def toolkits(self) -> tuple[Toolkit, ...]:
        """The toolkits, newest first."""
        found: dict[str, Toolkit] = {}
        for record in self.records("cuda-version"):
            known = found.setdefault(str(record.version), Toolkit(str(record.version)))
            rules = [*record.depends, *record.constrains]
            native = any(rule.startswith("__cuda ") for rule in record.depends)
            driver = _bound(rules, "__cuda", ">=")
            bound = driver and driver_version(driver)
            known = replace(
                known,
                driver=bound if native else known.driver,
                compat_driver=known.compat_driver if native else bound,
                gpus=_gpus(rules) if native else known.gpus,
            )
            found[known.version] = known
        return tuple(found.values())

    def toolkit(self, version: str) -> Toolkit | None:
        """The toolkit of that version."""
        return next((t for t in self.toolkits if t.version == version), None)

    @cached_property
    def sources(self) -> list[str]:
        return [channel_url(c) for c in self.channels]


def _gpus(rules: Iterable[str]) -> tuple[str, ...]:
    """The versions that ``__cuda_arch ==7.5|==8.0`` names."""
    return tuple(gpu for rule in rules if rule.startswith("__cuda_arch ") for gpu in re.findall(r"==([\d.]+)", rule))


def _bound(rules: Iterable[str], name: str, sign: str) -> str | None:
    """The version after a sign in the rule on a package: ``12.6`` of ``__cuda >=12.6`` and ``>=``."""
    for rule in rules:
        match = re.match(rf"{name} .*?{sign}(\d+(?:\.\d+)*)", rule)
        if match:
            return match[1]
    return None


def older(left: str, right: str) -> bool:
    """Whether one version is older than another: 9.0 is older than 12.1."""
    return Version(left) < Version(right)


def listing(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return f" {last} ".join([part for part in (", ".join(words[:-1]), words[-1]) if part]) if words else "none"
