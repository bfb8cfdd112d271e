"""Copies of the planned channel with something taken out, and how they are judged."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rattler import Gateway, MatchSpec, PackageRecord

from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH
from ctk.plan.plan import write_repodata
from ctk.solve.channels import Repodata, TwinBuild, universe
from ctk.solve.solve import Pick, Scenario, solve
from ctk.verify.oracle import Expected, OracleFacts, Question, expected
from ctk.verify.run import Record as Answered
from ctk.verify.run import SolverAnswer, wrong
from ctk.verify.scenarios import scenario

Record = dict[str, Any]
Place = tuple[str, str, str, str]
"""Subdir, name, version and build of a record."""
Change = Callable[[Record], None]
"""Changes one record in place, or empties it, which takes it out, or leaves it as it is."""

_TIE = re.compile(
    r"^cuda-version >=(?P<lower>[\d.]+),<(?P<upper>\d+\.\d+)\S* (?P<fit>native|compat)_\*$"
)


def records(content: Repodata) -> Iterator[Record]:
    """All records of all subdirs."""
    for subdir in content.values():
        yield from subdir["packages.conda"].values()


def tie(record: Record) -> re.Match[str] | None:
    """What a package that exists in two builds says of cuda-version: ``lower``, ``upper`` and
    ``fit``.
    """
    return next(filter(None, map(_TIE.match, record["depends"])), None)


def fit(record: Record) -> str:
    """``native`` or ``compat``; "" for a package that has no twin."""
    if record["name"] == "cuda-version":
        return record["build"].partition("_")[0]
    found = tie(record)
    return found["fit"] if found else ""


def take_out(
    package: str, field: str, pattern: str = "", instead: str | None = None, of: str = ""
) -> Change:
    """Takes out what packages state, or a part of it.

    Args:
        package: Regular expression of a whole name; its files, which are tied alike, change with
            it.
        field: ``depends``, ``constrains``, ``run_exports`` or ``track_features``.
        pattern: Regular expression somewhere in the text.
        instead: What takes its place; the whole text goes when it is None.
        of: Only of ``native``, or of ``compat`` builds.
    """

    def without(specs: Sequence[str]) -> list[str]:
        if instead is not None:
            return [re.sub(pattern, instead, spec) for spec in specs]
        return [spec for spec in specs if not re.search(pattern, spec)]

    def change(record: Record) -> None:
        is_meant = re.fullmatch(f"(?:{package})(-files)?", record["name"])
        if field not in record or of not in ("", fit(record)) or not is_meant:
            return
        if field == "track_features":
            del record[field]
        elif field == "run_exports":
            record[field] = {strength: without(specs) for strength, specs in record[field].items()}
        else:
            record[field] = without(record[field])

    return change


def changed(content: Repodata, changes: Sequence[Change], subdirs: Sequence[str]) -> Repodata:
    """A copy of some subdirs and noarch with changes, each of which must find something
    to change.
    """
    found: dict[str, Any] = {}
    idle = set(changes)
    for subdir in (*subdirs, NOARCH):
        packages = {}
        for file, record in content[subdir]["packages.conda"].items():
            new = copy.deepcopy(record) if changes else record
            for change in changes:
                before = copy.deepcopy(new) if len(changes) > 1 else record
                if new:
                    change(new)
                if new != before:
                    idle.discard(change)
            if new:
                packages[file] = new
        found[subdir] = {**content[subdir], "packages.conda": packages}
    assert not idle, "a change finds nothing that it could take out"
    return found


@dataclass(frozen=True)
class Ask:
    """A scenario."""

    # the machine, and what the oracle is asked. Its request need not be one that the oracle knows
    question: Question
    specs: tuple[str, ...] = ()  # what is typed, where that is not what the question says
    refused: bool = False  # it must be refused, whatever the oracle says

    @property
    def scenario(self) -> Scenario:
        asked = scenario(self.question)
        return replace(asked, specs=self.specs) if self.specs else asked


@dataclass(frozen=True)
class World:
    """A channel above the universe, with what it is judged by."""

    folders: tuple[Path, Path]  # this channel and the universe
    facts: OracleFacts  # what the oracle knows
    # What the packages state in the channel that nothing was taken out of.
    states: Mapping[Place, Record]
    # See `ctk.solve.channels.Channels`; of that channel, too.
    twins: Mapping[tuple[str, str, str], TwinBuild]
    gateway: Gateway  # shared, so that the universe is read once

    def pick(self, asked: Scenario) -> Pick | None:
        """What a solver picks; None when it refuses."""
        try:
            return solve(asked, self.folders, self.gateway)
        except Unsolvable as error:
            assert error.solver, error
            return None

    def right(self, ask: Ask) -> Expected:
        """What the oracle expects."""
        return Expected() if ask.refused else expected(self.facts, ask.question)

    def fault(self, ask: Ask) -> str:
        """What is wrong with the pick: by the oracle, then by what the packages state when nothing
        is taken out.
        """
        return self.fault_of(self.pick(ask.scenario), ask)

    def fault_of(self, pick: Pick | None, ask: Ask) -> str:
        """What is wrong with this pick, as `fault` says it."""
        found = (
            {r.name.normalized: Answered(str(r.version), str(r.build)) for r in pick.records}
            if pick
            else {}
        )
        answer = SolverAnswer(ask.scenario, found, "" if pick else "refused")
        if fault := wrong(ask.question, self.right(ask), answer, self.twins):
            return fault
        return next(violations(pick, self.states), "") if pick else ""


class Worlds:
    """Makes worlds out of one channel's repodata.

    Args:
        content: What its index says.
        facts: What the oracle knows of the same releases.
        folder: Where the worlds are written.
        gateway: For all of them.
    """

    def __init__(
        self, content: Repodata, facts: OracleFacts, folder: Path, gateway: Gateway
    ) -> None:
        self.content, self.facts = content, facts
        self.states = {_place(record): record for record in records(content)}
        self._twins = {
            place[1:]: twin for place, record in self.states.items() if (twin := _twin(record))
        }
        self._folder, self._gateway, self._made = folder, gateway, 0
        self._universe = write_repodata(universe(), folder / "universe")

    def without(self, *changes: Change, subdirs: Sequence[str] = ("linux-64",)) -> World:
        """The channel for some subdirs, with something taken out; without a change, as it is."""
        return self.of(changed(self.content, changes, subdirs), self.facts)

    def of(self, content: Repodata, facts: OracleFacts) -> World:
        """A world of some of this channel's records, written without what no solver reads."""
        self._made += 1
        slim = {
            subdir: {
                **part,
                "packages.conda": {
                    file: {
                        key: value
                        for key, value in record.items()
                        if key not in ("license", "run_exports")
                    }
                    for file, record in part["packages.conda"].items()
                },
            }
            for subdir, part in content.items()
        }
        own = write_repodata(slim, self._folder / f"world-{self._made}")
        return World((own, self._universe), facts, self.states, self._twins, self._gateway)


def violations(pick: Pick, states: Mapping[Place, Record]) -> Iterator[str]:
    """Each dependency, constraint and request that a pick does not keep, read anew with rattler's
    match specs.

    Args:
        pick: What a solver picked, with the machine.
        states: What packages state, by place. Those that are not there are believed as they are in
            the pick.
    """
    present: dict[str, list[PackageRecord]] = {r.name.normalized: [r] for r in pick.records}
    if len(present) != len(pick.records):
        yield "a package is there twice"
    for virtual in pick.scenario.virtual_packages:
        name, version = virtual.name.normalized, str(virtual.version)
        present[name] = [PackageRecord(name, version, virtual.build_string, 0, NOARCH)]
    for text in pick.scenario.specs:
        if not any(map(_spec(text).matches, present.get(_spec(text).name.normalized, []))):
            yield f"{text} was asked for, and is not there"
    for record in pick.records:
        name = record.name.normalized
        stated = states.get((str(record.subdir), name, str(record.version), str(record.build)))
        depends = stated["depends"] if stated else record.depends
        constrains = stated.get("constrains", ()) if stated else record.constrains
        for needed, specs in ((True, depends), (False, constrains)):
            for text in specs:
                spec = _spec(text)
                there = present.get(spec.name.normalized, [])
                if needed and not there:
                    yield f"{name} needs {text}, which is not there"
                elif not all(map(spec.matches, there)):
                    yield f"{name} wants {text}, but {there[0].version} {there[0].build} is there"


@lru_cache(maxsize=4096)
def _spec(text: str) -> MatchSpec:
    return MatchSpec(text)


def toolkits_of(states: Iterable[Record], package: str) -> list[str]:
    """The CTK minors that a package of two builds is of, in no order: the last one that its tie
    allows.
    """
    found = set()
    for record in states:
        if record["name"] == package and (match := tie(record)):
            major, next_minor = match["upper"].split(".")
            found.add(f"{major}.{int(next_minor) - 1}")
    return list(found)


def _twin(record: Record) -> TwinBuild | None:
    found = tie(record)
    lower = (
        record["version"] if record["name"] == "cuda-version" else found["lower"] if found else ""
    )
    return TwinBuild(fit(record), lower.split(".")[0]) if lower else None


def _place(record: Record) -> Place:
    return record["subdir"], record["name"], record["version"], record["build"]
