"""Requests for machines, the channels that they are solved from, and the picks of rattler's solver."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import rattler
from rattler import Gateway, GenericVirtualPackage, MatchSpec, RepoDataRecord, Subdir, Version, VersionSpec
from rattler.exceptions import (
    GatewayError,
    InvalidChannelError,
    InvalidMatchSpecError,
    InvalidVersionSpecError,
    SolverError,
)

from ctk.core.address import open_gateway
from ctk.core.errors import BadValue, ChannelMissing, UnknownName, Unsolvable
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.process import run
from ctk.solve.machine import driver_version, virtual_packages

_AT_ONCE = 16  # solves, which keep all cores busy
ANY_DRIVER = "99.0"  # newer than any: a machine with it refuses nothing for its driver
PYTHON = ("python", "python_abi")
ASKS = "cuda-gpu"
"""The package that asks for CUDA builds of others, and for a driver; named first it decides before they do."""


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

    @property
    def ideal(self) -> Scenario:
        """The request on a machine that can do anything."""
        return replace(self, driver=ANY_DRIVER, arch=None)

    def also(self, spec: str) -> Scenario:
        """The scenario with one more spec."""
        return replace(self, specs=(*self.specs, spec))


class Asked(NamedTuple):
    """One spec of a request, as the user wrote it and in parts; "" is any version or build."""

    text: str
    name: str
    version: str
    build: str
    match: MatchSpec

    @property
    def pinned(self) -> bool:
        """Whether it asks for more than a name."""
        return bool(self.version or self.build)


@lru_cache(maxsize=4096)
def parse_spec(text: str) -> Asked:
    """A spec in its parts; BadValue for what is none."""
    try:
        match = MatchSpec(text)
    except InvalidMatchSpecError as error:
        why = str(error).splitlines()[0]
        raise BadValue(f"{text!r} is no spec: {why}", "write it as for conda: name, name=1.2 or 'name >=1.2'") from None
    return Asked(text, str(match.name.normalized), str(match.version or ""), str(match.build or ""), match)


@dataclass(frozen=True)
class Pick:
    """The packages that a solver picks for a scenario, by name."""

    scenario: Scenario
    records: tuple[RepoDataRecord, ...]
    # Filled once: it stays when only the scenario is replaced.
    _by_name: dict[str, RepoDataRecord] = field(default_factory=dict, repr=False, compare=False)

    def record(self, name: str) -> RepoDataRecord | None:
        if not self._by_name:
            self._by_name.update({r.name.normalized: r for r in self.records})
        return self._by_name.get(name)

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
        Unsolvable: With the solver's own text in `solver`.
        BadValue, ChannelMissing: The request or a channel cannot be read.
    """
    if scenario.subdir not in PLATFORMS:
        raise UnknownName.of("platform", scenario.subdir, PLATFORMS)
    try:
        with reading(channels):
            return run(_solve(scenario, [channel_url(c) for c in channels], gateway or open_gateway()))
    except SolverError as error:
        driver = f"with a driver for CUDA {scenario.driver}" if scenario.driver else "without a driver"
        cause = f"no set of packages satisfies {' '.join(scenario.specs)} on {scenario.subdir} {driver}:\n{error}"
        raise Unsolvable(cause, "change what was asked for, or update the driver", str(error)) from None


def solve_many(
    scenarios: Iterable[Scenario], channels: Sequence[Path | str], gateway: Gateway, at_once: int
) -> list[tuple[Scenario, Pick | str]]:
    """The pick of each scenario in any order, or the solver's message; `ChannelMissing` where one cannot be read.

    rattler solves outside Python's lock, so tasks of one event loop keep all cores busy; processes were not faster
    (``benchmarks/verify.py``).
    """
    sources, waiting = [channel_url(c) for c in channels], iter(scenarios)
    answers: list[tuple[Scenario, Pick | str]] = []

    async def work() -> None:
        for scenario in waiting:
            try:
                answers.append((scenario, await _solve(scenario, sources, gateway)))
            except SolverError as error:
                answers.append((scenario, str(error)))

    async def work_together() -> None:
        working = asyncio.gather(*(work() for _ in range(at_once)))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            # Interrupted. Solves under way end in milliseconds, and need this loop to hand over their answers.
            deque(waiting, maxlen=0)
            await working
            raise

    with reading(channels):
        run(work_together())
    return answers


async def _solve(scenario: Scenario, sources: Sequence[str], gateway: Gateway) -> Pick:
    records = await rattler.solve(
        sources=sources,
        # As MatchSpec reads them: rattler's own reading of strings refuses conda's name=version=build.
        specs=[parse_spec(text).match for text in scenario.specs],
        gateway=gateway,
        platforms=[Subdir(scenario.subdir), Subdir(NOARCH)],
        virtual_packages=scenario.virtual_packages,
    )
    return Pick(scenario, tuple(sorted(records, key=lambda r: r.name.normalized)))


@contextmanager
def reading(channels: Sequence[Path | str]) -> Iterator[None]:
    """Turns rattler's error for a channel that cannot be read into `ChannelMissing`."""
    for channel in channels:
        if isinstance(channel, Path) and not channel.is_dir():
            raise ChannelMissing.of(channel)
    try:
        yield
    except (GatewayError, InvalidChannelError) as error:
        first, *rest = str(error).splitlines()
        why = f" ({rest[-1].removeprefix('Caused by: ')})" if rest else ""
        step = "check the channel's address, and whether it can be reached from here"
        raise ChannelMissing(f"a channel could not be read: {first}{why}", step) from None


def channel_url(channel: Path | str) -> str:
    """A channel as rattler wants it: folders as file URLs, anything else as it is."""
    return channel.resolve().as_uri() if isinstance(channel, Path) else channel


def lasting(url: str) -> str:
    """An address in one of our channels by the channel's link: a later build removes the state behind it."""
    return re.sub(r"/\.([^/]+)-states/\d+(?=/|$)", r"/\1", url)


def channel_name(url: str) -> str:
    """The last part of a channel's address."""
    return Path(lasting(url).rstrip("/")).name


# --- machines that are one question

# A spec, with a space or brackets before the version or without: ``__cuda >=13``, ``__cuda>=13``.
_RULE = re.compile(r"(__cuda(?:_arch)?)(?![\w-])\s*(.*)", re.DOTALL)


class Alike:
    """Which machines are one question to a solver, as the records that it can meet have it.

    A solver sees a driver and a GPU only as the versions of ``__cuda`` and ``__cuda_arch``, and does nothing with them
    but hold them against the rules that records name: machines that every rule treats alike get one pick.

    Args:
        records: By channel, of one platform, of what will be asked for and of all that this may bring along.
    """

    def __init__(self, records: Iterable[Iterable[RepoDataRecord]]) -> None:
        self._ruled = [
            (record, match[1], match[2])
            for record in chain.from_iterable(records)
            for rule in (*record.depends, *record.constrains)
            if (match := _RULE.fullmatch(rule)) and match[2]
        ]
        self._rules: dict[tuple[str, ...], tuple[frozenset[str], frozenset[str]]] = {}

    def key(self, scenario: Scenario) -> Hashable:
        """The same for scenarios that are one question to a solver."""
        of_drivers, of_gpus = self._rules_for(scenario.specs)
        gpu = _fitting(of_gpus, scenario.arch) if scenario.driver else None
        return scenario.specs, scenario.subdir, _fitting(of_drivers, scenario.driver), gpu

    def is_same_driver(self, older: str, newer: str) -> bool:
        """Whether no rule tells apart any two drivers from the older to the newer one."""
        rules, _ = self._rules_for(())
        stated = {number for rule in rules for number in re.findall(r"\d+(?:\.\d+)*", rule)}
        # What a rule says of a version changes nowhere but at a number that it states, or just above.
        bounds = {v for number in stated for v in (number, f"{number}.0.1")}
        between = [v for v in bounds if Version(older) <= Version(v) <= Version(newer)]
        return len({_fitting(rules, driver) for driver in (older, *between, newer)}) == 1

    def _rules_for(self, request: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
        """The rules on drivers and on GPUs that a solver can meet for a request.

        No solver looks at a cuda-version that a request leaves out: nearly all rules are in these records.
        """
        if request not in self._rules:
            specs = [parse_spec(spec).match for spec in request if spec.startswith("cuda-version=")]
            rules: dict[str, set[str]] = {"__cuda": set(), "__cuda_arch": set()}
            for match in filter(None, map(_RULE.fullmatch, request)):  # a request may ask for a driver itself
                rules[match[1]] |= {match[2]} - {""}
            for record, name, rule in self._ruled:
                if record.name.normalized != "cuda-version" or all(spec.matches(record) for spec in specs):
                    rules[name].add(rule)
            self._rules[request] = frozenset(rules["__cuda"]), frozenset(rules["__cuda_arch"])
        return self._rules[request]


@cache
def _fitting(rules: frozenset[str], value: str | None) -> Hashable:
    """The rules that a version fits; the version itself where one of them is no rule about versions alone."""
    try:
        return value and frozenset(rule for rule in rules if VersionSpec(rule).matches(Version(value)))
    except InvalidVersionSpecError:
        return value


# --- what channels have


@dataclass(frozen=True)
class ChannelToolkit:
    """The machines that one cuda-version of a channel is for, as its records have it."""

    version: str
    driver: str | None = None  # the oldest of the native build; None without a native build
    compat_driver: str | None = None  # the oldest of the compat build; None where no record states one
    gpus: tuple[str, ...] = ()  # compute capabilities that it compiles for, oldest first; empty where none is stated

    def knows(self, gpu: str) -> bool:
        """Whether it compiles for a GPU; true as well where no record states for which ones."""
        return not self.gpus or _knows(self.gpus, gpu)

    def beside(self, gpu: str) -> tuple[str, str]:
        """The nearest older and the nearest newer GPU that it compiles for; "" for none."""
        below, above = [g for g in self.gpus if older(g, gpu)], [g for g in self.gpus if older(gpu, g)]
        return below[-1] if below else "", above[0] if above else ""


@cache
def _knows(gpus: tuple[str, ...], gpu: str) -> bool:
    return Version(gpu) in map(Version, gpus)


class Maker(NamedTuple):
    """The recipe of this checkout that makes a package, and the option of `ctk build` that includes it, "" for none."""

    recipe: str
    option: str


class Catalogue:
    """Channels for one platform, the most important first; `maker` gives the recipe of a package that none has.

    Each scenario is solved once.
    """

    def __init__(
        self,
        channels: Sequence[Path | str],
        subdir: str,
        gateway: Gateway | None = None,
        maker: Callable[[str], Maker | None] = lambda name: None,
    ) -> None:
        self.channels, self.subdir, self.maker = tuple(channels), subdir, maker
        self.gateway = gateway or open_gateway()
        self._picks: dict[Scenario, Pick | None] = {}
        self._records: dict[str, list[RepoDataRecord]] = {}
        self._names: dict[tuple[tuple[str, ...], tuple[Path | str, ...]], set[str]] = {}

    def pick(self, scenario: Scenario) -> Pick | None:
        """The solver's pick, or None without a solution; of what cannot be read the errors of `solve`."""
        if scenario not in self._picks:
            try:
                self._picks[scenario] = solve(scenario, self.channels, self.gateway)
            except Unsolvable as error:
                if not error.solver:
                    raise
                self._picks[scenario] = None
        return self._picks[scenario]

    def solves(self, scenario: Scenario, **changes: Any) -> bool:
        """Whether a scenario has a solution, with some of its fields changed."""
        return self.pick(replace(scenario, **changes)) is not None

    def query(self, specs: Iterable[str], recursive: bool = False) -> list[list[RepoDataRecord]]:
        """The records of some specs, and of all that these may bring along if `recursive`, by channel."""
        subdirs, sources = [Subdir(self.subdir), Subdir(NOARCH)], [channel_url(c) for c in self.channels]
        with reading(self.channels):
            return run(self.gateway.query(sources, subdirs, list(specs), recursive=recursive))

    def records(self, name: str) -> list[RepoDataRecord]:
        """The records of a package, newest first, from the first channel that has it: solvers look no further."""
        if name not in self._records:
            records = next((records for records in self.query([f"{name} *"]) if records), [])
            self._records[name] = sorted(records, key=lambda r: (r.version, r.build_number), reverse=True)
        return self._records[name]

    def versions(self, name: str) -> list[str]:
        """The versions of a package, newest first."""
        return list(dict.fromkeys(str(record.version) for record in self.records(name)))

    def names(self, subdirs: Iterable[str], channels: Sequence[Path | str] | None = None) -> set[str]:
        """The names of all packages of some platforms, in all channels or some."""
        key = tuple(subdirs), self.channels if channels is None else tuple(channels)
        if key not in self._names:
            with reading(self.channels):
                found = run(self.gateway.names([channel_url(c) for c in key[1]], [Subdir(name) for name in key[0]]))
            self._names[key] = {name.normalized for name in found}
        return self._names[key]

    @cached_property
    def own_names(self) -> set[str]:
        """The names of all packages of the first channel."""
        return self.names([self.subdir, NOARCH], self.channels[:1])

    @cached_property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons of the channels, ``3.14`` before ``3.14t``, oldest first."""
        kinds = {(r.version, "t" * bool(re.search(r"_cp\d+t$", str(r.build)))) for r in self.records("python_abi")}
        return tuple(f"{version}{free_threaded}" for version, free_threaded in sorted(kinds))

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
                archs = [rule for rule in rules if rule.startswith("__cuda_arch ")]  # __cuda_arch ==7.5|==8.0
                gpus = tuple(gpu for rule in archs for gpu in re.findall(r"==([\d.]+)", rule))
                toolkits[version] = replace(toolkit, driver=driver, gpus=gpus)
            else:
                toolkits[version] = replace(toolkit, compat_driver=driver)
        return tuple(toolkits.values())

    def toolkit(self, version: str) -> ChannelToolkit | None:
        return next((t for t in self.toolkits if t.version == version), None)


class AlikeCatalogue(Catalogue):
    """Channels, for one platform, each distinct question asked once.

    Which packages will be asked for, and what they can bring along, decides which machines are alike.
    """

    def __init__(self, channels: Sequence[Path | str], subdir: str, names: Iterable[str], **more: Any) -> None:
        super().__init__(channels, subdir, **more)
        self._answers: dict[Hashable, Pick | None] = {}
        self.alike = Alike(self.query([f"{name} *" for name in names], recursive=True))

    def pick(self, scenario: Scenario) -> Pick | None:
        pick = self._answer(scenario)
        return pick and replace(pick, scenario=scenario)

    def solves(self, scenario: Scenario, **changes: Any) -> bool:
        return self._answer(replace(scenario, **changes)) is not None

    def _answer(self, scenario: Scenario) -> Pick | None:
        """The pick for a machine that is like it."""
        key = self.alike.key(scenario)
        if key not in self._answers:
            self._answers[key] = super().pick(scenario)
        return self._answers[key]

    def ask(self, scenarios: Iterable[Scenario]) -> None:
        """Solves many at a time, which is several times faster than one after the other; `pick` then knows them."""
        missing = {key: s for s in scenarios if (key := self.alike.key(s)) not in self._answers}
        for scenario, answer in solve_many(missing.values(), self.channels, self.gateway, _AT_ONCE):
            self._answers[self.alike.key(scenario)] = answer if isinstance(answer, Pick) else None


@cache
def older(left: str, right: str) -> bool:
    """Whether one version is older than another: 9.0 is older than 12.1."""
    return Version(left) < Version(right)
