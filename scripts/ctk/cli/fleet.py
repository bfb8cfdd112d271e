"""`ctk solve` for a fleet: the fewest environments that serve its machines, what to type for each, and their files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctk.core.checkout import Workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import BadValue, Unsolvable
from ctk.core.files import make_folder, replace_file

if TYPE_CHECKING:
    from ctk.solve.fleet import Environment, Fleet, Kinds
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Pick

_NAMED = 3  # machines of one kind whose names a row has


def stated_machines(
    where: Workspace, drivers: str | None, archs: str | None, file: Path | None, platform: str | None
) -> tuple[Kinds, list[str]]:
    """The machines that options state, and what to know of them; a pair that cannot exist is left out."""
    from ctk.solve.fleet import pairs, read_machines
    from ctk.solve.machine import impossible

    if archs is not None and drivers is None:
        step = f"add --drivers, as in --drivers 13.0 --archs {archs}"
        raise BadValue("--archs says nothing without --drivers", step)
    kinds = read_machines(file, platform) if file else pairs(drivers or "", archs, platform)
    excluded = {on: why for on in kinds if (why := impossible(on.driver, on.arch))}
    if len(excluded) == len(kinds):
        raise BadValue(next(iter(excluded.values())), "list the machines that you have in a file: --machines FILE")
    left = {on: names for on, names in kinds.items() if on not in excluded}
    listed = "; ".join(on.words for on in excluded)
    return left, [f"left out, since no such driver runs the GPU: {listed}"] if excluded else []


def show_fleet(
    fleet: Fleet, kinds: Kinds, notes: Sequence[str], addresses: Sequence[str], write: Path | None, report: Reporter
) -> None:
    """Prints the answer, and writes the files into a folder if there is one.

    Raises:
        Unsolvable: On some machines nothing can be installed; all else was shown, and written.
    """
    from ctk.solve.fleet import files
    from ctk.solve.solve import Scenario
    from ctk.solve.why import find_reason

    refused = [on for on in kinds if fleet.alone[on] is None]
    if served := len(kinds) - len(refused):
        number = len(fleet.environments)
        machines = f"{served} kinds of machines" if served > 1 else "1 kind of machine"
        report.line(f"{count(number, 'environment')} serve{'s' if number == 1 else ''} {machines}", "bold")
        _show_machines(fleet, kinds, report)
    for environment in fleet.environments:
        _show_environment(environment, addresses, report)
    notes = [*notes, *_notes(fleet)]
    for line in notes:
        report.line(line)
    written = []
    for path, text in files(fleet, addresses) if write and served else ():
        place = (write or Path()) / path
        make_folder(place.absolute().parent)
        replace_file(place, text.encode())
        written.append(str(place))
        report.line(f"written: {place}")
    report.result(
        request=list(fleet.request),
        machines=[_machine_as_json(fleet, on, names) for on, names in kinds.items()],
        environments=[_environment_as_json(environment, addresses) for environment in fleet.environments],
        notes=notes,
        written=written,
    )
    if refused:
        on = refused[0]
        sentence, step = find_reason(Scenario(fleet.request, on.subdir, on.driver, on.arch), fleet.catalogue)
        whose = (
            f"{len(refused)} of {len(kinds)} kinds of machines get nothing; {on.words}: " if kinds.keys() - {on} else ""
        )
        raise Unsolvable(f"{whose}{sentence}", step)


def _notes(fleet: Fleet) -> list[str]:
    """What is less than native, and on which machines; what other clients may take instead."""
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
            *newer_nvjitlink(environment.pick.records),
        )
        lines += [f"{environment.name}: {line}" for line in said]
    if any("CONDA_OVERRIDE_CUDA_ARCH" in environment.variables for environment in fleet.environments):
        lines.append(
            "CONDA_OVERRIDE_CUDA_ARCH matters where you type this on a machine with another GPU, to a client that "
            "detects it, such as conda with its plugin; mamba does not read it"
        )
    return lines


def _show_machines(fleet: Fleet, kinds: Kinds, report: Reporter) -> None:
    rows = []
    for on, names in kinds.items():
        environment, own = fleet.environment(on), fleet.alone[on]
        row = [environment.name, environment.pick.toolkit, environment.pick.fit] if environment else ["none", "", ""]
        alone = f"{own.toolkit} {own.fit}".strip() if own else ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        rows.append((", ".join(names[:_NAMED]) + more, on.driver or "none", on.arch or "", *row, alone))
    columns = ["machine", "driver", "GPU", "environment", "toolkit", "fit", "alone it would get"]
    unnamed = 0 if any(kinds.values()) else 1
    report.table("what each machine gets", columns[unnamed:], [row[unnamed:] for row in rows])


def _show_environment(environment: Environment, addresses: Sequence[str], report: Reporter) -> None:
    """What it is, and the line that makes it on any machine."""
    pick = environment.pick
    size = f", {megabytes(pick.size)} MB" if pick.size else ""
    packages = count(len(pick.records), "package")
    report.line(f"{environment.name} ({environment.toolkit}; {packages}{size}), made on any machine with:")
    channels = [word for address in addresses for word in ("-c", address)]
    words = ["conda", "create", "-n", environment.name, *channels, "--strict-channel-priority", *environment.specs]
    report.line(f"  {environment.typed(shlex.join(words))}")
    if not environment.every_client:
        report.line("  only a client that knows the GPU picks this: pixi, and conda with its plugin; mamba does not")


def _toolkit(pick: Pick) -> dict[str, Any]:
    return {"toolkit": pick.toolkit or None, "fit": pick.fit or None}


def _machine_as_json(fleet: Fleet, on: Machine, names: Sequence[str]) -> dict[str, Any]:
    environment, own = fleet.environment(on), fleet.alone[on]
    return {
        "names": names,
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
