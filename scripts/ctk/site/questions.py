"""The questions of the install selector: drivers, GPUs, Pythons, pins and packages, and which machines are alike.

A solver sees a driver and a GPU only as the versions of ``__cuda`` and ``__cuda_arch``, and does nothing with them but
hold them against the rules that records name. Two machines that every rule treats alike are one question, solved once.
Whatever is said *about* a pick still has the machine's own numbers in it.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from rattler import Gateway, Subdir, Version, VersionSpec
from rattler.exceptions import InvalidVersionSpecError, SolverError
from ruamel.yaml import YAML

from ctk.core.errors import UnknownName
from ctk.core.platforms import NOARCH
from ctk.core.process import run
from ctk.lock.lock import ReleaseLock
from ctk.solve.catalogue import ANY_DRIVER, Catalogue
from ctk.solve.machine import python_specs
from ctk.solve.solve import Pick, Scenario, reading, solve_records
from ctk.verify.oracle import version
from ctk.verify.scenarios import Machine, facts, matrix

ALWAYS = ("cuda-version", "python", "python_abi")
"""Packages that a pick may have besides the one that was asked for."""

_OLDEST_DRIVER = "1.0"  # older than any
_GPUS = Path(__file__).with_name("gpus.yaml")
# Halves of packages that nobody installs by name: what a cross-compiler takes for its target, and the files that the
# two builds of a package share.
_HALVES = re.compile(r".*_(?:linux|win)-\w+|.*-files|python_abi")
# Signs whose outcome depends on nothing but the order of two versions.
_COMPARISON = re.compile(r"(==|>=|<=|>|<)(\d+(?:\.\d+)*)")
_SIDES = {">=": (0,), "<": (0,), ">": (1,), "<=": (1,), "==": (0, 1)}
# A spec, with a space or brackets before the version or without: ``__cuda >=13``, ``__cuda>=13``.
_RULE = re.compile(r"(__cuda(?:_arch)?)(?![\w-])\s*(.*)", re.DOTALL)
_AT_ONCE = 16  # solves, which keep all cores busy

Key = tuple[tuple[str, ...], str, object, object]
Cut = tuple[tuple[int, ...], float]
"""Just before a version (0) or just after it (1); a version itself lies between the two (0.5)."""


@dataclass(frozen=True)
class SelectorQuestion:
    """One combination of the selector's fields.

    Attributes:
        driver: The newest CUDA version that the driver supports, or None without a driver.
        arch: Compute capability, or None where no client detects the GPU.
        python: ``3.13``, ``3.14t``, or "" where it is left to the solver.
        pin: What ``cuda-version`` is pinned to, a major or a minor, or "".
    """

    package: str
    driver: str | None
    arch: str | None
    python: str
    pin: str

    @property
    def specs(self) -> tuple[str, ...]:
        """What a client is given, in the order of ``ctk solve PACKAGE cuda-version=PIN --python PYTHON``."""
        return (self.package, *pin_specs(self.pin), *(python_specs(self.python) if self.python else ()))

    def scenario(self, subdir: str) -> Scenario:
        return Scenario(self.specs, subdir, self.driver, self.arch)


@dataclass(frozen=True)
class Axes:
    """The values of each question for one platform; their combinations are what is solved.

    Attributes:
        drivers: None, then what drivers support, oldest first; the first is too old for every toolkit.
        gpus: None, then compute capabilities, oldest first; the last is newer than every toolkit.
        pythons: "", then those that the base channel has, oldest first.
        pins: "", then CUDA majors, then the minors in the channel, oldest first.
        packages: Those that one installs by name.
        is_older_alike, is_newer_alike: Whether a driver older than the first, or newer than the last, is the same
            question as that one: no rule of the channel tells them apart.
    """

    subdir: str
    drivers: tuple[str | None, ...]
    gpus: tuple[str | None, ...]
    pythons: tuple[str, ...]
    pins: tuple[str, ...]
    packages: tuple[str, ...]
    is_older_alike: bool = False
    is_newer_alike: bool = False

    @property
    def machines(self) -> list[Machine]:
        """Every driver with every GPU, and the machine without a driver."""
        return [(driver, gpu) for driver in self.drivers for gpu in self.gpus if driver or not gpu]

    def questions(self, package: str, python: str) -> Iterator[SelectorQuestion]:
        """Every question about one package with one Python."""
        for pin, (driver, arch) in product(self.pins, self.machines):
            yield SelectorQuestion(package, driver, arch, python, pin)


def axes(
    catalogue: Catalogue,
    locks: Iterable[ReleaseLock],
    tags: Iterable[str],
    packages: Collection[str] = (),
    pythons: Collection[str] = (),
) -> Axes:
    """The axes of a catalogue of this channel and its base, for its platform.

    The facts of the locks say which drivers and GPUs exist; the wheel tags, oldest first, are the Pythons that packages
    are built for. `packages` and `pythons`, where given, are the only ones.

    Raises:
        UnknownName: A package or a Python that the channels do not have.
        LockError: The locks lack facts.
    """
    known = matrix(facts(locks), tags, [catalogue.subdir])
    offered = installed_by_name(catalogue)
    available = {
        f"{record.version}{'t' if re.search(r'_cp[0-9]+t$', str(record.build)) else ''}"
        for record in catalogue.records("python_abi")
    }
    for kind, given, valid in (("package", packages, offered), ("Python", pythons, available)):
        for name in given:
            if name not in valid:
                raise UnknownName.of(kind, name, valid)
    names = tuple(name for name in offered if not packages or name in packages)
    minors = sorted((t.version for t in catalogue.toolkits), key=version)
    alike = AlikeCatalogue(catalogue.channels, catalogue.subdir, [*names, *ALWAYS])
    _, oldest, *_, newest = known.drivers
    return Axes(
        catalogue.subdir,
        known.drivers,
        known.gpus,
        ("", *(p for p in known.pythons if p in available and (not pythons or p in pythons))),
        ("", *dict.fromkeys(minor.split(".")[0] for minor in minors), *minors),
        names,
        is_older_alike=alike.is_same_driver(oldest, _OLDEST_DRIVER),
        is_newer_alike=alike.is_same_driver(newest, ANY_DRIVER),
    )


def installed_by_name(catalogue: Catalogue) -> list[str]:
    """The packages of the channel that somebody would ask for."""
    names = catalogue.names([catalogue.subdir, NOARCH], catalogue.channels[:1])
    other = f"_{'win' if catalogue.subdir.startswith('linux') else 'linux'}-"
    return sorted(name for name in names if not _HALVES.fullmatch(name) and other not in name)


def pin_specs(pin: str) -> tuple[str, ...]:
    """What asks for a toolkit: nothing for ""."""
    return (f"cuda-version={pin}",) if pin else ()


def gpu_names() -> dict[str, str]:
    """Name of a GPU -> its compute capability, as NVIDIA lists them; the newest first."""
    return {name: arch for arch, names in YAML(typ="safe").load(_GPUS).items() for name in names}


class Unasked(Exception):
    """A scenario that was not asked yet, while nothing is solved."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.scenario = scenario


class AlikeCatalogue(Catalogue):
    """Channels, for one platform, each distinct question asked once.

    Attributes:
        only_known: Whether `pick` raises `Unasked` for what `ask` has not asked, instead of solving it.

    Args:
        channels: Channel folders or URLs, the most important first.
        subdir: The platform.
        names: The packages that will be asked for. What they can bring along decides which machines are alike.
    """

    def __init__(self, channels: Sequence[Path | str], subdir: str, names: Iterable[str]) -> None:
        super().__init__(channels, subdir, Gateway())
        self._rules = self._read_rules(names)
        self._answers: dict[Key, Pick | None] = {}
        self.only_known = False

    def pick(self, scenario: Scenario) -> Pick | None:
        """See `Catalogue.pick`.

        Raises:
            Unasked: It was not asked, and `only_known` is set.
        """
        key = self.key(scenario)
        if key not in self._answers:
            if self.only_known:
                raise Unasked(scenario)
            self._answers[key] = super().pick(scenario)
        pick = self._answers[key]
        return pick and replace(pick, scenario=scenario)

    def key(self, scenario: Scenario) -> Key:
        """The same for scenarios that are one question to a solver."""
        driver = _fitting(self._rules["__cuda"], scenario.driver)
        gpu = _fitting(self._rules["__cuda_arch"], scenario.arch)
        return scenario.specs, scenario.subdir, driver, gpu if scenario.driver else None

    def is_same_driver(self, one: str | None, other: str | None) -> bool:
        """Whether no rule tells any two drivers apart of those from the one to the other."""
        cuts = _cuts(self._rules["__cuda"])
        if cuts is None:
            return one == other
        return len({driver and bisect_left(cuts, (_number(driver), 0.5)) for driver in (one, other)}) == 1

    def ask(self, scenarios: Iterable[Scenario]) -> None:
        """Solves many at a time, which is several times faster than one after the other; `pick` then knows them.

        Raises:
            Unsolvable: A channel cannot be read.
        """
        missing = {key: s for s in scenarios if (key := self.key(s)) not in self._answers}
        with reading(self.channels):
            run(self._ask(iter(missing.items())))

    async def _ask(self, waiting: Iterator[tuple[Key, Scenario]]) -> None:
        async def work() -> None:
            for key, scenario in waiting:
                try:
                    records = await solve_records(scenario, self.sources, self.gateway)
                except SolverError:
                    self._answers[key] = None
                else:
                    self._answers[key] = Pick(scenario, tuple(sorted(records, key=lambda r: r.name.normalized)))

        working = asyncio.gather(*(work() for _ in range(_AT_ONCE)))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            # Interrupted: the solves under way end in milliseconds, and need this loop to hand over their picks.
            for _ in waiting:
                pass
            await working
            raise

    def _read_rules(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Everything that any record, reachable from some packages, says of the two virtual packages."""
        specs = [f"{name} *" for name in names]
        with reading(self.channels):
            read = run(self.gateway.query(self.sources, [Subdir(self.subdir), Subdir(NOARCH)], specs, recursive=True))
        rules: dict[str, set[str]] = {"__cuda": set(), "__cuda_arch": set()}
        for record in (record for channel in read for record in channel):
            for rule in (*record.depends, *record.constrains):
                if (match := _RULE.fullmatch(rule)) and match[2]:
                    rules[match[1]].add(match[2])
        return {name: frozenset(texts) for name, texts in rules.items()}


@cache
def _fitting(rules: frozenset[str], value: str | None) -> object:
    """The rules that a version fits; the version itself where one of them is no rule about versions alone."""
    try:
        return value and frozenset(rule for rule in rules if VersionSpec(rule).matches(Version(value)))
    except InvalidVersionSpecError:
        return value


def _cuts(rules: Iterable[str]) -> list[Cut] | None:
    """Where the outcome of some rule changes, in order; None where one of them does more than compare."""
    cuts: set[Cut] = set()
    for rule in rules:
        for part in re.split(r"[,|]", rule.replace(" ", "")):
            match = _COMPARISON.fullmatch(part)
            if not match:
                return None
            cuts |= {(_number(match[2]), side) for side in _SIDES[match[1]]}
    return sorted(cuts)


def _number(text: str) -> tuple[int, ...]:
    """A version for comparisons, in which 12 and 12.0 are the same."""
    parts = list(version(text))
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
