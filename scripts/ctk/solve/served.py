"""What machines get of a build: the releases that they need before it, its packages after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.core.console import listing
from ctk.core.errors import BadValue
from ctk.lock.model import ReleaseLock
from ctk.plan.plan import Set, recipes_of, release_for
from ctk.plan.recipes import makers_of
from ctk.solve.channels import planned, write
from ctk.solve.machine import Machine, python_specs
from ctk.solve.solve import Catalogue, Scenario
from ctk.solve.why import find_reason

Toolkits = Callable[[str, Machine], Iterable[str]]
"""The toolkits of the picks for a platform and a machine; "" for a pick without one."""


def refuse_unknown_gpus(gpus: Iterable[str], locks: Iterable[ReleaseLock]) -> None:
    """Raises BadValue for GPUs that no release knows; one that is newer than all may come to be."""
    measured = [lock.facts for lock in locks if lock.facts]
    known = sorted({gpu for facts in measured for gpu in facts.gpu_architectures}, key=Version)
    if not known:
        return
    newest = Version(known[-1])
    unknown = [gpu for gpu in gpus if gpu not in known and Version(gpu) < newest]
    if unknown:
        cause = f"no locked release knows a GPU of compute capability {listing(unknown, 'or')}"
        raise BadValue(cause, f"choose one of {listing(known, 'or')}")


def releases_for(
    machines: Iterable[Machine],
    platforms: Sequence[str],
    locks: Sequence[ReleaseLock],
    packages: Sequence[str] = (),
    toolkits: Toolkits | None = None,
) -> list[str]:
    """The releases that machines get on any of the platforms.

    Args:
        machines: The machines; the platform of each is not looked at.
        platforms: The platforms.
        locks: All releases.
        packages: Named packages, for the error.
        toolkits: If given, a release is that of a pick: PyTorch needs a newer toolkit than a
            driver for 12.4 has.

    Raises:
        BadValue: A machine gets nothing on any of the platforms.
    """
    found: list[str] = []
    for machine in machines:
        minors: list[str] = []
        for platform in platforms:
            own = release_for(locks, platform, machine.driver, machine.arch)
            if own and toolkits:
                minors += [minor or own for minor in toolkits(platform, machine)]
            elif own:
                minors.append(own)
        if not minors:
            runs = f"release with {listing(packages)}" if packages else "release"
            raise BadValue(
                f"no locked {runs} runs on {listing(platforms, 'or')} with {machine.words}",
                "see docs/how-the-right-build-is-picked.md for the drivers and GPUs of each"
                " release",
            )
        found += minors
    return list(dict.fromkeys(found))


def toolkits_of(
    packages: Iterable[str],
    pythons: Iterable[str],
    recipes: Set,
    platforms: Sequence[str],
    workspace: Workspace,
) -> Toolkits:
    """A function that picks named packages, as planned, for a platform and a machine.

    It yields the toolkit of the pick for each Python that has one.
    """
    specs: list[str] = []
    for name in packages:
        if makers_of(name, recipes.recipes):
            specs.append(name)
            continue
        for recipe in recipes_of(recipes, [name]):
            names = recipes.recipes[recipe].output_names
            specs += [output for output in names if "{" not in output]
    own = tuple(specs)
    requests = [own + python_specs(python) for python in pythons]
    if not requests:
        requests = [own]
    folder = workspace.notes / "planned" / "+".join(platforms)
    channels = write(planned(workspace, platforms), folder).folders
    catalogues = {platform: Catalogue(channels, platform) for platform in platforms}

    def toolkits(platform: str, machine: Machine) -> Iterator[str]:
        for request in requests:
            scenario = Scenario(request, platform, machine.driver, machine.arch)
            pick = catalogues[platform].pick(scenario)
            if pick:
                yield pick.toolkit

    return toolkits


@dataclass(frozen=True)
class Served:
    """The packages of a channel that a machine gets, each solved alone."""

    machine: Machine
    subdir: str
    toolkits: Mapping[str, list[str]]  # such as ``13.0 native`` -> the packages that come with it
    refused: list[str]  # packages that cannot be installed there
    why: str = ""  # the cause for the first of these


def served(
    channels: Catalogue, names: Sequence[str], machines: Sequence[Machine]
) -> Iterator[Served]:
    """Solves packages on machines; a package that comes without a toolkit is in no list."""

    def scenario(name: str, machine: Machine) -> Scenario:
        return Scenario((name,), channels.subdir, machine.driver, machine.arch)

    channels.ask(scenario(name, machine) for machine in machines for name in names)
    for machine in machines:
        toolkits: dict[str, list[str]] = defaultdict(list)
        refused = []
        for name in names:
            pick = channels.pick(scenario(name, machine))
            if pick is None:
                refused.append(name)
            elif pick.toolkit:
                toolkits[f"{pick.toolkit} {pick.fit}".strip()].append(name)
        why = find_reason(scenario(refused[0], machine), channels).cause if refused else ""
        yield Served(machine, channels.subdir, toolkits, refused, why)
