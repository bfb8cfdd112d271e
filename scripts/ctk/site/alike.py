"""A catalogue that asks a solver once for all machines which the channel cannot tell apart.

A solver sees a driver and a GPU only as the versions of ``__cuda`` and ``__cuda_arch``, and does nothing with them but
hold them against the rules that records name. Two machines that every rule treats alike are one question. Whatever is
said *about* a pick still has the machine's own numbers in it.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from rattler import Gateway, RepoDataRecord, Subdir, Version, VersionSpec
from rattler.exceptions import InvalidVersionSpecError, SolverError

from ctk.core.platforms import NOARCH
from ctk.core.process import run
from ctk.solve.catalogue import Catalogue
from ctk.solve.solve import Pick, Scenario, reading, solve_records
from ctk.verify.oracle import version

Key = tuple[tuple[str, ...], str, object, object]
Cut = tuple[tuple[int, ...], float]
"""Just before a version (0) or just after it (1); a version itself lies between the two (0.5)."""

ALWAYS = ("cuda-version", "python", "python_abi")
"""What a pick may have besides the package that was asked for."""

_NAMES = ("__cuda", "__cuda_arch")
# Signs whose outcome depends on nothing but the order of two versions.
_COMPARISON = re.compile(r"(==|>=|<=|>|<)(\d+(?:\.\d+)*)")
_SIDES = {">=": (0,), "<": (0,), ">": (1,), "<=": (1,), "==": (0, 1)}
# A spec, with a space or brackets before the version or without: ``__cuda >=13``, ``__cuda>=13``.
_RULE = re.compile(r"(__cuda(?:_arch)?)(?![\w-])\s*(.*)", re.DOTALL)
# So many solves at a time keep all cores busy.
_AT_ONCE = 16


class Unasked(Exception):
    """A question that was not asked yet, while nothing is solved.

    Args:
        scenario: The question.
    """

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
        self._stated = {name: frozenset(rules) for name, rules in self._rules(names).items()}
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
        found = self._answers[key]
        return found and replace(found, scenario=scenario)

    def key(self, scenario: Scenario) -> Key:
        """The same for scenarios that are one question to a solver."""
        driver, gpu = (
            _fitting(self._stated[n], v) for n, v in zip(_NAMES, (scenario.driver, scenario.arch), strict=True)
        )
        return scenario.specs, scenario.subdir, driver, gpu if scenario.driver else None

    def is_same_driver(self, one: str | None, other: str | None) -> bool:
        """Whether no rule tells any two drivers apart of those from the one to the other."""
        cuts = _cuts(self._stated[_NAMES[0]])
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
            # Interrupted: the solves under way end in milliseconds, and need this loop to hand over what they found.
            for _ in waiting:
                pass
            await working
            raise

    def _rules(self, names: Iterable[str]) -> dict[str, set[str]]:
        """Everything that any record, reachable from some packages, says of the two virtual packages."""
        specs = [f"{name} *" for name in names]
        with reading(self.channels):
            found = run(self.gateway.query(self.sources, [Subdir(self.subdir), Subdir(NOARCH)], specs, recursive=True))
        records: list[RepoDataRecord] = [record for channel in found for record in channel]
        rules: dict[str, set[str]] = {name: set() for name in _NAMES}
        for record in records:
            for rule in (*record.depends, *record.constrains):
                if (match := _RULE.fullmatch(rule)) and match[2]:
                    rules[match[1]].add(match[2])
        return rules


@cache
def _fitting(rules: frozenset[str], value: str | None) -> object:
    """The rules that a version fits; the version itself where one of them is no rule about versions alone."""
    try:
        return value and frozenset(rule for rule in rules if VersionSpec(rule).matches(Version(value)))
    except InvalidVersionSpecError:
        return value


def _cuts(rules: Iterable[str]) -> list[Cut] | None:
    """Where the outcome of some rule changes, in order; None where one of them does more than compare."""
    found: set[Cut] = set()
    for rule in rules:
        for part in re.split(r"[,|]", rule.replace(" ", "")):
            match = _COMPARISON.fullmatch(part)
            if not match:
                return None
            found |= {(_number(match[2]), side) for side in _SIDES[match[1]]}
    return sorted(found)


def _number(text: str) -> tuple[int, ...]:
    """A version for comparisons, in which 12 and 12.0 are the same."""
    parts = list(version(text))
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
