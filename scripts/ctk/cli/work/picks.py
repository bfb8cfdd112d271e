"""The pick of a request for one machine: solved, explained and shown.

For `ctk solve`, and for the commands that make environments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ctk.cli.options import asked_channels, base_beside, refuse_versions
from ctk.core.checkout import Workspace, checkout, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import BadValue, Unsolvable
from ctk.lock.model import release_locks
from ctk.solve import channels as choose
from ctk.solve.advice import checkout_of, how_to_build, not_built
from ctk.solve.builds import choices, native_instead
from ctk.solve.driver import DriverState
from ctk.solve.fit import fit_of
from ctk.solve.machine import (
    STATE_DRIVER,
    Machine,
    overstated,
    python_specs,
    refuse_impossible,
)
from ctk.solve.machine import (
    machine as find_machine,
)
from ctk.solve.solve import (
    Catalogue,
    Pick,
    Scenario,
    channel_name,
    channel_url,
    parse_spec,
)
from ctk.solve.why import explain, newer_nvjitlink, solve_or_say_why, toolkit_in_words, what_runs

REASON_LINES = 12
"""Lines of a solver's text that are shown below a cause; the rest says the same of every build."""


@dataclass(frozen=True)
class ChannelOptions:
    """The options of `ctk solve` that choose the channels."""

    channels: tuple[str, ...]
    base: str
    is_planned: bool

    def catalogue(
        self, workspace: Workspace, subdir: str, report: Reporter | None = None
    ) -> Catalogue:
        """The channels for a platform."""
        return choose.catalogue(
            workspace,
            self.base_in(workspace),
            subdir,
            report,
            as_planned=self.is_planned,
            others=self.channels,
        )

    def known(self) -> ChannelOptions:
        """The same with the user's own channels where a user without a checkout names none."""
        if self.is_planned:
            checkout()
        channels, base = asked_channels(self.channels, self.base)
        return replace(self, channels=channels, base=base)

    def base_in(self, workspace: Workspace) -> str:
        """The base channel, as --base names it."""
        return base_beside(self.base, self.channels, workspace)


# --- a request


def wanted_specs(specs: list[str], python: str | None) -> tuple[str, ...]:
    """The whole request; raises BadValue for a word that is not a spec, before any channel."""
    refuse_versions(specs, "--driver 12.4 --driver ")
    of_python = python_specs(python) if python else ()
    wanted = (*specs, *of_python)
    for spec in wanted:
        if re.fullmatch(r"[a-z][\w.-]*(\s+[a-z][\w.-]*)+", spec):
            raise BadValue(
                f"{spec!r} is several packages in one pair of quotes", f"write them without: {spec}"
            )
        parse_spec(spec)
    return wanted


def solve_request(
    specs: list[str],
    python: str | None,
    machine: Machine,
    channels: Catalogue,
    lines: int | None = REASON_LINES,
) -> Pick:
    """Solves a request for a machine.

    Raises:
        Unsolvable: There is no solution; with so many lines of the solver's text.
    """
    if machine.stated:  # a machine that was detected exists, whatever the lists say
        refuse_impossible((machine.driver, machine.arch))
    wanted = wanted_specs(specs, python)
    scenario = Scenario(wanted, machine.subdir, machine.driver, machine.arch)
    with reason_for_programs():
        return solve_or_say_why(scenario, channels, lines)


@contextmanager
def reason_for_programs() -> Iterator[None]:
    """Adds the kind of the reason to the document, where a request has no solution."""
    try:
        yield
    except Unsolvable as error:
        if error.kind:
            Reporter().result(reason={"kind": error.kind})
        raise


def solve_for_machine(
    specs: list[str],
    python: str | None,
    stated: tuple[str | None, str | None, str | None],
    options: ChannelOptions,
    with_reasons: bool,
) -> None:
    """Solves a request for a machine, and shows the pick; `ctk solve` without a mode.

    `stated` are the options for the machine: --platform, --driver and --arch.
    """
    report, on = Reporter(), find_machine(*stated)
    channels = options.catalogue(workspace(), on.subdir, report)
    lines = None if with_reasons else REASON_LINES
    pick = solve_request(specs, python, on, channels, lines)
    reasons = explain(pick, channels) if with_reasons else []
    report.result(explain=reasons)
    show_pick(pick, on, channels, report, reasons)


# --- a pick


def show_pick(
    pick: Pick, machine: Machine, channels: Catalogue, report: Reporter, reasons: Sequence[str] = ()
) -> None:
    """Prints the toolkit of a pick, the reasons for it, and its packages.

    Sizes of the document are in bytes.
    """
    show_toolkit(pick, machine, channels, report, reasons)
    # In the order of the channels; a client may have read one by another name.
    names = [channel_name(channel_url(place)) for place in channels.channels]
    by_channel: dict[str, list[tuple[str, ...]]] = {name: [] for name in names}
    for package in _packages(pick):
        size = megabytes(package["size"]) if package["size"] else ""
        row = (package["name"], package["version"], package["build"], size)
        by_channel.setdefault(package["channel"], []).append(row)
    columns = ["package", "version", "build", "MB"]
    for name, rows in by_channel.items():
        if rows:
            report.table(f"from {name}", columns, rows, right=["MB"])


def show_toolkit(
    pick: Pick, machine: Machine, channels: Catalogue, report: Reporter, reasons: Sequence[str] = ()
) -> None:
    """Prints the toolkit of a pick and the reasons for it; its packages are in the document."""
    place = workspace()
    locks = release_locks(place).values() if place.channel in channels.channels else ()
    missing = not_built(pick, locks, channels)
    named = list(choices(pick, channels))
    native = native_instead(pick, channels)
    size = pick.size if all(record.size for record in pick.records) else None
    support = _overstated(machine, place)
    fit = fit_of(pick, machine, channels.toolkit(pick.toolkit))
    is_limited = pick.fit == "compat" and fit is not None
    report.result(
        request=list(pick.scenario.specs),
        machine={"platform": machine.subdir, "driver": machine.driver, "gpu": machine.arch},
        toolkit=pick.toolkit or None,
        fit=pick.fit or None,
        limit={"kind": fit.limit} if fit and is_limited else None,
        choices=[choice.as_json() for choice in named],
        native_instead=native or None,
        not_built=missing or None,
        packages=_packages(pick),
        size=size,
        support=support,
    )
    length = count(len(pick.records), "package")
    if size is not None:
        length = f"{length}, {megabytes(size)} MB"
    report.line(f"{toolkit_in_words(pick, channels)} ({machine.subdir}, {machine.words}; {length})")
    for choice in named:
        report.line(choice.line)
    for line in newer_nvjitlink(pick.records, pick.scenario.specs, machine.driver):
        report.line(line)
    if native:
        report.line(f"toolkit {native} native is possible too: add cuda-version={native}")
    if missing:
        step = how_to_build(names_to_build(pick.scenario.specs, channels), pick.scenario)
        report.line(f"toolkit {missing} would be native, but is not built here: {step}")
    for line in (*what_runs(pick, channels), *_about_driver(pick, machine), *support):
        report.line(line)
    for reason in reasons:
        report.line(f"- {reason}")


def _packages(pick: Pick) -> list[dict[str, Any]]:
    """The packages of a pick, as the document has them."""
    return [
        {
            "name": record.name.normalized,
            "version": str(record.version),
            "build": record.build,
            "subdir": record.subdir,
            "file": record.file_name,
            "channel": channel_name(str(record.channel)),
            "size": record.size,
            "sha256": record.sha256.hex() if record.sha256 else None,
        }
        for record in pick.records
    ]


def _overstated(machine: Machine, place: Workspace) -> list[str]:
    """A line about a stated driver that no toolkit is for."""
    warning = overstated(machine, place)
    if not warning:
        return []
    step = STATE_DRIVER
    if machine.stated == "--driver":
        step = "name the oldest driver of the machines that will run it, as in --driver 13.0"
    return [f"{warning}; {step}"]


def _about_driver(pick: Pick, machine: Machine) -> Iterator[str]:
    """Lines about a driver that clients do not see, or that is not stated."""
    if machine.unseen is not None:
        yield _unseen_driver(machine.unseen)
    if pick.fit == "compat" and not (machine.driver or machine.stated):
        yield "if the machines that will run it have a driver, state it, as in --driver 13.0"
        yield "a driver older than this toolkit refuses the PTX that it writes"


def _unseen_driver(state: DriverState) -> str:
    """A line about a driver that is installed here and that clients do not see."""
    if state.change is None:
        return "a driver is installed here and does not work: `ctk doctor` says why"
    return (
        f"clients may see no driver here, because of {state.change.variable}={state.change.was}: "
        "`ctk doctor` has the line that mends it"
    )


def names_to_build(specs: Sequence[str], channels: Catalogue) -> list[str]:
    """The requested packages that recipes of this checkout make.

    [] if the default build has them all.
    """
    names = [parse_spec(spec).name for spec in specs]
    maker_of = checkout_of(channels).maker
    makers = {name: maker for name in names if (maker := maker_of(name))}
    if all(maker.is_default for maker in makers.values()):
        return []
    return list(makers)
