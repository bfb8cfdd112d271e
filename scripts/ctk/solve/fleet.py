"""The fewest environments that serve each kind of machine in a fleet.

An environment serves a machine if all its packages install there (driver, GPU, glibc ...), if it is
native or the machine cannot have a native toolkit, and if no package is a CPU build where the
machine alone would get a CUDA build.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations, product

from rattler import GenericVirtualPackage, Version, VersionSpec

from ctk.solve.advice import asking_for_cuda
from ctk.solve.change import cpu_instead
from ctk.solve.machine import ARCH, DRIVER, GLIBC, Machine
from ctk.solve.solve import (
    ASKING,
    ASKS,
    ASKS_NATIVE,
    Catalogue,
    Pick,
    Scenario,
    Spec,
    older,
    parse_spec,
    spec_of_record,
)

Group = frozenset[Machine]


@dataclass(frozen=True)
class Environment:
    """An environment of a fleet.

    Attributes:
        name: ``cuda-12.9``, ``cuda-13.5-compat``.
        pick: Its packages; the scenario has the specs, the driver and the GPU to state to a client.
        machines: The machines that get it.
        every_client: Whether it was solved without a GPU, so that a client that does not detect
            GPUs picks the same.
    """

    name: str
    pick: Pick
    machines: tuple[Machine, ...]
    every_client: bool

    @property
    def specs(self) -> tuple[str, ...]:
        """The request.

        With ``__cuda`` if all machines have a driver, because some clients ignore it otherwise.
        """
        request = self.pick.scenario.specs
        have_driver = all(machine.driver for machine in self.machines)
        if not self.pick.scenario.driver or not have_driver:
            return request
        if {"__cuda", *ASKING} & set(request):
            return request
        return (*request, "__cuda")

    @property
    def toolkit(self) -> str:
        """``toolkit 12.9 native``."""
        if not self.pick.toolkit:
            return "no CUDA toolkit"
        return f"toolkit {self.pick.toolkit} {self.pick.fit}".rstrip()

    @property
    def states_gpu(self) -> bool:
        """Whether a GPU is stated to clients."""
        return ARCH in self.variables

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which any client solves it on any host."""
        stated = self.pick.scenario
        found = {DRIVER: stated.driver or ""}
        if stated.arch:
            found[ARCH] = stated.arch
        if os.environ.get(GLIBC):
            found[GLIBC] = os.environ[GLIBC]
        return found

    def typed(self, command: str) -> str:
        """A command for a shell, with these variables before it."""
        words = [f"{name}={value or shlex.quote('')}" for name, value in self.variables.items()]
        return " ".join([*words, command])


@dataclass(frozen=True)
class Fleet:
    """What the machines of a fleet get.

    Attributes:
        request: The specs, with `ASKS` if that is free.
        alone: The pick of each kind of machine alone; None without a solution.
        environments: Those that serve all of them.
        catalogue: The channels.
    """

    request: tuple[str, ...]
    alone: Mapping[Machine, Pick | None]
    environments: tuple[Environment, ...]
    catalogue: Catalogue

    def environment(self, machine: Machine) -> Environment | None:
        return next((e for e in self.environments if machine in e.machines), None)


def installs(pick: Pick, machine: Machine) -> bool:
    """Whether the virtual packages of a machine satisfy all packages of a pick."""
    packages = _scenario((), machine).virtual_packages
    has = {package.name.normalized: package for package in packages}
    for record in pick.records:
        needs = [spec_of_record(rule) for rule in record.depends if rule.startswith("__")]
        bounds = [spec_of_record(rule) for rule in record.constrains if rule.startswith("__")]
        if any(rule.name not in has for rule in needs):
            return False
        rules = [rule for rule in needs + bounds if rule.name in has]
        if not all(_fits(rule, has[rule.name]) for rule in rules):
            return False
    return True


def _scenario(specs: tuple[str, ...], machine: Machine) -> Scenario:
    return Scenario(specs, machine.subdir, machine.driver, machine.arch)


def _fits(rule: Spec, package: GenericVirtualPackage) -> bool:
    version_fits = VersionSpec(rule.version or "*").matches(package.version)
    return version_fits and fnmatchcase(str(package.build_string), rule.build or "*")


def serves(pick: Pick, machine: Machine, alone: Pick) -> bool:
    """Whether a machine gets the same with a pick as alone, except for the minor of the toolkit.

    It is native if the pick alone is, and has no CPU build of a package that is a CUDA build alone.
    """
    if pick.fit != "native" and alone.fit == "native":
        return False
    # compat cuda-version needs no driver, so it looks like a CPU build.
    cpu = set(cpu_instead(alone, pick)) - {"cuda-version"}
    return not cpu and installs(pick, machine)


def find_fleet(specs: Sequence[str], machines: Iterable[Machine], channels: Catalogue) -> Fleet:
    """The fewest environments that serve all machines.

    Of several such sets, the set with the newest toolkits. The result is exact among the picks for
    each driver of a machine or a toolkit, with each GPU or without one. A machine without a
    solution is in no environment.
    """
    machines, stated = tuple(machines), tuple(specs)
    request = _with_cuda_gpu(stated, machines, channels)
    is_asking = request != stated  # then a native environment is made so that it stays native
    names = {parse_spec(spec).name for spec in (*request, "cuda-version")}
    if is_asking:
        names.add(ASKS_NATIVE)
    catalogue = channels.grouped(names)
    alone, candidates = _picks(request, machines, catalogue)
    newness = _newness(catalogue)
    groups = _groups(candidates, alone, newness)
    served = [machine for machine, own in alone.items() if own]
    cover = _cover(frozenset(served), groups, newness)
    shares: dict[Group, list[Machine]] = {group: [] for group in cover}
    for machine in served:
        having = [group for group in cover if machine in group]
        shares[max(having, key=lambda group: newness(groups[group]))].append(machine)
    found: list[Environment] = []
    for group, share in shares.items():
        if share:
            pick = _that_lasts(groups[group], catalogue) if is_asking else groups[group]
            taken = [environment.name for environment in found]
            found.append(_environment(pick, tuple(share), catalogue, taken))
    return Fleet(request, alone, tuple(found), catalogue)


def _picks(
    request: tuple[str, ...], machines: Sequence[Machine], catalogue: Catalogue
) -> tuple[dict[Machine, Pick | None], list[Pick]]:
    """The pick of each machine alone, and those that an environment may have."""
    scenarios = {machine: _scenario(request, machine) for machine in machines}
    candidates = _candidates(request, machines, catalogue)
    catalogue.ask([*scenarios.values(), *candidates])
    alone = {machine: catalogue.pick(scenario) for machine, scenario in scenarios.items()}
    picks = map(catalogue.pick, candidates)
    return alone, [pick for pick in picks if pick]


def _newness(catalogue: Catalogue) -> Callable[[Pick], int]:
    """A number for each pick that is higher for a newer toolkit, and the lowest without one."""
    toolkits = [toolkit.version for toolkit in catalogue.toolkits]
    rank = {version: -place for place, version in enumerate(toolkits, start=1)}
    return lambda pick: rank.get(pick.toolkit, -len(rank) - 1)


def _groups(
    candidates: Iterable[Pick],
    alone: Mapping[Machine, Pick | None],
    newness: Callable[[Pick], int],
) -> dict[Group, Pick]:
    """Groups of machines that a pick serves, each with the newest such pick."""
    groups: dict[Group, Pick] = {}
    for pick in candidates:
        group = frozenset(
            machine for machine, own in alone.items() if own and serves(pick, machine, own)
        )
        if not group:
            continue
        if group not in groups or newness(groups[group]) < newness(pick):
            groups[group] = pick
    return groups


def _with_cuda_gpu(
    specs: tuple[str, ...], machines: Sequence[Machine], channels: Catalogue
) -> tuple[str, ...]:
    """The request with `ASKS` first, where that is free.

    It is if all machines have a driver, and no machine loses its solution by it.
    """
    if any(parse_spec(spec).name in ASKING for spec in specs) or not channels.records(ASKS):
        return specs
    asking = (ASKS, *specs)
    for machine in machines:
        scenario = _scenario(specs, machine)
        if not machine.driver:
            return specs
        if not channels.solves(scenario, specs=asking) and channels.solves(scenario):
            return specs
    return asking


def _that_lasts(pick: Pick, catalogue: Catalogue) -> Pick:
    """A native pick with `ASKS_NATIVE` in place of `ASKS`, if the rest of it is the same.

    Later commands keep it native then.
    """
    if pick.fit != "native":
        return pick
    found = catalogue.pick(asking_for_cuda(pick.scenario, catalogue))
    if found is None or _files(found, but=ASKS_NATIVE) != _files(pick):
        return pick
    return found


def _candidates(
    specs: tuple[str, ...], machines: Sequence[Machine], catalogue: Catalogue
) -> list[Scenario]:
    """The machines to state to a solver.

    First without a GPU and with old drivers: the first with a pick is taken.
    """
    stated = sorted({machine.driver for machine in machines if machine.driver}, key=Version)
    needed = [toolkit.driver for toolkit in catalogue.toolkits if toolkit.driver and stated]
    toolkits = [driver for driver in needed if not older(stated[-1], driver)]
    without_driver = [None] if any(not machine.driver for machine in machines) else []
    gpus = sorted({machine.arch for machine in machines if machine.arch}, key=Version)
    scenarios = [
        Scenario(specs, catalogue.subdir, driver, arch)
        for arch, driver in product([None, *gpus], [*without_driver, *stated, *toolkits])
    ]
    return [scenario for scenario in scenarios if scenario.driver or not scenario.arch]


def _cover(
    every: Group, groups: Mapping[Group, Pick], newness: Callable[[Pick], int]
) -> list[Group]:
    """The fewest groups that have all machines.

    Of several such sets, the set with the newest toolkits.
    """

    def value(chosen: Sequence[Group]) -> int:
        """The newness of what each machine gets, together."""
        return sum(
            max(newness(groups[group]) for group in chosen if machine in group) for machine in every
        )

    for size in range(1, len(every) + 1):
        covers = [
            chosen for chosen in combinations(groups, size) if frozenset().union(*chosen) == every
        ]
        if covers:
            best = max(covers, key=value)
            return sorted(best, key=lambda group: newness(groups[group]))
    return []


def _environment(
    pick: Pick, share: tuple[Machine, ...], catalogue: Catalogue, taken: Sequence[str]
) -> Environment:
    """Names an environment, and states its oldest GPU to clients that would detect another GPU."""
    name = f"cuda-{pick.toolkit}" if pick.toolkit else "environment"
    name += "-compat" if pick.fit == "compat" else ""
    while name in taken:
        name += "-2"
    every_client = not pick.scenario.arch
    if gpus := [machine.arch for machine in share if machine.arch]:
        stated = catalogue.pick(replace(pick.scenario, arch=min(gpus, key=Version)))
        if stated and _files(stated) == _files(pick):
            pick = stated
    return Environment(name, pick, share, every_client)


def _files(pick: Pick, but: str = "") -> set[str]:
    """The files of a pick without those of one package."""
    return {record.file_name for record in pick.records if record.name.normalized != but}
