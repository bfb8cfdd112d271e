"""The fewest environments that serve each kind of machine in a fleet.

An environment serves a machine if all its packages install there (driver, GPU, glibc ...), if it is
native or the machine cannot have a native toolkit, and if no package is a CPU build where the
machine alone would get a CUDA build.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations, product

from rattler import GenericVirtualPackage, Version, VersionSpec

from ctk.core.errors import BadValue
from ctk.solve.advice import asking_for_cuda
from ctk.solve.machine import GLIBC, Machine, machine
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
from ctk.solve.why import cpu_instead

Group = frozenset[Machine]


# --- the machines


def pairs(drivers: str, archs: str | None, platform: str | None) -> list[Machine]:
    """Every driver with every GPU, from lists such as ``12.4,13.0``.

    ``12.4:7.0`` is a driver with this GPU only.
    The driver ``none`` has no GPU.

    Raises:
        BadValue: A driver or a GPU cannot be read, a list is empty, or all drivers have a GPU and
            others are listed.
    """
    listed, gpus = (re.findall(r"[^\s,]+", text) for text in (drivers, archs or ""))
    if not listed or (archs is not None and not gpus):
        raise BadValue(
            "there are no machines", "list them, such as --drivers 12.4,13.0 --archs 7.0,9.0"
        )
    if gpus and all(":" in text for text in listed):
        raise BadValue(
            f"each driver has a GPU already, and none is left for {archs}",
            "leave out the one or the other",
        )
    found = [
        (driver, gpu)
        for driver, colon, own in (text.partition(":") for text in listed)
        for gpu in ([own] if colon else gpus or [None])
    ]
    return list(
        dict.fromkeys(machine(platform, d, None if d.lower() == "none" else a) for d, a in found)
    )


# --- the environments


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
        driver = bool(self.pick.scenario.driver) and all(on.driver for on in self.machines)
        return (*request, "__cuda") if driver and not {"__cuda", *ASKING} & {*request} else request

    @property
    def toolkit(self) -> str:
        """``toolkit 12.9 native``."""
        return (
            f"toolkit {self.pick.toolkit} {self.pick.fit}".rstrip()
            if self.pick.toolkit
            else "no CUDA toolkit"
        )

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which any client solves it on any host."""
        stated = self.pick.scenario
        found = {"CONDA_OVERRIDE_CUDA": stated.driver or ""}
        if stated.arch:
            found["CONDA_OVERRIDE_CUDA_ARCH"] = stated.arch
        if os.environ.get(GLIBC):
            found[GLIBC] = os.environ[GLIBC]
        return found

    def typed(self, command: str) -> str:
        """A command for a shell, with these variables before it."""
        return " ".join(
            [
                *(f"{name}={value or shlex.quote('')}" for name, value in self.variables.items()),
                command,
            ]
        )


@dataclass(frozen=True)
class Fleet:
    """The pick of each kind of machine alone (None without a solution), and the environments that
    serve all of them.
    """

    request: tuple[str, ...]
    alone: Mapping[Machine, Pick | None]
    environments: tuple[Environment, ...]
    catalogue: Catalogue

    def environment(self, on: Machine) -> Environment | None:
        return next((e for e in self.environments if on in e.machines), None)


def installs(pick: Pick, on: Machine) -> bool:
    """Whether the virtual packages of a machine satisfy all packages of a pick."""
    has = {
        p.name.normalized: p for p in Scenario((), on.subdir, on.driver, on.arch).virtual_packages
    }
    for record in pick.records:
        needs = [spec_of_record(rule) for rule in record.depends if rule.startswith("__")]
        bounds = [spec_of_record(rule) for rule in record.constrains if rule.startswith("__")]
        bounds = [rule for rule in bounds if rule.name in has]
        if not all(rule.name in has and _fits(rule, has[rule.name]) for rule in (*needs, *bounds)):
            return False
    return True


def _fits(rule: Spec, package: GenericVirtualPackage) -> bool:
    version_fits = VersionSpec(rule.version or "*").matches(package.version)
    return version_fits and fnmatchcase(str(package.build_string), rule.build or "*")


def serves(pick: Pick, on: Machine, alone: Pick) -> bool:
    """Whether a machine gets the same with a pick as alone, except for the minor of the toolkit.

    It is native if the pick alone is, and has no CPU build of a package that is a CUDA build alone.
    """
    # compat cuda-version needs no driver, so it looks like a CPU build.
    same_kind = not set(cpu_instead(alone, pick)) - {"cuda-version"}
    return (pick.fit == "native" or alone.fit != "native") and installs(pick, on) and same_kind


def find_fleet(specs: Sequence[str], kinds: Iterable[Machine], channels: Catalogue) -> Fleet:
    """The fewest environments that serve all machines.

    Of several such sets, the set with the newest toolkits. The result is exact among the picks for
    each driver of a machine or a toolkit, with each GPU or without one. A machine without a
    solution is in no environment.
    """
    kinds = tuple(kinds)
    stated = tuple(specs)
    specs = _with_cuda_gpu(stated, kinds, channels)
    names = {parse_spec(spec).name for spec in (*specs, "cuda-version")}
    may_last = specs != stated
    if may_last:
        names.add(ASKS_NATIVE)
    catalogue = channels.grouped(names)
    scenarios = {on: Scenario(specs, on.subdir, on.driver, on.arch) for on in kinds}
    candidates = _candidates(specs, kinds, catalogue)
    catalogue.ask([*scenarios.values(), *candidates])
    alone = {on: catalogue.pick(scenario) for on, scenario in scenarios.items()}
    groups: dict[Group, Pick] = {}
    rank = {toolkit.version: -place for place, toolkit in enumerate(catalogue.toolkits, start=1)}

    def newness(pick: Pick) -> int:
        return rank.get(pick.toolkit, -len(rank) - 1)

    for pick in filter(None, map(catalogue.pick, candidates)):
        group = frozenset(on for on, own in alone.items() if own and serves(pick, on, own))
        if group and (group not in groups or newness(groups[group]) < newness(pick)):
            groups[group] = pick
    cover = _cover(frozenset(on for on, own in alone.items() if own), groups, newness)
    shares: dict[Group, list[Machine]] = {group: [] for group in cover}
    for on in kinds:
        if alone[on]:
            shares[max((g for g in cover if on in g), key=lambda g: newness(groups[g]))].append(on)
    found: list[Environment] = []
    for group, share in shares.items():
        if share:
            pick = groups[group]
            if may_last:
                pick = _that_lasts(pick, catalogue)
            found.append(_environment(pick, tuple(share), catalogue, [e.name for e in found]))
    return Fleet(specs, alone, tuple(found), catalogue)


def _with_cuda_gpu(
    specs: tuple[str, ...], kinds: Sequence[Machine], channels: Catalogue
) -> tuple[str, ...]:
    """The request with `ASKS` first, if all machines have a driver and `ASKS` makes no machine lose
    its solution.
    """
    asking = (ASKS, *specs)
    if any(parse_spec(spec).name in ASKING for spec in specs) or not channels.records(ASKS):
        return specs
    bare = [Scenario(specs, on.subdir, on.driver, on.arch) for on in kinds]
    is_free = all(
        s.driver and (channels.solves(s, specs=asking) or not channels.solves(s)) for s in bare
    )
    return asking if is_free else specs


def _that_lasts(pick: Pick, catalogue: Catalogue) -> Pick:
    """A native pick with `ASKS_NATIVE` in place of `ASKS`, if the rest of it is the same: later
    commands keep it so.
    """
    if pick.fit != "native":
        return pick
    found = catalogue.pick(asking_for_cuda(pick.scenario, catalogue))
    if found is None or _files(found, but=ASKS_NATIVE) != _files(pick):
        return pick
    return found


def _candidates(
    specs: tuple[str, ...], kinds: Sequence[Machine], catalogue: Catalogue
) -> list[Scenario]:
    """The machines to state to a solver, first without a GPU and with old drivers: the first with a
    pick is taken.
    """
    stated = sorted({on.driver for on in kinds if on.driver}, key=Version)
    toolkits = [
        t.driver
        for t in catalogue.toolkits
        if t.driver and stated and not older(stated[-1], t.driver)
    ]
    drivers = [*([None] if any(not on.driver for on in kinds) else []), *stated, *toolkits]
    archs = [None, *sorted({on.arch for on in kinds if on.arch}, key=Version)]
    stated_pairs = product(archs, drivers)
    return [
        Scenario(specs, catalogue.subdir, driver, arch)
        for arch, driver in stated_pairs
        if driver or not arch
    ]


def _cover(
    every: Group, groups: Mapping[Group, Pick], newness: Callable[[Pick], int]
) -> list[Group]:
    """The fewest groups that have all machines.

    Of several such sets, the set with the newest toolkits.
    """
    best: tuple[int, list[Group]] | None = None
    for size in range(1, len(every) + 1):
        for some in combinations(groups, size):
            if frozenset().union(*some) == every:
                value = sum(max(newness(groups[g]) for g in some if on in g) for on in every)
                if best is None or value > best[0]:
                    best = value, list(some)
        if best:
            return sorted(best[1], key=lambda g: newness(groups[g]))
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
    if archs := [on.arch for on in share if on.arch]:
        seen = catalogue.pick(replace(pick.scenario, arch=min(archs, key=Version)))
        pick = seen if seen and _files(seen) == _files(pick) else pick
    return Environment(name, pick, share, every_client)


def _files(pick: Pick, but: str = "") -> set[str]:
    """The files of a pick without those of one package."""
    return {record.file_name for record in pick.records if record.name.normalized != but}
