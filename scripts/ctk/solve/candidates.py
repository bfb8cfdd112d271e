"""Questions for which a solver has the same candidates, and so gives the same pick.

`MachineClasses` tells machines apart by each rule that they fit. What a solver does with a rule is
less: it has a record as a candidate, or not. So a machine is here the set of records that it can
have, and a pin the set of records that it leaves: `cuda-version=12 cuda-version=12.9=native_*` is
the same question as `cuda-version=12.9=native_*`, and drivers that can have neither of two records
are one. For the page of a channel, which has every pin on every machine, that is a fraction of the
questions. `ctk verify` proves picks, so it takes the finer classes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import chain

from rattler import MatchSpec, RepoDataRecord, Version, VersionSpec
from rattler.exceptions import InvalidVersionSpecError

from ctk.package.records import spec_name
from ctk.solve.solve import RULE, Scenario, parse_spec

Candidates = int
"""A set of records: a bit for each, at its place among the records that can differ."""


class CandidateClasses:
    """Classes of questions with the same candidates; made as `MachineClasses`."""

    def __init__(self, records: Iterable[Iterable[RepoDataRecord]]) -> None:
        every = list(chain.from_iterable(records))
        ruled = {record.name.normalized for record in every if any(_rules(record))}
        # Of a package with a rule, all records: a pin chooses among them.
        self._differing = [record for record in every if record.name.normalized in ruled]
        self._needs: dict[str, set[str]] = {}
        for record in every:
            needs = self._needs.setdefault(record.name.normalized, set())
            needs.update(map(spec_name, record.depends))
        self._machines: dict[tuple[str | None, str | None], Candidates | None] = {}
        self._requests: dict[tuple[str, ...], tuple[tuple[str, ...], Candidates | None]] = {}

    def key(self, scenario: Scenario) -> Hashable:
        """The class of a scenario: equal for scenarios that get the same pick."""
        machine = scenario.driver, scenario.arch if scenario.driver else None
        if machine not in self._machines:
            self._machines[machine] = self._of_machine(*machine)
        if scenario.specs not in self._requests:
            self._requests[scenario.specs] = self._of_request(scenario.specs)
        specs, of_request = self._requests[scenario.specs]
        of_machine = self._machines[machine]
        if of_machine is None or of_request is None:
            return specs, scenario.subdir, of_request, machine, scenario.glibc
        return specs, scenario.subdir, of_request & of_machine, scenario.glibc

    def reach(self, names: Iterable[str]) -> set[str]:
        """Packages, and all that they can bring."""
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left.extend(self._needs.get(name, ()))
        return found

    def _of_machine(self, driver: str | None, arch: str | None) -> Candidates | None:
        """The candidates on a machine; None if a rule is not about versions alone."""
        try:
            return self._set(lambda record: _fits(record, driver, arch))
        except InvalidVersionSpecError:
            return None

    def _of_request(self, request: tuple[str, ...]) -> tuple[tuple[str, ...], Candidates | None]:
        """What of a request is more than a choice among records, and the records that it leaves.

        None for a request with a rule about the machine, and for one with other packages than the
        records are for.
        """
        differing = {record.name.normalized for record in self._differing}
        specs = [parse_spec(text) for text in request]
        if any(spec.name not in self._needs for spec in specs):
            return request, None
        left: dict[str, None] = {}
        choosing: dict[str, list[MatchSpec]] = {}
        for spec in specs:
            is_choice = spec.name in differing and not spec.match.channel
            left[spec.name if is_choice else spec.text] = None
            choosing.setdefault(spec.name, []).append(spec.match)
        reached = self.reach(spec.name for spec in specs)

        def is_left(record: RepoDataRecord) -> bool:
            name = record.name.normalized
            return name in reached and all(one.matches(record) for one in choosing.get(name, ()))

        return tuple(left), self._set(is_left)

    def _set(self, is_member: Callable[[RepoDataRecord], bool]) -> Candidates:
        places = [place for place, record in enumerate(self._differing) if is_member(record)]
        return sum(1 << place for place in places)


def _rules(record: RepoDataRecord) -> Iterable[str]:
    return filter(RULE.fullmatch, (*record.depends, *record.constrains))


def _fits(record: RepoDataRecord, driver: str | None, arch: str | None) -> bool:
    """Whether a machine can have a record, by the rules of the record.

    Raises:
        InvalidVersionSpecError: A rule is not about versions alone.
    """
    versions = {"__cuda": driver, "__cuda_arch": arch}
    rules = [(rule, True) for rule in record.depends]
    rules += [(rule, False) for rule in record.constrains]
    for text, is_needed in rules:
        rule = RULE.fullmatch(text)
        if rule is None:
            continue
        have, bound = versions[rule[1]], VersionSpec(rule[2] or "*")
        if have is None and is_needed:
            return False
        if have is not None and not bound.matches(Version(have)):
            return False
    return True
