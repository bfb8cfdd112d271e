"""`ctk solve`: the pick for a machine.

Cli/machines.py has those for a fleet and for every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli.change import Stated
from ctk.cli.machines import of_each_platform, show_everywhere, show_fleet, stated_machines
from ctk.cli.options import (
    Arch,
    Base,
    Driver,
    OtherChannels,
    Python,
    Specs,
    base_beside,
    not_both,
    refuse_versions,
)
from ctk.core.checkout import base_channel, checkout, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue

if TYPE_CHECKING:
    from ctk.solve.driver import DriverState
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Catalogue, Pick

REASON_LINES = (
    12  # of a solver's text that are shown below a cause; the rest says the same of every build
)


def solve_command(
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    platforms: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            "-p",
            help=(
                "The platform; this machine's by default. On another one no driver is assumed. With"
                " --everywhere: all "
                "of the channel by default; may be repeated."
            ),
        ),
    ] = None,
    python: Python = None,
    why: Annotated[
        bool, typer.Option("--explain", help="Say why this toolkit was picked and not a newer one.")
    ] = False,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere",
            help="Show on which drivers, GPUs and platforms it installs, and as what.",
        ),
    ] = False,
    pins: Annotated[
        list[str] | None,
        typer.Option(
            "--pin",
            help=(
                "Show everywhere what this spec besides would change, and fail if machines lose;"
                " may be repeated."
            ),
        ),
    ] = None,
    drivers: Annotated[
        str | None,
        typer.Option(
            help=(
                "The drivers of a fleet, such as 12.4,13.0, each with each of --archs, or with its"
                " own GPU as in "
                "12.4:7.0,13.0:9.0: how few environments serve all?"
            )
        ),
    ] = None,
    archs: Annotated[str | None, typer.Option(help="The GPUs of a fleet, such as 7.0,9.0.")] = None,
    as_planned: Annotated[
        bool,
        typer.Option(
            "--planned",
            help="Solve against what recipes and release locks say, not what was built.",
        ),
    ] = False,
    prefix: Annotated[
        Path | None,
        typer.Option(
            "--prefix", help="Show what the specs would change in this environment, of any client."
        ),
    ] = None,
    channel: OtherChannels = None,
    base: Base = "local",
) -> None:
    """Show which packages a solver picks from the channel, on this machine or on another one.

    With --everywhere, show on which drivers, GPUs and platforms they install, and with --pin what a
    pin would change. Of a fleet, show the fewest environments that serve all of its machines, and
    what to type for each. With --prefix, show what the specs would add, remove and replace in an
    environment, whether it gets worse, and what to type.

    Examples: ctk solve cuda-version=12.6 numba-cuda --driver 12.9 --arch 7.0 --explain
    ctk solve cupy --everywhere --planned --pin "cuda-version >=13.4"  # an error
    ctk solve cuda-core --drivers 12.4:7.0,13.0:9.0
    ctk solve numba-cuda --prefix ./my-env

    JSON:
    - `request`; `machine`: `platform`, `driver`, `gpu`
    - `toolkit` and `fit` (`native` or `compat`), `size`, `explain` (sentences, with `--explain`)
    - `choices`: packages that have CUDA builds and CPU builds, of which the request should name
      one: `package`, `build` (of this pick, `cuda` or `cpu`); `cuda` and `cpu`: `spec`, `toolkit`,
      `fit`, or null if it cannot be installed
    - `native_instead`: the native toolkit that is possible instead of this compat one, or null
    - `not_built`: the toolkit that would be native and better, and that the channel of this
      checkout lacks, or null
    - `support`: a sentence about a stated driver that no toolkit is for
    - `packages`: `name`, `version`, `build`, `subdir`, `file`, `channel`, `size`, `sha256`

    With `--everywhere` or `--pin`, instead:

    - `request` (specs); `pins`
    - `surveys`: one for each platform: `asked`, `platform`, `sentences`
      - `machines`: how many pairs of driver and GPU there are; `kinds`: how many of them get
        `native`, `compat`, `CPU build`, `no CUDA`, or are `refused`
      - `changes`: how many of them the pins have `lost`, `gained` or `changed`; `null` without a
        pin
      - `answers`: for each machine `driver`, `gpu`, `kind`, `toolkit`, `builds` (of what was asked
        for), `cpu` (packages that are CPU builds); with `--pin` also `pinned`, with the last four,
        and `change` (`null` for none)

    With `--drivers`, instead:

    - `request`, `notes` (what is printed below the environments)
    - `machines`: a kind of machine each: `platform`, `driver`, `gpu`, `environment` (null if
      nothing can be installed), `alone`: `toolkit` and `fit` that it would get by itself
    - `environments`: `name`, `toolkit`, `fit`, `variables` (name -> value), `specs`, `channels`,
      `files` (of the packages), `every_client` (false if only a client that knows the GPU picks the
      same)

    With `--prefix`, instead:

    - `request` (all that is asked for then), `prefix`, `machine`, `toolkit`, `fit`, `choices` as
      above
    - `added`, `removed`: `name`, `version`, `build`; `replaced`: `before` and `after`, with these
      three
    - `worse`: `kind` (`native-to-compat`, `toolkit-older`, `toolkit-newer`, `toolkit-gone`,
      `python-changes`, `cuda-to-cpu`, `asked-for-gone`, `nvjitlink-leaves`), `before` and `after`
      (null where it is not there)
    - `obstacle`: why the toolkit or Python cannot stay, or null; `steps`: command lines that do it
    """
    from ctk.solve import channels as choose
    from ctk.solve.fleet import find_fleet
    from ctk.solve.machine import machine
    from ctk.solve.solve import channel_url, lasting, parse_spec
    from ctk.solve.why import explain

    report = Reporter()
    everywhere = everywhere or bool(pins)
    not_both("--channel", "--planned", channel and as_planned)
    not_both("--driver or --arch", "--drivers", drivers and (driver or arch))
    not_both("--explain", "--drivers", drivers and why)
    some = driver or arch or why or drivers
    not_both(
        "--everywhere or --pin", "--driver, --explain, --drivers and the like", everywhere and some
    )
    if archs is not None and drivers is None:
        step = f"add --drivers, as in --drivers 13.0 --archs {archs}"
        raise BadValue("--archs says nothing without --drivers", step)
    if len(platforms or ()) > 1 and not everywhere:
        raise BadValue("several platforms are for every machine", "add --everywhere")
    not_both(
        "--prefix",
        "--everywhere, --drivers, --planned or --explain",
        prefix and (everywhere or drivers or as_planned or why),
    )
    wanted = wanted_specs(specs, python)
    if prefix is not None:
        _solve_in(prefix, wanted, platforms, Stated(driver, arch, tuple(channel or ()), base))
        return
    for pin in pins or ():
        parse_spec(pin)
    where = checkout() if everywhere else workspace()
    base = base_beside(base, channel, where)
    platform = platforms[0] if platforms else None
    catalogue = partial(choose.catalogue, where, base, as_planned=as_planned, others=channel or ())
    if everywhere:
        every_channel = of_each_platform(platforms or (), as_planned, catalogue, report)
        show_everywhere(wanted, pins or (), every_channel, where, report)
        return
    if drivers is not None:
        kinds, notes = stated_machines(drivers, archs, platform)
        channels = catalogue(kinds[0].subdir, report)
        # Of what is planned, the address that it will have; packages are not there yet.
        places = [base_channel(name, where) for name in channel or ()] or [where.channel]
        addresses = [lasting(channel_url(place)) for place in (*places, base_channel(base, where))]
        named = [word for name in channel or () for word in ("--channel", name)]
        named += ["--base", base] if base != "local" else []
        show_fleet(find_fleet(wanted, kinds, channels), notes, addresses, named, report)
        return
    on = machine(platform, driver, arch)
    channels = catalogue(on.subdir, report)
    pick = solve_request(specs, python, on, channels, None if why else REASON_LINES)
    reasons = list(explain(pick, channels)) if why else []
    report.result(explain=reasons)
    show_pick(pick, on, channels, report, reasons)


def _solve_in(
    prefix: Path, specs: tuple[str, ...], platforms: Sequence[str] | None, stated: Stated
) -> None:
    """Shows what specs would change in an environment."""
    from ctk.cli.change import channels_of, machine_for_more, show_plan, steps_for
    from ctk.env.add import plan, refuse_unreadable
    from ctk.env.environment import refuse_unfinished
    from ctk.env.examine import examined
    from ctk.env.outside import refuse_reaching_out

    where = workspace()
    prefix = Path(os.path.realpath(prefix))
    refuse_unfinished(prefix)
    found = examined(where, prefix, stated.driver, stated.arch)
    refuse_reaching_out(prefix, found.has.records)
    refuse_unreadable(found)
    subdir = found.machine.subdir
    if platforms and set(platforms) != {subdir}:
        raise BadValue(
            f"{prefix} is of {subdir}, and not of {listing(platforms)}", "leave --platform out"
        )
    on = machine_for_more(found, stated, Reporter())
    channels = channels_of(found, where, stated)
    planned = plan(found, specs, on, channels, REASON_LINES)
    show_plan(found, planned, on, channels, steps_for(found, planned, specs, stated, on))


def solve_request(
    specs: list[str],
    python: str | None,
    on: Machine,
    channels: Catalogue,
    lines: int | None = REASON_LINES,
) -> Pick:
    """Solves a request for a machine.

    Without a solution the error has so many lines of the solver's text.
    """
    from ctk.solve.machine import check_possible
    from ctk.solve.solve import Scenario
    from ctk.solve.why import solve_or_say_why

    if on.stated:  # a machine that was detected exists, whatever the lists say
        check_possible((on.driver, on.arch))
    return solve_or_say_why(
        Scenario(wanted_specs(specs, python), on.subdir, on.driver, on.arch), channels, lines
    )


def wanted_specs(specs: list[str], python: str | None) -> tuple[str, ...]:
    """The whole request; raises BadValue for a word that is no spec, before a channel is asked."""
    from ctk.solve.machine import python_specs
    from ctk.solve.solve import parse_spec

    refuse_versions(specs, "--drivers 12.4,")
    wanted = (*specs, *(python_specs(python) if python else ()))
    for spec in wanted:
        if re.fullmatch(r"[a-z][\w.-]*(\s+[a-z][\w.-]*)+", spec):
            raise BadValue(
                f"{spec!r} is several packages in one pair of quotes", f"write them without: {spec}"
            )
        parse_spec(spec)
    return wanted


def _names_to_build(pick: Pick, channels: Catalogue) -> list[str]:
    """The requested packages that recipes of this checkout make.

    [] if the default build has them all.
    """
    from ctk.solve.solve import parse_spec

    names = [parse_spec(spec).name for spec in pick.scenario.specs]
    makers = {name: made for name in names if (made := channels.maker(name))}
    return [] if all(made.is_default for made in makers.values()) else list(makers)


def unseen_driver(state: DriverState) -> str:
    """A line about a driver that is installed here and that clients do not see."""
    if state.change is None:
        return "a driver is installed here and does not work: `ctk doctor` says why"
    return (
        f"clients may see no driver here, because of {state.change.variable}={state.change.was}: "
        "`ctk doctor` has the line that mends it"
    )


def show_pick(
    pick: Pick, on: Machine, channels: Catalogue, report: Reporter, reasons: Sequence[str] = ()
) -> None:
    """Prints the toolkit of a pick, the reasons for it, and its packages.

    Sizes of the document are in bytes.
    """
    packages = show_toolkit(pick, on, channels, report, reasons)
    columns = ["package", "version", "build", "channel", "MB"]
    sizes = (megabytes(r.size) if r.size else "" for r in pick.records)
    rows = [
        (p["name"], p["version"], p["build"], p["channel"], mb)
        for p, mb in zip(packages, sizes, strict=True)
    ]
    report.table("packages", columns, rows, right=["MB"])


def show_toolkit(
    pick: Pick, on: Machine, channels: Catalogue, report: Reporter, reasons: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Prints the toolkit of a pick and the reasons for it.

    Returns its packages, as the document has them.
    """
    from ctk.lock.model import release_locks
    from ctk.solve.machine import STATE_DRIVER, overstated
    from ctk.solve.solve import channel_name
    from ctk.solve.why import (
        choices,
        how_to_build,
        native_instead,
        newer_nvjitlink,
        not_built,
        toolkit_in_words,
    )

    where = workspace()
    locks = release_locks(where).values() if where.channel in channels.channels else ()
    missing = not_built(pick, locks, channels)
    named = list(choices(pick, channels))
    native = native_instead(pick, channels)
    size = pick.size if all(r.size for r in pick.records) else None
    packages = [
        {
            "name": r.name.normalized,
            "version": str(r.version),
            "build": r.build,
            "subdir": r.subdir,
            "file": r.file_name,
            "channel": channel_name(str(r.channel)),
            "size": r.size,
            "sha256": r.sha256.hex() if r.sha256 else None,
        }
        for r in pick.records
    ]
    report.result(
        request=list(pick.scenario.specs),
        machine={"platform": on.subdir, "driver": on.driver, "gpu": on.arch},
        toolkit=pick.toolkit or None,
        fit=pick.fit or None,
        choices=[document for _, document in named],
        native_instead=native or None,
        not_built=missing or None,
        packages=packages,
        size=size,
    )
    step = "name the oldest driver of the machines that will run it, as in --driver 13.0"
    step = step if on.stated == "--driver" else STATE_DRIVER
    notes = [f"{said}; {step}"] if (said := overstated(on, where)) else []
    report.result(support=notes)
    length = count(len(packages), "package") + (
        f", {megabytes(size)} MB" if size is not None else ""
    )
    report.line(f"{toolkit_in_words(pick, channels)} ({on.subdir}, {on.words}; {length})")
    for line in (*(line for line, _ in named), *newer_nvjitlink(pick.records, pick.scenario.specs)):
        report.line(line)
    if native:
        report.line(f"toolkit {native} native can be had too: add cuda-version={native}")
    if missing:
        step = how_to_build(_names_to_build(pick, channels), pick.scenario)
        report.line(f"toolkit {missing} would be native, and is not built here: {step}")
    if on.unseen is not None:
        report.line(unseen_driver(on.unseen))
    if pick.fit == "compat" and not (on.driver or on.stated):
        report.line("if the machines that will run it have a driver, state it, as in --driver 13.0")
        report.line("a driver older than this toolkit refuses the PTX that it writes")
    for line in (*notes, *(f"- {reason}" for reason in reasons)):
        report.line(line)
    return packages
