"""`ctk solve` for many machines: every one, with --everywhere, or a fleet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctk.authors.installable import Case, Survey, alike, take_survey
from ctk.cli.work.picks import ChannelOptions, names_to_build, reason_for_programs
from ctk.core.checkout import Workspace, base_channel, known_workspace, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import MachinesLost, Unsolvable, refuse_unknown_names
from ctk.core.platforms import NOARCH, PLATFORMS, this_platform
from ctk.lock.model import release_locks
from ctk.solve.advice import Checkout, CheckoutCatalogue, checkout_of, not_built
from ctk.solve.builds import choices
from ctk.solve.fleet import Environment, Fleet, find_fleet
from ctk.solve.machine import Machine, impossible, pairs, refuse_impossible
from ctk.solve.reason import Kind
from ctk.solve.solve import (
    ASKING,
    Catalogue,
    Pick,
    Scenario,
    channel_url,
    lasting,
    older,
    parse_spec,
)
from ctk.solve.why import find_reason, newer_nvjitlink, toolkit_in_words
from ctk.verify.scenarios import facts, matrix

# --- a fleet


@dataclass(frozen=True)
class Named:
    """How the channels of a fleet are named.

    Attributes:
        addresses: The channels as conda's -c takes them.
        options: The options of ctk for the same.
    """

    addresses: tuple[str, ...]
    options: tuple[str, ...]

    @classmethod
    def of(cls, options: ChannelOptions, workspace: Workspace, base: str) -> Named:
        # Of what is planned, the address that it will have; packages are not there yet.
        places = [base_channel(name, workspace) for name in options.channels]
        places = [*(places or [workspace.channel]), base_channel(base, workspace)]
        words = [word for name in options.channels for word in ("--channel", name)]
        if base != "local":
            words += ["--base", base]
        return cls(tuple(lasting(channel_url(place)) for place in places), tuple(words))


def solve_fleet(specs: tuple[str, ...], stated: StatedMachines, options: ChannelOptions) -> None:
    """Shows the fewest environments that serve all machines of a fleet."""
    report, place = Reporter(), workspace()
    kinds = stated.machines
    channels = options.catalogue(place, kinds[0].subdir, report)
    named = Named.of(options, place, options.base_in(place))
    with reason_for_programs():
        fleet = find_fleet(specs, kinds, channels)
        _show_fleet(fleet, _lacking(fleet, place), stated.notes, named, report)


def _lacking(fleet: Fleet, place: Workspace) -> dict[Machine, str]:
    """Machine -> the toolkit that would be native there, and that this checkout has not built."""
    if place.channel not in fleet.catalogue.channels:
        return {}
    locks = release_locks(place).values()
    found = {}
    for machine, pick in fleet.alone.items():
        toolkit = not_built(pick, locks, fleet.catalogue) if pick else ""
        if toolkit:
            found[machine] = toolkit
    return found


@dataclass(frozen=True)
class StatedMachines:
    """The machines that options state, without those that cannot exist, and notes about these."""

    machines: list[Machine]
    notes: list[str]


def stated_machines(
    drivers: Sequence[str], archs: Sequence[str], platform: str | None
) -> StatedMachines:
    """The machines of --driver, --arch and --platform."""
    stated = pairs(drivers, archs, platform)
    refuse_impossible(*((machine.driver, machine.arch) for machine in stated))
    excluded = [machine for machine in stated if impossible(machine.driver, machine.arch)]
    if not excluded:
        return StatedMachines(stated, [])
    listed = "; ".join(machine.words for machine in excluded)
    note = f"left out, because no such driver supports the GPU: {listed}"
    possible = [machine for machine in stated if machine not in excluded]
    return StatedMachines(possible, [note])


def _show_fleet(
    fleet: Fleet,
    lacking: Mapping[Machine, str],
    notes: Sequence[str],
    named: Named,
    report: Reporter,
) -> None:
    """Prints the environments of a fleet.

    Raises:
        Unsolvable: Some machines get nothing; the environments of the others were shown.
    """
    refused = [machine for machine, pick in fleet.alone.items() if pick is None]
    served = len(fleet.alone) - len(refused)
    if served:
        environments = count(len(fleet.environments), "environment")
        serve = "serves" if len(fleet.environments) == 1 else "serve"
        machines = f"{served} kinds of machines" if served > 1 else "1 kind of machine"
        report.line(f"{environments} {serve} {machines}", "bold")
        _show_machines(fleet, report)
    for environment in fleet.environments:
        _show_environment(environment, named, report)
    said = [*notes]
    said += _notes(fleet)
    said += _what_to_build(fleet, lacking)
    for line in said:
        report.line(line)
    report.result(
        request=list(fleet.request),
        machines=[_machine_as_json(fleet, machine, lacking) for machine in fleet.alone],
        environments=[_environment_as_json(e, named) for e in fleet.environments],
        notes=said,
    )
    if refused:
        raise _nothing_for(refused, fleet)


def _nothing_for(refused: Sequence[Machine], fleet: Fleet) -> Unsolvable:
    """The error for machines of a fleet that get nothing, with the reason for the first."""
    first = refused[0]
    scenario = Scenario(fleet.request, first.subdir, first.driver, first.arch)
    reason = find_reason(scenario, fleet.catalogue)
    whose = ""
    if len(fleet.alone) > 1:
        kinds = f"{len(refused)} of {len(fleet.alone)} kinds of machines"
        whose = f"{kinds} get nothing; {first.words}: "
    step = reason.step
    if whose and reason.kind is Kind.NOT_BUILT:  # its step is for the first machine
        step = f"run {_build_for_all(fleet)}"
    return Unsolvable(f"{whose}{reason.cause}", step, kind=reason.kind)


def _notes(fleet: Fleet) -> list[str]:
    """The machines that get a compat toolkit, and what other clients may pick instead."""
    lines = []
    for environment in fleet.environments:
        if environment.pick.fit == "compat":
            lines += _compat_machines(environment, fleet.catalogue)
        lines += _older_than_alone(environment, fleet)
        pick = environment.pick
        sentences = [choice.line for choice in choices(pick, fleet.catalogue)]
        sentences += newer_nvjitlink(pick.records, pick.scenario.specs, pick.scenario.driver)
        lines += [f"{environment.name}: {sentence}" for sentence in sentences]
    if any(environment.states_gpu for environment in fleet.environments):
        lines.append(
            "CONDA_OVERRIDE_CUDA_ARCH matters where you type this on a machine with another GPU, to"
            " a client that detects it, such as conda with its plugin; mamba does not read it"
        )
    return lines


def _older_than_alone(environment: Environment, fleet: Fleet) -> list[str]:
    """The machines that would get a newer toolkit if they did not share an environment."""
    shared = environment.pick.toolkit
    newer: dict[str, list[str]] = {}
    for machine in environment.machines:
        own = fleet.alone[machine]
        if own and shared and own.toolkit and older(shared, own.toolkit):
            newer.setdefault(own.toolkit, []).append(machine.words)
    return [
        f"{'; '.join(machines)}: {environment.name} has toolkit {shared} here, so that fewer"
        f" environments serve all machines; on its own, such a machine gets {toolkit}"
        for toolkit, machines in newer.items()
    ]


def _what_to_build(fleet: Fleet, lacking: Mapping[Machine, str]) -> list[str]:
    """The toolkits that machines of a fleet lack, and the line that builds for all of it."""
    lines = [
        f"{machine.words}: toolkit {toolkit} would be native, but is not built here"
        for machine, toolkit in lacking.items()
    ]
    if not lines:
        return []
    lines.append(f"to build for all of these machines: {_build_for_all(fleet)}")
    lines += [
        f"{machine.words}: nothing to build, it gets the newest toolkit that is built"
        for machine in fleet.alone
        if not machine.driver
    ]
    return lines


def _build_for_all(fleet: Fleet) -> str:
    """The command that builds what a fleet asks for, for each of its machines with a driver."""
    words = ["ctk", "build", *names_to_build(fleet.request, fleet.catalogue)]
    for machine in fleet.alone:
        if machine.driver:
            gpu = f":{machine.arch}" if machine.arch else ""
            words += ["--driver", f"{machine.driver}{gpu}"]
    if fleet.catalogue.subdir != this_platform():
        words += ["--platform", fleet.catalogue.subdir]
    return f"`{shlex.join(words)}`"


def _compat_machines(environment: Environment, catalogue: Catalogue) -> list[str]:
    """What limits a compat toolkit, with the machines of an environment that it is so on."""
    limits: dict[str, list[str]] = {}
    for machine in environment.machines:
        scenario = Scenario((), machine.subdir, machine.driver, machine.arch)
        words = toolkit_in_words(replace(environment.pick, scenario=scenario), catalogue)
        limits.setdefault(words, []).append(machine.words)
    return [f"{'; '.join(machines)}: {words}" for words, machines in limits.items()]


def _show_machines(fleet: Fleet, report: Reporter) -> None:
    rows = []
    for machine, own in fleet.alone.items():
        environment = fleet.environment(machine)
        row = ["none", "", ""]
        if environment:
            row = [environment.name, environment.pick.toolkit, environment.pick.fit]
        alone = f"{own.toolkit} {own.fit}".strip() if own else ""
        rows.append((machine.driver or "none", machine.arch or "", *row, alone))
    columns = ["driver", "GPU", "environment", "toolkit", "fit", "on its own"]
    report.table("what each machine gets", columns, rows)


def _show_environment(environment: Environment, named: Named, report: Reporter) -> None:
    """Prints an environment, and the commands that create it on any machine."""
    pick, name = environment.pick, environment.name
    size = f", {megabytes(pick.size)} MB" if pick.size else ""
    packages = count(len(pick.records), "package")
    report.line(f"{name} ({environment.toolkit}; {packages}{size}), to create it on any machine:")
    channels = [word for address in named.addresses for word in ("-c", address)]
    words = ["conda", "create", "-n", name, *channels]
    is_asked_for = any(parse_spec(spec).name in ASKING for spec in environment.specs)
    if pick.fit == "compat" and not is_asked_for:
        # Else conda's rattler solver takes the toolkit of a channel behind.
        words.append("--strict-channel-priority")
    report.line(f"  {environment.typed(shlex.join([*words, *environment.specs]))}")
    stated = pick.scenario
    if stated.subdir == this_platform():
        machine = ["--driver", stated.driver or "none"]
        if stated.arch:
            machine += ["--arch", stated.arch]
        line = shlex.join(
            [
                "ctk",
                "env",
                "create",
                *stated.specs,
                *machine,
                *named.options,
                "--prefix",
                f"./{name}",
            ]
        )
        report.line(f"or, without conda:\n  {line}")
    if not environment.every_client:
        report.line(
            "  only a client that knows the GPU picks this: pixi, and conda with its plugin; mamba"
            " does not"
        )


def _toolkit(pick: Pick) -> dict[str, Any]:
    return {"toolkit": pick.toolkit or None, "fit": pick.fit or None}


def _machine_as_json(
    fleet: Fleet, machine: Machine, lacking: Mapping[Machine, str]
) -> dict[str, Any]:
    environment, own = fleet.environment(machine), fleet.alone[machine]
    return {
        "platform": machine.subdir,
        "driver": machine.driver,
        "gpu": machine.arch,
        "environment": environment and environment.name,
        "alone": own and _toolkit(own),
        "not_built": lacking.get(machine),
    }


def _environment_as_json(environment: Environment, named: Named) -> dict[str, Any]:
    return {
        "name": environment.name,
        **_toolkit(environment.pick),
        "variables": environment.variables,
        "specs": environment.specs,
        "channels": named.addresses,
        "every_client": environment.every_client,
        "files": sorted(record.file_name for record in environment.pick.records),
    }


# --- every machine


def solve_everywhere(
    specs: Sequence[str],
    pins: Sequence[str],
    platforms: Sequence[str],
    options: ChannelOptions,
) -> None:
    """Shows where a request installs, and the changes by its pins: `ctk solve --everywhere`.

    Raises:
        Unsolvable: It cannot be installed on any machine.
        MachinesLost: With the pins, machines lose it; all was shown before.
    """
    for pin in pins:
        parse_spec(pin)
    report, place = Reporter(), known_workspace()
    every = matrix(facts(release_locks(place).values()), ())
    catalogues = _of_each_platform(platforms, options, place, report)
    surveys = [take_survey(specs, pins, channels, every) for channels in catalogues]
    report.result(
        request=list(specs), pins=list(pins), surveys=[survey.as_json() for survey in surveys]
    )
    for group in alike(surveys):
        _show_group(group, pins, report)
    with reason_for_programs():
        _judge(surveys, pins)


def _of_each_platform(
    platforms: Sequence[str], options: ChannelOptions, place: Workspace, report: Reporter
) -> Iterator[Catalogue]:
    """The channels for each platform, by default for all that they have packages for."""
    refuse_unknown_names("platform", platforms, PLATFORMS)
    is_planned = options.is_planned
    own = options.catalogue(place, this_platform(), report if is_planned else None)
    for subdir in platforms or _offered(own):
        if is_planned:  # the plan has all platforms
            checkout_of_plan = Checkout(maker=checkout_of(own).maker)
            yield CheckoutCatalogue(own.channels, subdir, checkout_of_plan, own.gateway)
        else:  # it stands in for a platform that was not built
            yield options.catalogue(place, subdir, report)


def _offered(channels: Catalogue) -> list[str]:
    """The platforms for which the channels above the base channel have packages."""
    own = channels.channels[:-1]
    offered = [subdir for subdir in PLATFORMS if channels.names([subdir], own)]
    if not offered and not channels.names([NOARCH], own):
        step = "name another --channel"
        if checkout_of(channels).may_build:
            step = f"build them, or {step}"
        raise Unsolvable(f"there are no packages in {listing([*map(str, own)])}", step)
    return offered or [this_platform()]


def _judge(surveys: Sequence[Survey], pins: Sequence[str]) -> None:
    """Ends the run with an error if the request installs nowhere, or machines lose it."""
    first = surveys[0]
    if not any(survey.today.installs for survey in surveys):
        reason = first.today.reason((first.every.drivers[-1], None))
        cause = reason.cause
        if first.asked not in cause:
            cause = f"{first.asked} cannot be installed on any machine: {cause}"
        raise Unsolvable(cause, reason.step, kind=reason.kind)
    losses = []
    for survey in surveys:
        if survey.lost:
            lost = count(len(survey.lost), "pair")
            losses.append(f"{lost} of driver and GPU on {survey.subdir} would lose {survey.asked}")
    if losses:
        raise MachinesLost(
            f"with {listing(pins)}, {listing(losses)}",
            "loosen the pin, or keep a build without it as well",
        )


def _show_group(group: Sequence[Survey], pins: Sequence[str], report: Reporter) -> None:
    """Prints the platforms with one result: where the request installs, and its builds."""
    first = group[0]
    place = listing([survey.subdir for survey in group])
    report.line(f"{first.asked} on {place}", "bold")
    for sentence in first.sentences:
        report.line(f"- {sentence}")
    for case in first.cases:
        if case.installs:
            _show_case(case, first, place, pins, report)
    builds = [(s.subdir, *row) for s in group for row in s.builds(s.pinned or s.today)]
    if builds:
        pinned = f", with {listing(pins)}" if pins else ""
        columns = ("platform", "build", "kind", "toolkits", "pairs")
        skip = 0 if group[1:] else 1  # the platform, if there are several
        rows = [row[skip:] for row in builds]
        report.table(f"builds of {first.asked}{pinned}", columns[skip:], rows, right=["pairs"])


def _show_case(
    case: Case, survey: Survey, place: str, pins: Sequence[str], report: Reporter
) -> None:
    """Prints what each driver and GPU gets, with the pins or without."""
    pinned = ""
    if case is survey.pinned:
        pinned = f", with {listing(pins)} (*: another kind than without)"
    columns, rows = survey.table(case)
    narrow = [column.replace(", ", ",\n") for column in columns]
    report.table(f"{survey.asked} on {place}{pinned}", narrow, rows)
