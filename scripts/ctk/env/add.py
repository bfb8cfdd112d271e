"""What more specs would make of an environment: toolkit and Python stay where that is possible."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rattler import PrefixRecord, RepoDataRecord

from ctk.core.console import listing
from ctk.core.errors import NotReady, Unsolvable
from ctk.core.platforms import NOARCH
from ctk.env.examine import Examined, InstalledPackage
from ctk.env.request import client_of, install_line, merged
from ctk.package.records import spec_name
from ctk.solve.change import Change, Package, compare, needs_cuda
from ctk.solve.machine import DRIVER, Machine, detected, machine
from ctk.solve.solve import Catalogue, Pick, Scenario, parse_spec, solve
from ctk.solve.why import find_reason, solve_or_say_why

_SHOWN = 4  # files of a longer list


@dataclass(frozen=True)
class Plan:
    """What more specs would make of an environment.

    Attributes:
        pick: All packages that it would have. Its scenario has the whole request, and no pin.
        change: The difference to what it has.
        pins: The specs that keep its toolkit and its Python, as far as the pick satisfies them.
        obstacle: Why the others cannot be satisfied, in a sentence; "" if all are.
    """

    pick: Pick
    change: Change
    pins: tuple[str, ...]
    obstacle: str = ""

    @property
    def pinned_pick(self) -> Pick:
        """The pick, with the pins among the specs of its scenario."""
        scenario = self.pick.scenario
        return replace(self.pick, scenario=replace(scenario, specs=(*scenario.specs, *self.pins)))


def refuse_unreadable(found: Examined) -> None:
    """Refuses an environment with records that cannot be read: what would change cannot be told.

    Raises:
        NotReady: It has such records.
    """
    if found.has.broken:
        names = [ascii(file.name)[1:-1] for file in found.has.broken]
        cause = f"{found.prefix} has records that cannot be read: {listing(names, most=_SHOWN)}"
        look = shlex.join(["ctk", "doctor", str(found.prefix)])
        raise NotReady(cause, f"`{look}` says what to do")


def toolkit_pin(found: Examined) -> str:
    """The spec that keeps the toolkit of an environment; "" without CUDA."""
    if found.toolkit is None:
        return ""
    # Another channel has only one build of a cuda-version.
    build = f"={found.fit}_*" if found.fit else ""
    return f"cuda-version={found.toolkit.version}{build}"


def _python_pin(found: Examined) -> str:
    python = found.by_name.get("python")
    return f"python={Package.of(python.record).minor}" if python else ""


def plan(
    found: Examined,
    specs: Sequence[str],
    machine: Machine,
    channels: Catalogue,
    lines: int | None = None,
) -> Plan:
    """Solves the request of an environment with more specs.

    Installed packages are taken before others. Python changes only if there is no solution with it,
    and the toolkit only if there is none with any Python.

    Args:
        found: The environment.
        specs: What to add.
        machine: The machine that it shall run on.
        channels: Where packages are taken from that are not installed.
        lines: How many lines of the solver's text the error has; None for all.

    Raises:
        Unsolvable: The specs and the request have no solution, whatever the toolkit.
    """
    asked, before = found.asked, installed_records(found)
    wanted = merged(asked, specs)
    scenario = Scenario(wanted, machine.subdir, machine.driver, machine.arch)
    toolkit, python = toolkit_pin(found), _python_pin(found)
    # Of a toolkit that has to change, no package shall stay: an old nvJitLink can be taken beside a
    # new toolkit.
    free = [record for record in before if not needs_cuda(record)]
    beside = _beside(found, wanted)
    attempts = [
        ([*beside, toolkit, python], before),
        ([*beside, toolkit], before),
        ([*beside, python], free),
        (beside, free),
        ([], free),
    ]
    for more, preferred in attempts:
        whole = replace(scenario, specs=(*wanted, *filter(None, more)))
        with suppress(Unsolvable):
            pick = solve(whole, channels.channels, channels.gateway, preferred)
            break
    else:
        pick = solve_or_say_why(scenario, channels, lines)
    pick = replace(pick, scenario=scenario)
    kept = _satisfied(pick, (toolkit, python))
    obstacle = _obstacle(
        scenario, [pin for pin in (toolkit, python) if pin and pin not in kept], channels
    )
    return Plan(pick, compare(before, pick.records, asked, wanted), kept, obstacle)


def on_its_driver(found: Examined) -> Machine:
    """The machine of an environment.

    If it has no driver and its toolkit is native, one with the driver for that.
    """
    on = found.machine
    if on.driver or on.stated or found.toolkit is None or found.fit != "native":
        return on
    return machine(on.subdir, found.toolkit.version)


def client_line(found: Examined, specs: Sequence[str], machine: Machine) -> str:
    """The line that adds specs with the client of an environment, and keeps its toolkit.

    The client sees the driver of this machine. If the environment is for another one, the line
    states that driver.
    """
    pin = toolkit_pin(found)
    pins = [pin] if pin and all(parse_spec(spec).name != "cuda-version" for spec in specs) else []
    line = install_line(client_of(found.prefix), found.prefix, found.channels, [*specs, *pins])
    is_seen = machine.driver is None or detected(machine.subdir)[0] == machine.driver
    return line if is_seen else f"{DRIVER}={machine.driver} {line}"


def _satisfied(pick: Pick, pins: Sequence[str]) -> tuple[str, ...]:
    """The pins that a pick satisfies."""
    found = []
    for pin in filter(None, pins):
        spec = parse_spec(pin)
        record = pick.record(spec.name)
        if record is not None and spec.match.matches(record):
            found.append(pin)
    return tuple(found)


def _obstacle(scenario: Scenario, broken: Sequence[str], channels: Catalogue) -> str:
    """Why a request has no solution with pins that were given up, in a sentence; "" without any."""
    if not broken:
        return ""
    return find_reason(replace(scenario, specs=(*scenario.specs, *broken)), channels).cause


def _beside(found: Examined, wanted: Sequence[str]) -> list[str]:
    """The packages that nobody asked for and nothing needs, of another client's environment.

    They stay there.
    """
    if found.note:
        return []
    asked = {parse_spec(spec).name for spec in wanted}
    needed = {spec_name(need) for package in found.packages for need in package.depends}
    return sorted(found.by_name.keys() - needed - asked)


def installed_records(found: Examined) -> tuple[RepoDataRecord, ...]:
    """The packages of an environment as a solver takes them."""
    pairs = zip(found.has.records.items(), found.packages, strict=True)
    return tuple(_installed_record(file, record, package) for (file, record), package in pairs)


def _installed_record(
    file: Path, record: Mapping[str, Any], package: InstalledPackage
) -> RepoDataRecord:
    try:
        return PrefixRecord.from_path(file)
    except Exception:  # rattler has errors of its own; it reads fewer records than conda writes
        name = str(record.get("fn") or f"{package.name}-{package.version}-{package.build}.conda")
        source = package.source if "://" in package.source else "file:///"
        return RepoDataRecord(
            package.record, name, f"{source}/{package.subdir or NOARCH}/{name}", source
        )
