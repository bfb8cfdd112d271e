"""`ctk solve` for many machines: every machine, with --everywhere, or those of a fleet, with
--drivers.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import MachinesLost, Unsolvable, check_names
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform

if TYPE_CHECKING:
    from ctk.authors.installable import Survey
    from ctk.solve.fleet import Environment, Fleet
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Catalogue, Pick

# --- a fleet


def stated_machines(
    drivers: str, archs: str | None, platform: str | None
) -> tuple[list[Machine], list[str]]:
    """The machines that options state, and notes about pairs that cannot exist, which are
    left out.
    """
    from ctk.solve.fleet import pairs
    from ctk.solve.machine import check_possible, impossible

    stated = pairs(drivers, archs, platform)
    excluded = [on for on in stated if impossible(on.driver, on.arch)]
    check_possible(*((on.driver, on.arch) for on in stated))
    listed = "; ".join(on.words for on in excluded)
    notes = [f"left out, since no such driver runs the GPU: {listed}"] if excluded else []
    return [on for on in stated if on not in excluded], notes


def show_fleet(
    fleet: Fleet,
    notes: Sequence[str],
    addresses: Sequence[str],
    named: Sequence[str],
    report: Reporter,
) -> None:
    """Prints the environments of a fleet.

    `named` are the options that name the channels at these addresses.

    Raises:
        Unsolvable: Some machines get nothing; the environments of the others were shown.
    """
    from ctk.solve.solve import Scenario
    from ctk.solve.why import find_reason

    refused = [on for on, pick in fleet.alone.items() if pick is None]
    if served := len(fleet.alone) - len(refused):
        number = len(fleet.environments)
        machines = f"{served} kinds of machines" if served > 1 else "1 kind of machine"
        report.line(
            f"{count(number, 'environment')} serve{'s' if number == 1 else ''} {machines}", "bold"
        )
        _show_machines(fleet, report)
    for environment in fleet.environments:
        _show_environment(environment, addresses, named, report)
    notes = [*notes, *_notes(fleet)]
    for line in notes:
        report.line(line)
    report.result(
        request=list(fleet.request),
        machines=[_machine_as_json(fleet, on) for on in fleet.alone],
        environments=[
            _environment_as_json(environment, addresses) for environment in fleet.environments
        ],
        notes=notes,
    )
    if refused:
        on = refused[0]
        sentence, step = find_reason(
            Scenario(fleet.request, on.subdir, on.driver, on.arch), fleet.catalogue
        )
        whose = f"{len(refused)} of {len(fleet.alone)} kinds of machines get nothing; {on.words}: "
        raise Unsolvable(f"{whose if fleet.alone.keys() - {on} else ''}{sentence}", step)


def _notes(fleet: Fleet) -> list[str]:
    """The machines that get a compat toolkit, and the packages that other clients may
    pick instead.
    """
    from ctk.solve.solve import Scenario
    from ctk.solve.why import choices, newer_nvjitlink, toolkit_in_words

    lines = []
    for environment in fleet.environments:
        limits: dict[str, list[str]] = {}
        for on in environment.machines if environment.pick.fit == "compat" else ():
            there = replace(environment.pick, scenario=Scenario((), on.subdir, on.driver, on.arch))
            limits.setdefault(toolkit_in_words(there, fleet.catalogue), []).append(on.words)
        lines += [f"{'; '.join(machines)}: {words}" for words, machines in limits.items()]
        said = (
            *(line for line, _ in choices(environment.pick, fleet.catalogue)),
            *newer_nvjitlink(environment.pick.records, environment.pick.scenario.specs),
        )
        lines += [f"{environment.name}: {line}" for line in said]
    if any(
        "CONDA_OVERRIDE_CUDA_ARCH" in environment.variables for environment in fleet.environments
    ):
        lines.append(
            "CONDA_OVERRIDE_CUDA_ARCH matters where you type this on a machine with another GPU, to"
            " a client that detects it, such as conda with its plugin; mamba does not read it"
        )
    return lines


def _show_machines(fleet: Fleet, report: Reporter) -> None:
    rows = []
    for on, own in fleet.alone.items():
        environment = fleet.environment(on)
        row = (
            [environment.name, environment.pick.toolkit, environment.pick.fit]
            if environment
            else ["none", "", ""]
        )
        alone = f"{own.toolkit} {own.fit}".strip() if own else ""
        rows.append((on.driver or "none", on.arch or "", *row, alone))
    columns = ["driver", "GPU", "environment", "toolkit", "fit", "alone it would get"]
    report.table("what each machine gets", columns, rows)


def _show_environment(
    environment: Environment, addresses: Sequence[str], named: Sequence[str], report: Reporter
) -> None:
    """Prints an environment, and the commands that create it on any machine."""
    pick = environment.pick
    size = f", {megabytes(pick.size)} MB" if pick.size else ""
    packages = count(len(pick.records), "package")
    report.line(
        f"{environment.name} ({environment.toolkit}; {packages}{size}), made on any machine with:"
    )
    channels = [word for address in addresses for word in ("-c", address)]
    words = [
        "conda",
        "create",
        "-n",
        environment.name,
        *channels,
        "--strict-channel-priority",
        *environment.specs,
    ]
    report.line(f"  {environment.typed(shlex.join(words))}")
    on = pick.scenario
    if on.subdir == this_platform():
        stated = [
            "--driver",
            on.driver or "none",
            *(["--arch", on.arch] if on.arch else []),
            *named,
        ]
        words = ["ctk", "env", "create", *on.specs, *stated, "--prefix", f"./{environment.name}"]
        report.line(f"or, without conda:\n  {shlex.join(words)}")
    if not environment.every_client:
        report.line(
            "  only a client that knows the GPU picks this: pixi, and conda with its plugin; mamba"
            " does not"
        )


def _toolkit(pick: Pick) -> dict[str, Any]:
    return {"toolkit": pick.toolkit or None, "fit": pick.fit or None}


def _machine_as_json(fleet: Fleet, on: Machine) -> dict[str, Any]:
    environment, own = fleet.environment(on), fleet.alone[on]
    return {
        "platform": on.subdir,
        "driver": on.driver,
        "gpu": on.arch,
        "environment": environment and environment.name,
        "alone": own and _toolkit(own),
    }


def _environment_as_json(environment: Environment, addresses: Sequence[str]) -> dict[str, Any]:
    return {
        "name": environment.name,
        **_toolkit(environment.pick),
        "variables": environment.variables,
        "specs": environment.specs,
        "channels": addresses,
        "every_client": environment.every_client,
        "files": sorted(record.file_name for record in environment.pick.records),
    }


# --- every machine


def show_everywhere(
    specs: Sequence[str],
    pins: Sequence[str],
    catalogues: Iterable[Catalogue],
    where: Workspace,
    report: Reporter,
) -> None:
    """Prints on which drivers, GPUs and platforms a request installs, and the changes by its pins.

    Raises:
        Unsolvable: It installs on no machine.
        MachinesLost: With the pins, machines lose it; all was shown before.
    """
    from ctk.authors.installable import alike, take_survey
    from ctk.lock.model import release_locks
    from ctk.verify.scenarios import facts, matrix

    every = matrix(facts(release_locks(where).values()), ())
    surveys = [take_survey(specs, pins, channels, every) for channels in catalogues]
    report.result(
        request=list(specs), pins=list(pins), surveys=[survey.as_json() for survey in surveys]
    )
    _show(alike(surveys), pins, report)
    _judge(surveys, pins)


def of_each_platform(
    platforms: Sequence[str],
    as_planned: bool,
    catalogue: Callable[..., Catalogue],
    report: Reporter,
) -> Iterator[Catalogue]:
    """The channels for each platform, by default for all that they have packages for."""
    from ctk.solve.solve import Catalogue

    check_names("platform", platforms, PLATFORMS)
    here = catalogue(this_platform(), report if as_planned else None)
    for subdir in platforms or _offered(here):
        # The plan has all platforms; else it stands in for a platform that was not built.
        yield (
            Catalogue(here.channels, subdir, here.gateway, here.maker)
            if as_planned
            else catalogue(subdir, report)
        )


def _offered(channels: Catalogue) -> list[str]:
    """The platforms for which the channels above the base channel have packages."""
    own = channels.channels[:-1]
    offered = [subdir for subdir in PLATFORMS if channels.names([subdir], own)]
    if not offered and not channels.names([NOARCH], own):
        step = (
            "name another --channel"
            if channels.is_named
            else "build them, or name another --channel"
        )
        raise Unsolvable(f"there are no packages in {listing([*map(str, own)])}", step)
    return offered or [this_platform()]


def _judge(surveys: Sequence[Survey], pins: Sequence[str]) -> None:
    """Ends the run with an error if the request installs nowhere, or machines lose it."""
    first = surveys[0]
    if not any(survey.today.installs for survey in surveys):
        sentence, step = first.today.reason((first.every.drivers[-1], None))
        where = f"{first.asked} installs on no machine: "
        raise Unsolvable(sentence if first.asked in sentence else f"{where}{sentence}", step)
    lost = [(len(machines), survey) for survey in surveys if (machines := survey.lost)]
    if lost:
        pairs = [
            (f"{count(number, 'pair')} of driver and GPU on {s.subdir}", s.asked)
            for number, s in lost
        ]
        losses = listing([f"{where} would lose {asked}" for where, asked in pairs])
        raise MachinesLost(
            f"with {listing(pins)}, {losses}",
            "loosen the pin, or keep a build without it beside this one",
        )


def _show(groups: Sequence[Sequence[Survey]], pins: Sequence[str], report: Reporter) -> None:
    """Prints on how many drivers and GPUs the request installs, what each of them gets, and its
    builds.
    """
    for group in groups:
        first = group[0]
        place = listing([survey.subdir for survey in group])
        report.line(f"{first.asked} on {place}", "bold")
        for sentence in first.sentences:
            report.line(f"- {sentence}")
        for case in (case for case in first.cases if case.installs):
            pinned = (
                f", with {listing(pins)} (*: another kind than without)"
                if case is first.pinned
                else ""
            )
            columns, rows = first.table(case)
            report.table(
                f"{first.asked} on {place}{pinned}", [c.replace(", ", ",\n") for c in columns], rows
            )
        builds = [(s.subdir, *row) for s in group for row in s.builds(s.pinned or s.today)]
        if builds:
            title = f"builds of {first.asked}{f', with {listing(pins)}' if pins else ''}"
            columns = ("platform", "build", "kind", "toolkits", "pairs")
            skip = 0 if group[1:] else 1  # the platform, if there are several
            report.table(title, columns[skip:], [row[skip:] for row in builds], right=["pairs"])
