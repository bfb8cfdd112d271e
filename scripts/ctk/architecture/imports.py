"""What the stations import, read from the source of every module, and the rules that modules break."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import grimp

from ctk.architecture.stations import COMMAND_LINE, REACHES_BACK, SHARED, STATIONS, Station
from ctk.errors import RuleBroken, problems

Edges = Mapping[str, frozenset[str]]
"""Station -> the stations it imports, without itself."""


@dataclass(frozen=True)
class Table:
    """Stations, and the exceptions to their order; `THE_TABLE` is that of this project.

    Attributes:
        stations: Those that are drawn as boxes.
        shared: What everybody may import.
        command_line: What imports everything, and nobody imports.
        reaches_back: Importer and imported step that is not the one before it -> why.
    """

    stations: tuple[Station, ...]
    shared: Station
    command_line: Station
    reaches_back: Mapping[tuple[str, str], str]

    @property
    def all(self) -> tuple[Station, ...]:
        return (self.command_line, *self.stations, self.shared)

    def station_of(self, module: str) -> str | None:
        """The station of a module below the package; the longest name in the table that it begins with decides."""
        while module:
            for station in self.all:
                if module in station.modules:
                    return station.name
            module = module.rpartition(".")[0]
        return None


THE_TABLE = Table(STATIONS, SHARED, COMMAND_LINE, REACHES_BACK)


def modules(package: str) -> dict[str, frozenset[str]]:
    """Every module below a package -> the modules below it that it imports, inside functions and for types as well."""
    graph = grimp.build_graph(package, cache_dir=None)
    start = f"{package}."
    return {
        name.removeprefix(start): frozenset(
            other.removeprefix(start)
            for other in graph.find_modules_directly_imported_by(name)
            if other.startswith(start)
        )
        for name in sorted(graph.modules)
        if name != package
    }


def edges(imports: Mapping[str, Iterable[str]], table: Table = THE_TABLE) -> Edges:
    """What each station imports.

    Raises:
        RuleBroken: A module has no station, the table has a module that is not there, or an import breaks a rule; every
            problem with the modules that make it.
    """
    known = {name for station in table.all for name in station.modules}
    there = {*imports, *(name.rpartition(".")[0] for name in imports)}
    found = [f"{name}: has no station" for name in imports if table.station_of(name) is None]
    found += [f"{name}: is in the table, and there is no such module" for name in sorted(known - there)]
    crossing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, others in imports.items():
        for other in sorted(others):
            pair = (table.station_of(name) or "", table.station_of(other) or "")
            if all(pair) and pair[0] != pair[1]:
                crossing[pair].append(f"{name} imports {other}")
    for pair in sorted(crossing):
        found += [f"{line}: {why}" for why in _wrong(*pair, table) for line in crossing[pair]]
    for station in table.stations:
        found += [
            f"{station.name}: may use {other} in the table, and does not"
            for other in station.uses
            if (station.name, other) not in crossing
        ]
    found += [
        f"{one}: reaches back to {other} in the table, and does not"
        for one, other in sorted(table.reaches_back.keys() - crossing)
    ]
    if found:
        raise problems(
            RuleBroken,
            "the stations of the tooling",
            found,
            "mend the import, or the table in scripts/ctk/architecture/stations.py; docs/architecture.md has the rules",
        )
    return {s.name: frozenset(other for name, other in crossing if name == s.name) for s in table.all}


def _wrong(name: str, other: str, table: Table) -> list[str]:
    """The rules that one station breaks by importing another."""
    if other == table.command_line.name:
        return ["nothing imports the command line"]
    if name == table.shared.name:
        return [f"what is shared imports no station, and this is one: {other}"]
    if table.shared.name == other or name == table.command_line.name:
        return []
    by_name = {station.name: station for station in table.stations}
    importer, imported = by_name[name], by_name[other]
    wrong = []
    if other not in importer.uses:
        wrong.append(f"{name} may not import {other}")
    if imported.row >= importer.row:
        wrong.append(f"{name} is not below {other}, so the two could go round in a circle")
    if (
        importer.step
        and imported.step
        and imported.step != importer.step - 1
        and (name, other) not in table.reaches_back
    ):
        wrong.append(f"{name} reaches past the step before it, and nothing says why")
    return wrong


def shortest(given: Edges, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Only the imports that do not follow from others: what a picture has to show. Cycles are not expected."""
    kept = {name: set(given[name]) & set(names) for name in names}

    def reach(name: str) -> set[str]:
        return kept[name].union(*(reach(other) for other in kept[name]))

    return {
        name: tuple(o for o in sorted(others) if not any(o in reach(between) for between in others if between != o))
        for name, others in kept.items()
    }
