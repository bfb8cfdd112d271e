"""The life of an environment: created, then changed by a second command, on any driver.

`ctk.verify.scenarios` asks what a solver picks for an empty environment. Here it starts from
installed packages, with the request that they came from. `ctk.verify.life_oracle` says what such a
command may not do unasked, `ctk.verify.life_models` what clients do, and `ctk.verify.life_clients`
asks the clients themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from rattler import RepoDataRecord

from ctk.core.platforms import NOARCH
from ctk.solve.solve import Catalogue, Scenario, channel_url
from ctk.verify.life_oracle import Change, Harm, LifeFacts, State, harms

INSTALL, UPDATE, UPDATE_ALL, REMOVE = "install", "update", "update --all", "remove"


@dataclass(frozen=True)
class Command:
    """A command that changes an environment."""

    kind: str  # INSTALL, UPDATE, UPDATE_ALL or REMOVE
    specs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.kind, *self.specs))


def install(*specs: str) -> Command:
    return Command(INSTALL, specs)


@dataclass(frozen=True)
class Start:
    """How an environment began."""

    name: str
    specs: tuple[str, ...]
    driver: str


_AND = ("packaging", "python=3.13")
"""What every start has: a package to remove, and a Python for which conda-forge has GPU packages.
"""


def _starts() -> Iterator[Start]:
    """Native, pinned, compat and with CUDA builds.

    Each without and with a package that asks for CUDA builds.
    """
    for asks in ((), ("cuda-gpu",), ("cuda-native",)):
        label = asks[0] if asks else "plain"
        yield Start(f"{label}: native", (*asks, "cuda-core", *_AND), "13.0")
        yield Start(
            f"{label}: pinned to 12.9", (*asks, "cuda-version=12.9", "cuda-core", *_AND), "13.0"
        )
        if asks:
            yield Start(f"{label}: with PyTorch", (*asks, "pytorch", "cuda-core", *_AND), "13.0")
        if asks != ("cuda-native",):  # which never goes with compat
            yield Start(
                f"{label}: compat", (*asks, "cuda-version=13.4", "cuda-core", *_AND), "13.0"
            )


STARTS = tuple(_starts())
OURS = (
    *("numba-cuda", "cuda-nvcc", "numpy", "cuda-gpu"),
    *("cuda-version=12", "cuda-version=13", "cuda-version=12.6"),
)
"""What is installed later, and is in this channel or its base."""
FOREIGN = (
    "pytorch",
    "cuda-gpu pytorch",
    "pytorch cuda-version=*=native_*",
    "jaxlib",
    "cupy",
    "libcudf",
)
"""What is installed later, and is conda-forge's."""
DRIVERS = ("13.0", "13.5", "12.6", None)
"""The driver that the environment was made with, a newer and an older one, and none."""


def commands(start: Start, *, foreign: bool) -> list[Command]:
    """The later commands for a start.

    The last is its own request again, with another package, as from a file.
    """
    asked = OURS + FOREIGN if foreign else OURS
    found = [install(*words.split()) for words in asked]
    found += [Command(UPDATE, ("cuda-core",)), Command(UPDATE_ALL), Command(REMOVE, ("packaging",))]
    found.append(install(*start.specs, "numba-cuda"))
    return found


@dataclass(frozen=True)
class Cell:
    """A member of the matrix: a start, a later command, and the machine's driver then."""

    start: Start
    command: Command
    driver: str | None

    def __str__(self) -> str:
        command = (
            "the same again, with numba-cuda"
            if self.command.specs[:-1] == self.start.specs
            else self.command
        )
        return f"{self.start.name} | {command} | {self.driver or 'none'}"

    def machine(self, subdir: str = "linux-64") -> Scenario:
        """The machine of the later command; its request does not count."""
        return Scenario((), subdir, self.driver)


def cells(*, foreign: bool) -> list[Cell]:
    """The matrix. Without conda-forge's packages it has no start and no command with them."""
    starts = [start for start in STARTS if foreign or "pytorch" not in start.specs]
    members = ((start, command) for start in starts for command in commands(start, foreign=foreign))
    return [Cell(start, command, driver) for start, command in members for driver in DRIVERS]


@dataclass(frozen=True)
class Environment:
    """Installed packages by name, and what was asked for so far."""

    specs: tuple[str, ...]
    records: Mapping[str, RepoDataRecord]

    @property
    def state(self) -> State:
        """What the oracle looks at."""
        builds = {name: (str(r.version), str(r.build)) for name, r in self.records.items()}
        floors = [
            spec
            for r in self.records.values()
            for spec in r.depends
            if spec.startswith("libnvjitlink ")
        ]
        return State(builds, self.specs, tuple(floors), self.left)

    @property
    def left(self) -> frozenset[str]:
        """Packages that do not depend on the ``-files`` package beside them: it was another's.

        What has the files in their place is another channel's build.
        """
        return frozenset(
            name
            for name, record in self.records.items()
            if f"{name}-files" in self.records
            and not any(spec.split()[0] == f"{name}-files" for spec in record.depends)
        )

    def write(self, path: Path, names: Iterable[str]) -> None:
        """Writes the records, in an order of their names, as a repodata.json: libsolv reads that.

        The order counts: of two installed packages that cannot both stay, libsolv keeps the first.
        """
        records = [self.records[name] for name in names]
        packages = {record.file_name: json.loads(record.to_json()) for record in records}
        path.write_text(json.dumps({"packages": {}, "packages.conda": packages}), encoding="utf-8")


@dataclass(frozen=True)
class Refused:
    """A client that finds no solution, and its words."""

    problem: str


Outcome = Environment | Refused


class World:
    """Channels for one platform, the most important first, with all their records.

    Args:
        channels: Folders with ``<subdir>/repodata.json``.
        strict: Whether channel priority is strict, not flexible.
    """

    def __init__(
        self, channels: Sequence[Path], subdir: str = "linux-64", *, strict: bool = True
    ) -> None:
        self.channels = tuple(channels)
        self.subdir = subdir
        self.strict = strict
        self.catalogue = Catalogue(self.channels, subdir)

    @cached_property
    def by_url(self) -> dict[str, RepoDataRecord]:
        """All records by their address."""
        names = sorted(self.catalogue.names((self.subdir, NOARCH)))
        found = self.catalogue.query([f"{name} *" for name in names])
        return {record.url: record for part in found for record in part}

    @cached_property
    def by_name(self) -> dict[str, list[RepoDataRecord]]:
        """All records by their package."""
        found: dict[str, list[RepoDataRecord]] = {}
        for record in self.by_url.values():
            found.setdefault(record.name.normalized, []).append(record)
        return found

    def at(self, channel: str, file: str) -> RepoDataRecord:
        """The record of a file of a channel, in either of its subdirs."""
        for subdir in (self.subdir, NOARCH):
            record = self.by_url.get(f"{channel_url(Path(channel))}/{subdir}/{file}")
            if record:
                return record
        raise KeyError(file)


class Client(Protocol):
    """A client of conda packages, or a model of one."""

    name: str

    def create(self, world: World, machine: Scenario) -> Outcome:
        """The environment that it creates for a scenario."""
        ...

    def change(
        self, world: World, environment: Environment, command: Command, machine: Scenario
    ) -> Outcome:
        """The environment after a command; the machine's request does not count."""
        ...


@dataclass(frozen=True)
class Result:
    """What a client made of a cell, and what it may not have done."""

    cell: Cell
    before: Environment
    after: Outcome
    harms: frozenset[Harm]


@dataclass
class Tally:
    """Cells of a client, and how many have each harm."""

    cells: int = 0
    refused: int = 0
    wrong: int = 0
    by_harm: Counter[Harm] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.cells += 1
        self.refused += isinstance(result.after, Refused)
        self.wrong += bool(result.harms)
        self.by_harm.update(result.harms)


def run(client: Client, world: World, cells: Iterable[Cell], facts: LifeFacts) -> Iterator[Result]:
    """Runs cells in a client; each start is created once.

    A start that the client refuses has no cells.
    """
    started: dict[Start, Outcome] = {}
    for cell in cells:
        start = cell.start
        if start not in started:
            started[start] = client.create(world, Scenario(start.specs, world.subdir, start.driver))
        before = started[start]
        if isinstance(before, Refused):
            continue
        after = client.change(world, before, cell.command, cell.machine(world.subdir))
        yield Result(cell, before, after, judged(facts, cell, before, after))


def judged(facts: LifeFacts, cell: Cell, before: Environment, after: Outcome) -> frozenset[Harm]:
    """What the oracle says of an outcome."""
    state = None if isinstance(after, Refused) else after.state
    change = Change(before.state, state, cell.command.kind, cell.command.specs, cell.driver)
    return frozenset(harms(facts, change))
