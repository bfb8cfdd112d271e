"""A scenario is a request on a machine; rattler's solver picks its packages from channels."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar
from urllib.parse import unquote, urlsplit

import rattler
from rattler import (
    Gateway,
    GenericVirtualPackage,
    MatchSpec,
    RepoDataRecord,
    Subdir,
    Version,
    VersionSpec,
)
from rattler.exceptions import (
    GatewayError,
    InvalidChannelError,
    InvalidMatchSpecError,
    InvalidVersionSpecError,
    SolverError,
)

from ctk.core.address import LOGIN, open_gateway, refused_login
from ctk.core.checkout import channel_missing, refuse_unshown
from ctk.core.checkout import lasting as lasting
from ctk.core.errors import (
    BadValue,
    ChannelBroken,
    ChannelMissing,
    SolverFailed,
    UnknownName,
    Unsolvable,
)
from ctk.core.platforms import NOARCH, PLATFORMS
from ctk.core.process import run
from ctk.package.records import REMAKE, REPODATA, checked_records, match_spec, refuse_specs
from ctk.solve.machine import driver_version, virtual_packages
from ctk.solve.sources import Sources, sources

T = TypeVar("T")

PATIENCE = 600.0
"""Seconds for an answer of the solver; those with conda-forge take some."""
_SHOWN = 200  # characters of a text that is not a spec
_CONCURRENT = 8 * (os.cpu_count() or 1)  # solves at the same time, so that no core waits for Python
ANY_DRIVER = "99.0"  # newer than every driver: with it, no package is refused for the driver
ANY_GLIBC = "2.999"  # the same for glibc; packages name <3.0.a0, as conda-forge's do
PYTHON = ("python", "python_abi")
ASKS = "cuda-gpu"
"""The package that requires a driver, and CUDA builds of other packages.

Named first, it decides before they do.
"""
ASKS_NATIVE = "cuda-native"
"""`ASKS` without its compat build: with it, a toolkit is native, and no later command makes it
compat.
"""
ASKING = (ASKS, ASKS_NATIVE)


@dataclass(frozen=True)
class Scenario:
    """A machine and a request."""

    specs: tuple[str, ...]
    subdir: str
    driver: str | None = (
        None  # the newest CUDA version that it supports (13.0); None without a driver
    )
    arch: str | None = None  # compute capability of the GPU (9.0); None where no client detects one
    glibc: str | None = None  # None for that of `ctk.solve.machine.glibc_of`

    @property
    def virtual_packages(self) -> list[GenericVirtualPackage]:
        return virtual_packages(self.subdir, self.driver, self.arch, self.glibc)

    @property
    def ideal(self) -> Scenario:
        """The request on a machine that can do anything."""
        return Scenario(self.specs, self.subdir, ANY_DRIVER, None, self.glibc)

    def also(self, spec: str) -> Scenario:
        """The scenario with another spec at the end."""
        return self.asking(*self.specs, spec)

    def asking(self, *specs: str) -> Scenario:
        """The machine of the scenario with other specs."""
        return Scenario(specs, self.subdir, self.driver, self.arch, self.glibc)


class Spec(NamedTuple):
    """A spec of a request, as the user wrote it and in parts; "" is any version or build."""

    text: str
    name: str
    version: str
    build: str
    match: MatchSpec

    @property
    def pinned(self) -> bool:
        """Whether it has a version or a build beside the name."""
        return bool(self.version or self.build)


@lru_cache(maxsize=4096)
def parse_spec(text: str) -> Spec:
    """Parses a spec.

    Raises:
        BadValue: The text is not a spec.
    """
    try:
        match = match_spec(text)
    except InvalidMatchSpecError as error:
        why = _short(str(error).splitlines()[0])
        step = "write it as for conda: name, name=1.2 or 'name >=1.2'"
        if extra := re.search(r"\[[\w,-]+\]", text):
            step = (
                f"leave {extra[0]} out: extras are of pip, and here the driver chooses the CUDA"
                " version"
            )
        raise BadValue(f"{_short(text)!r} is not a spec: {why}", step) from None
    return Spec(
        text, str(match.name.normalized), str(match.version or ""), str(match.build or ""), match
    )


def spec_of_record(text: str) -> Spec:
    """Parses a spec of a record.

    Raises:
        ChannelBroken: The text is not a spec.
    """
    try:
        return parse_spec(text)
    except BadValue as error:
        cause = f"a package of the channels has a spec that cannot be read: {error.cause}"
        raise ChannelBroken(cause, "ask the keeper of the channel to publish it again") from None


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclass(frozen=True)
class Pick:
    """The packages that a solver picks for a scenario, sorted by name."""

    scenario: Scenario
    records: tuple[RepoDataRecord, ...]
    # Filled once: it stays when only the scenario is another.
    _by_name: dict[str, RepoDataRecord] = field(default_factory=dict, repr=False, compare=False)

    def on(self, scenario: Scenario) -> Pick:
        """The same packages, for another scenario."""
        return Pick(scenario, self.records, self._by_name)

    def record(self, name: str) -> RepoDataRecord | None:
        if not self._by_name:
            self._by_name.update({r.name.normalized: r for r in self.records})
        return self._by_name.get(name)

    def version(self, name: str) -> str:
        """The version of a package; "" if the pick does not have it."""
        record = self.record(name)
        return str(record.version) if record else ""

    @cached_property
    def toolkit(self) -> str:
        """The CTK minor of the pick, e.g. ``13.0``; "" for a pick without CUDA."""
        return self.version("cuda-version")

    @cached_property
    def fit(self) -> str:
        """``native`` or ``compat``, from the build of cuda-version.

        "" without CUDA, or with conda-forge's package.
        """
        record = self.record("cuda-version")
        kind = str(record.build).split("_")[0] if record else ""
        return kind if kind in ("native", "compat") else ""

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(r.size or 0 for r in self.records)


def solve(
    scenario: Scenario,
    channels: Sequence[Path | str],
    gateway: Gateway | None = None,
    installed: Sequence[RepoDataRecord] = (),
) -> Pick:
    """Solves a scenario with rattler.

    Args:
        scenario: The machine and the request.
        channels: The most important first.
        gateway: Callers that solve often keep it, so that repodata is read once.
        installed: Packages that are taken before others wherever the request allows it, also those
            that are in no channel.

    Raises:
        Unsolvable: There is no solution; `solver` has the solver's own text.
        BadValue, ChannelMissing, ChannelBroken: The request or a channel cannot be read.
    """
    if scenario.subdir not in PLATFORMS:
        raise UnknownName.of("platform", scenario.subdir, PLATFORMS)
    try:
        with reading(channels):
            found = _sources(channels, (scenario.subdir, NOARCH))
            return run(_solve(scenario, found, gateway or open_gateway(), installed))
    except SolverError as error:
        driver = (
            f"with a driver for CUDA {scenario.driver}" if scenario.driver else "without a driver"
        )
        cause = (
            f"no set of packages satisfies {' '.join(scenario.specs)} on {scenario.subdir}"
            f" {driver}:\n{error}"
        )
        raise Unsolvable(
            cause, "change what was asked for, or update the driver", str(error)
        ) from None


def _sources(channels: Iterable[Path | str], subdirs: Iterable[str]) -> Sources:
    return sources(map(channel_url, channels), subdirs)


async def _solve(
    scenario: Scenario, found: Sources, gateway: Gateway, installed: Sequence[RepoDataRecord] = ()
) -> Pick:
    """Solves a scenario.

    Raises:
        SolverError: There is no solution.
        SolverFailed: There was no answer within `PATIENCE`.
    """
    # As MatchSpec, because rattler.solve refuses conda's name=version=build in a string.
    specs = [found.spec(parse_spec(text).match) for text in scenario.specs]
    asked = rattler.solve(
        sources=found.urls,
        specs=specs,
        gateway=gateway,
        platforms=[Subdir(scenario.subdir), Subdir(NOARCH)],
        virtual_packages=scenario.virtual_packages,
        locked_packages=installed,
        channel_relations=_relations(found),
    )
    try:
        records = await _patiently(asked, " ".join(scenario.specs))
    except SolverError as error:
        raise SolverError(found.text(str(error))) from None
    restored = map(found.restored, records)
    return Pick(scenario, tuple(sorted(restored, key=lambda r: r.name.normalized)))


async def _patiently(work: Awaitable[T], what: str) -> T:
    """The result of work of rattler, which cannot be stopped: its threads end with the command.

    Raises:
        SolverFailed: There was none within `PATIENCE`.
    """
    try:
        return await asyncio.wait_for(work, PATIENCE)
    except TimeoutError:
        raise SolverFailed(
            f"no answer for {what} within {PATIENCE:.0f} s",
            "name fewer packages or fewer channels; an index with very many dependencies takes that"
            " long",
        ) from None


def _relations(found: Sources) -> Literal["disabled"] | None:
    """How rattler follows the relations of channels: beside a fetched folder are no others."""
    return "disabled" if found.origins else None


@contextmanager
def reading(channels: Sequence[Path | str]) -> Iterator[None]:
    """Turns rattler's error for an unreadable channel into `ChannelMissing`.

    It names each folder without a channel.
    """
    folders = [channel for channel in channels if isinstance(channel, Path)]
    for folder in folders:
        refuse_unshown(folder)
        for file in folder.glob(f"*/{REPODATA}"):
            _check_specs(file, file.stat().st_mtime_ns)
    if missing := [folder for folder in folders if not any(folder.glob("*/repodata*"))]:
        raise channel_missing(*missing)
    for folder in (*folders, *_folders_of_addresses(channels)):
        _refuse_pipes(folder)
    try:
        yield
    except (GatewayError, InvalidChannelError) as error:
        for folder in folders:
            checked_records(folder)  # rattler does not name the file that it cannot parse
        first, *rest = str(error).splitlines()
        why = f" ({rest[-1].removeprefix('Caused by: ')})" if rest else ""
        step = "check the channel's address, and whether it can be reached from here"
        if refused_login(str(error)):
            step = f"{LOGIN}, of a user who may read the channel"
        if re.search("zstd|parse|EOF", str(error)):
            step = "its index is damaged: ask its keeper to publish it again"
        raise ChannelMissing(f"a channel could not be read: {first}{why}", step) from None


@cache
def _check_specs(file: Path, changed: int) -> None:
    """`refuse_specs`, once for a file as it is."""
    refuse_specs(file)


def _folders_of_addresses(channels: Sequence[Path | str]) -> Iterator[Path]:
    """The folders that addresses name."""
    for channel in channels:
        if isinstance(channel, str) and channel.lower().startswith("file://"):
            yield Path(unquote(urlsplit(channel).path))


def _refuse_pipes(folder: Path) -> None:
    """Refuses an index of which a part is not a file: rattler would wait for what it brings.

    Raises:
        ChannelBroken: There is such a part.
    """
    for file in folder.glob("*/r*"):
        if (
            file.name.startswith(("repodata", "run_exports"))
            and file.exists()
            and not file.is_file()
        ):
            raise ChannelBroken(f"{file} is not a file", REMAKE)


def channel_url(channel: Path | str) -> str:
    """A channel as rattler expects it: the file URL of a folder; a name or URL unchanged."""
    return channel.resolve().as_uri() if isinstance(channel, Path) else channel


def channel_name(url: str) -> str:
    """The last part of a channel's address."""
    return Path(lasting(url).rstrip("/")).name


# --- classes of machines for which a solver gives the same answer

# A spec, with a space or brackets before the version or without: ``__cuda >=13``, ``__cuda>=13``.
RULE = re.compile(r"(__cuda(?:_arch)?)(?![\w-])\s*(.*)", re.DOTALL)


class Classes(Protocol):
    """Classes of scenarios that get the same pick."""

    def key(self, scenario: Scenario) -> Hashable:
        """The class of a scenario."""


class MachineClasses:
    """Classes of machines that get the same pick.

    A solver sees a driver and a GPU only as the versions of ``__cuda`` and ``__cuda_arch``, and
    only compares them with the specs in records. So two machines get the same pick if each of these
    specs matches both of them or neither.

    Args:
        records: By channel, for one platform: the packages that will be requested and all their
            possible dependencies.
    """

    def __init__(self, records: Iterable[Iterable[RepoDataRecord]]) -> None:
        self._ruled = [
            (record, match[1], match[2])
            for record in chain.from_iterable(records)
            for rule in (*record.depends, *record.constrains)
            if (match := RULE.fullmatch(rule)) and match[2]
        ]
        self._rules: dict[tuple[str, ...], tuple[frozenset[str], frozenset[str]]] = {}

    def key(self, scenario: Scenario) -> Hashable:
        """The class of a scenario: equal for scenarios that get the same pick."""
        of_drivers, of_gpus = self._rules_for(scenario.specs)
        gpu = _fitting(of_gpus, scenario.arch) if scenario.driver else None
        driver = _fitting(of_drivers, scenario.driver)
        return scenario.specs, scenario.subdir, driver, gpu, scenario.glibc

    def is_same_driver(self, older: str, newer: str) -> bool:
        """Whether every rule treats all drivers from the older to the newer version the same."""
        rules, _ = self._rules_for(())
        stated = {number for rule in rules for number in re.findall(r"\d+(?:\.\d+)*", rule)}
        # A rule can only change its answer at a number in its text, or just above.
        bounds = {v for number in stated for v in (number, f"{number}.0.1")}
        between = [v for v in bounds if Version(older) <= Version(v) <= Version(newer)]
        return len({_fitting(rules, driver) for driver in (older, *between, newer)}) == 1

    def _rules_for(self, request: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
        """The rules about drivers and about GPUs that a solver can meet for a request.

        Nearly all rules are in records of cuda-version, and a solver does not look at versions that
        the request excludes.
        """
        if request not in self._rules:
            specs = [parse_spec(spec).match for spec in request if spec.startswith("cuda-version=")]
            rules: dict[str, set[str]] = {"__cuda": set(), "__cuda_arch": set()}
            for match in filter(
                None, map(RULE.fullmatch, request)
            ):  # a request may ask for a driver itself
                rules[match[1]] |= {match[2]} - {""}
            for record, name, rule in self._ruled:
                if record.name.normalized != "cuda-version" or all(
                    spec.matches(record) for spec in specs
                ):
                    rules[name].add(rule)
            self._rules[request] = frozenset(rules["__cuda"]), frozenset(rules["__cuda_arch"])
        return self._rules[request]


Grouping = Callable[[Iterable[Iterable[RepoDataRecord]]], Classes]
"""Makes classes from the records that can be picked, by channel."""


@cache
def _fitting(rules: frozenset[str], value: str | None) -> Hashable:
    """The rules that a version fits. The version itself if a rule is not about versions alone."""
    try:
        return value and frozenset(
            rule for rule in rules if VersionSpec(rule).matches(Version(value))
        )
    except InvalidVersionSpecError:
        return value


# --- the content of channels

_LEAST_DRIVER = re.compile(r"__cuda .*?>=(\d+(?:\.\d+)*)")
_GPU = re.compile(r"==([\d.]+)")  # of __cuda_arch ==7.5|==8.0


@dataclass(frozen=True)
class ChannelToolkit:
    """A version of cuda-version in a channel, with the machines that its records are for."""

    version: str
    driver: str | None = None  # the oldest for the native build; None without a native build
    compat_driver: str | None = None  # the oldest for the compat build; None if no record states it
    gpus: tuple[
        str, ...
    ] = ()  # compute capabilities that it compiles for, oldest first; empty if not stated

    def knows(self, gpu: str) -> bool:
        """Whether it compiles for a GPU; also true if no record states its GPUs."""
        return not self.gpus or _knows(self.gpus, gpu)

    def beside(self, gpu: str) -> tuple[str, str]:
        """The nearest older and the nearest newer GPU that it compiles for.

        "" without such a GPU.
        """
        below = [known for known in self.gpus if older(known, gpu)]
        above = [known for known in self.gpus if older(gpu, known)]
        return below[-1] if below else "", above[0] if above else ""


@cache
def _knows(gpus: tuple[str, ...], gpu: str) -> bool:
    return Version(gpu) in map(Version, gpus)


class Catalogue:
    """Channels for one platform: their records, and what a solver picks from them.

    Each scenario is solved once.

    Args:
        channels: The most important first.
        subdir: The platform.
        gateway: Callers with several catalogues share it, so that repodata is read once.
    """

    def __init__(
        self, channels: Sequence[Path | str], subdir: str, gateway: Gateway | None = None
    ) -> None:
        self.channels = tuple(channels)
        self.subdir = subdir
        self.gateway = gateway or open_gateway()
        self._classes: Classes | None = None
        self._answers: dict[Hashable, Pick | str] = {}
        self._records: dict[str, list[RepoDataRecord]] = {}
        self._hidden: dict[str, list[RepoDataRecord]] = {}
        self._names: dict[tuple[tuple[str, ...], tuple[Path | str, ...]], set[str]] = {}

    def grouped(self, names: Iterable[str], classes: Grouping = MachineClasses) -> Self:
        """These channels, with one solve for each class of scenarios.

        Args:
            names: The packages that will be requested: their rules decide which machines are in one
                class.
            classes: What decides which scenarios are in one class.
        """
        grouped = copy(self)
        grouped._answers = {}
        grouped._classes = classes(self.query([f"{name} *" for name in names], recursive=True))
        return grouped

    def answer(self, scenario: Scenario) -> Pick | str:
        """The solver's pick, or its text without a solution.

        Raises:
            BadValue, ChannelMissing: As `solve`.
        """
        found = self._answer_of_class(scenario)
        if isinstance(found, Pick) and found.scenario != scenario:
            return found.on(scenario)
        return found

    def _answer_of_class(self, scenario: Scenario) -> Pick | str:
        """The answer to a scenario of the same class; the pick has the scenario that was solved."""
        key = self.key(scenario)
        if key not in self._answers:
            try:
                self._answers[key] = solve(scenario, self.channels, self.gateway)
            except Unsolvable as error:
                self._answers[key] = error.solver
        return self._answers[key]

    def pick(self, scenario: Scenario) -> Pick | None:
        """The solver's pick, or None without a solution; raises as `answer`."""
        found = self.answer(scenario)
        return found if isinstance(found, Pick) else None

    def key(self, scenario: Scenario) -> Hashable:
        """Equal for scenarios that get the same answer: those of one class, if grouped."""
        return self._classes.key(scenario) if self._classes else scenario

    def solves(self, scenario: Scenario, **changes: Any) -> bool:
        """Whether a scenario has a solution, with these fields changed."""
        changed = replace(scenario, **changes) if changes else scenario
        return isinstance(self._answer_of_class(changed), Pick)

    def query(self, specs: Sequence[str], recursive: bool = False) -> list[list[RepoDataRecord]]:
        """The records of specs by channel.

        If `recursive`, also of all their possible dependencies.
        """
        subdirs = (self.subdir, NOARCH)
        with reading(self.channels):
            found = _sources(self.channels, subdirs)
            platforms = [Subdir(name) for name in subdirs]
            asked = self.gateway.query(
                found.urls,
                platforms,
                list(specs),
                recursive=recursive,
                channel_relations=_relations(found),
            )
            records = run(_patiently(asked, " ".join(specs)))
        if not found.origins:
            return records
        return [list(map(found.restored, part)) for part in records]

    def records(self, name: str) -> list[RepoDataRecord]:
        """The records of a package, newest first.

        From the first channel that has it, as channel priority is strict.
        """
        if name not in self._records:
            records = next((records for records in self.query([f"{name} *"]) if records), [])
            self._records[name] = sorted(
                records, key=lambda r: (r.version, r.build_number), reverse=True
            )
        return self._records[name]

    def hidden(self, name: str) -> list[RepoDataRecord]:
        """The records of a package that strict priority hides, newest first.

        Those of channels after the first that has the package.
        """
        if name not in self._hidden:
            having = [records for records in self.query([f"{name} *"]) if records]
            hidden = [record for records in having[1:] for record in records]
            self._hidden[name] = sorted(
                hidden, key=lambda r: (r.version, r.build_number), reverse=True
            )
        return self._hidden[name]

    def versions(self, name: str) -> list[str]:
        """The versions of a package, newest first."""
        return list(dict.fromkeys(str(record.version) for record in self.records(name)))

    def names(
        self, subdirs: Iterable[str], channels: Sequence[Path | str] | None = None
    ) -> set[str]:
        """The names of all packages for these platforms, in these channels or in all."""
        key = tuple(subdirs), self.channels if channels is None else tuple(channels)
        if key not in self._names:
            with reading(self.channels):
                found = _sources(key[1], key[0])
                platforms = [Subdir(name) for name in key[0]]
                asked = self.gateway.names(found.urls, platforms, _relations(found))
                names = run(_patiently(asked, "the names of packages"))
            self._names[key] = {name.normalized for name in names}
        return self._names[key]

    @cached_property
    def own_names(self) -> set[str]:
        """The names of all packages in the first channel."""
        return self.names([self.subdir, NOARCH], self.channels[:1])

    @cached_property
    def cuda_builds(self) -> frozenset[str]:
        """The packages of which `ASKS` admits CUDA builds only.

        By a constraint of its own, or of what it requires.
        """
        asking = self.records(ASKS)
        required = {need.split()[0] for record in asking for need in record.depends}
        constraining = [
            *asking,
            *(record for name in sorted(required) for record in self.records(name)),
        ]
        return frozenset(rule.split()[0] for record in constraining for rule in record.constrains)

    @cached_property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons in the channels, oldest first, ``3.14`` before ``3.14t``."""
        kinds = {
            (r.version, "t" * bool(re.search(r"_cp\d+t$", str(r.build))))
            for r in self.records("python_abi")
        }
        return tuple(f"{version}{free_threaded}" for version, free_threaded in sorted(kinds))

    @cached_property
    def toolkits(self) -> tuple[ChannelToolkit, ...]:
        """The toolkits in the channels, newest first."""
        toolkits: dict[str, ChannelToolkit] = {}
        for record in self.records("cuda-version"):
            version = str(record.version)
            rules = [*record.depends, *record.constrains]
            toolkit = toolkits.get(version, ChannelToolkit(version))
            bounds = [match[1] for match in map(_LEAST_DRIVER.match, rules) if match]
            driver = driver_version(bounds[0]) if bounds else None
            if any(rule.startswith("__cuda ") for rule in record.depends):  # the native build
                archs = [rule for rule in rules if rule.startswith("__cuda_arch ")]
                gpus = tuple(gpu for rule in archs for gpu in _GPU.findall(rule))
                toolkits[version] = replace(toolkit, driver=driver, gpus=gpus)
            else:
                toolkits[version] = replace(toolkit, compat_driver=driver)
        return tuple(toolkits.values())

    def toolkit(self, version: str) -> ChannelToolkit | None:
        return self._toolkits.get(version)

    @cached_property
    def _toolkits(self) -> dict[str, ChannelToolkit]:
        return {toolkit.version: toolkit for toolkit in self.toolkits}

    def ask(self, scenarios: Iterable[Scenario]) -> None:
        """Solves many scenarios at a time, for later calls of `answer`.

        That is several times faster than one after the other. rattler solves outside Python's
        lock, so tasks of one event loop keep all cores busy; processes are not faster.

        Raises:
            ChannelMissing: A channel cannot be read.
        """
        waiting = iter(
            {key: s for s in scenarios if (key := self.key(s)) not in self._answers}.items()
        )
        with reading(self.channels):
            found = _sources(self.channels, (self.subdir, NOARCH))

        async def work() -> None:
            for key, scenario in waiting:
                try:
                    self._answers[key] = await _solve(scenario, found, self.gateway)
                except SolverError as error:
                    self._answers[key] = str(error)

        async def together() -> None:
            await asyncio.gather(*(work() for _ in range(_CONCURRENT)))

        with reading(self.channels):
            run(together())


@cache
def older(left: str, right: str) -> bool:
    """Whether the left version is older than the right: 9.0 is older than 12.1."""
    return Version(left) < Version(right)
