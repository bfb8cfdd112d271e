"""`ctk env create`, `add` and `pack`: what a pick makes of a folder, in words."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ctk.cli.doctor import as_json
from ctk.cli.options import base_beside
from ctk.cli.work import files, files_read
from ctk.cli.work.change import (
    Stated,
    channels_of,
    machine_for_more,
    machine_of,
    refuse_half_made,
    refuse_of_others,
    refuse_other_platform,
    refuse_worse,
    show_change,
    show_newer,
    words_of,
    worse_as_json,
)
from ctk.cli.work.picks import (
    REASON_LINES,
    ChannelOptions,
    show_pick,
    show_toolkit,
    solve_request,
    wanted_specs,
)
from ctk.core import checkout
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import WouldLose
from ctk.env.add import plan, refuse_unreadable
from ctk.env.check import wheels_of_pip
from ctk.env.environment import Environment, create, refuse_missing, refuse_other_folder
from ctk.env.examine import Examined, examined
from ctk.env.outside import refuse_reaching_out
from ctk.env.pack import Contents, PackOrder, pack, refuse_order
from ctk.env.prefix import Note
from ctk.env.request import with_more
from ctk.env.terms import Terms
from ctk.solve.channels import built_catalogue
from ctk.solve.machine import Machine, machine
from ctk.solve.solve import Pick

_LINE = 5  # changed packages in one line


def create_environment(
    specs: list[str], prefix: Path, stated: Stated, python: str | None, *, force: bool, yes: bool
) -> None:
    """Creates an environment, or changes it, and prints what that did."""
    workspace, report = checkout.workspace(), Reporter()
    refuse_other_folder(prefix)
    machine, stated = machine_of(Note.read(prefix), stated, report)
    stated = stated.known()
    base = base_beside(stated.base, stated.channels, workspace)
    channels = built_catalogue(workspace, base, machine.subdir, stated.channels)
    pick = solve_request(specs, python, machine, channels)
    machine_words = _asked(specs, stated.driver, stated.arch, python)
    asked = [*machine_words, *words_of(stated.channel_options)]
    try:
        terms = Terms(force=force, yes=yes)
        environment = create(pick, prefix, workspace.packages, report.say, asked, terms, report)
    except WouldLose as error:
        report.result(would_remove=list(error.packages))
        raise
    _show_state(environment, report)
    _show_changes(environment.changes, report)
    show_pick(pick, machine, channels, report)
    _show_rest(environment, machine, report)


def create_from_file(
    file: Path,
    prefix: Path,
    environment: str | None,
    stated: Stated,
    create: Callable[[list[str]], None],
) -> None:
    """Creates an environment that has what a file asks for."""
    options = ChannelOptions(stated.channels, stated.base, is_planned=False).known()
    order = files_read.Order(environment, (None, stated.driver, stated.arch), options)
    files.create_from(file, prefix, order, create)


def _show_changes(changes: Mapping[str, Sequence[str]], report: Reporter) -> None:
    """Prints what changed; of what was added or installed again, the table of packages has all."""
    for kind, packages in changes.items():
        if kind in ("removed", "replaced") and len(packages) > _LINE:
            rows = [package.split(" ", 1) for package in packages]
            report.table(kind, ["package", "version"], rows)
        elif packages:
            report.line(f"{kind}: {listing(packages, most=_LINE)}")


def add_packages(prefix: Path, specs: list[str], stated: Stated, *, move: bool) -> None:
    """Adds packages to an environment, and prints what that changed."""
    workspace, report = checkout.workspace(), Reporter()
    refuse_missing(prefix)
    wanted = wanted_specs(specs, None)
    found = examined(workspace, prefix, stated.driver, stated.arch)
    machine = _machine_to_add_for(found, wanted, stated, report)
    channels = channels_of(found, workspace, stated)
    planned = plan(found, wanted, machine, channels, REASON_LINES)
    worse = planned.change.worse
    report.result(worse=[worse_as_json(each) for each in worse], obstacle=planned.obstacle or None)
    if worse and not move:
        refuse_worse(found, planned, wanted, stated)
    before = found.note.asked if found.note else ()
    asked = with_more(before, wanted, stated.options)
    terms = Terms(yes=True, since=found.has.packages.keys())
    pick = planned.pick
    environment = create(pick, prefix, workspace.packages, report.say, asked, terms, report)
    _show_state(environment, report)
    show_toolkit(planned.pinned_pick, machine, channels, report)
    report.result(request=list(pick.scenario.specs))
    if environment.changes:
        show_change(planned, environment.changes, report)
    show_newer(found, specs, pick, channels, report)
    _show_rest(environment, machine, report)


def _machine_to_add_for(
    found: Examined, wanted: tuple[str, ...], stated: Stated, report: Reporter
) -> Machine:
    """The machine of an environment that gets more packages; refuses one that cannot get any."""
    refuse_other_platform(found)
    refuse_reaching_out(found.prefix, found.has.records)
    machine = machine_for_more(found, stated, report)
    refuse_of_others(found, wanted, machine)
    if found.is_stopped:
        refuse_half_made(found, wanted)
    else:
        refuse_unreadable(found)
    return machine


def _show_state(environment: Environment, report: Reporter) -> None:
    state = "unchanged"
    if environment.changes:
        state = "changed"
    elif environment.changed:
        state = "created"
    report.line(f"{state}: {environment.prefix}")


def _show_rest(environment: Environment, machine: Machine, report: Reporter) -> None:
    """Prints NVIDIA's wheels beside the CUDA of an environment, and how to use it."""
    prefix = environment.prefix
    removed = [package.split()[0] for package in environment.changes.get("removed", ())]
    found = examined(checkout.workspace(), prefix, machine.driver or "none", machine.arch)
    problems = [finding for finding in wheels_of_pip(found) if finding.fix]
    report.result(
        prefix=str(prefix),
        changed=environment.changed,
        removed=removed,
        problems=[as_json(finding) for finding in problems],
    )
    for finding in problems:
        report.line(f"{finding.check}: {finding.message}")
        report.line(f"to do: {finding.fix}")
    # A terminal folds long lines, so each command has its own.
    place = shlex.quote(str(prefix))
    ending = ".fish" if os.environ.get("SHELL", "").endswith("/fish") else ""
    report.line(f"to use it: . {place}/bin/activate{ending}")
    report.line(f"or: ctk env run {place} -- COMMAND")
    # The venv of ctk was activated, and the environment's script leaves it.
    if os.environ.get("VIRTUAL_ENV") == sys.prefix:
        program = shlex.quote(f"{sys.prefix}/bin/ctk")
        report.line(f"in the activated environment, type {program} instead of ctk")


def _asked(specs: list[str], driver: str | None, arch: str | None, python: str | None) -> list[str]:
    """The words of a request that say what is asked for, and for which machine."""
    words = [*specs]
    for option, value in (("--driver", driver), ("--arch", arch), ("--python", python)):
        if value is not None:
            words += [option, value]
    return words


def pack_environment(
    specs: list[str],
    file: Path,
    stated: Stated,
    platform: str | None,
    python: str | None,
    *,
    force: bool,
) -> None:
    """Packs an environment for another machine, and says what is in the pack and whom it is for."""
    workspace, report = checkout.workspace(), Reporter()
    target = machine(platform, stated.driver, stated.arch)
    order = PackOrder(file.absolute(), force)
    refuse_order(order, target.subdir)
    stated = stated.known()
    base = base_beside(stated.base, stated.channels, workspace)
    channels = built_catalogue(workspace, base, target.subdir, stated.channels)
    pick = solve_request(specs, python, target, channels)
    # Channels are left out: their addresses may be folders of this machine.
    asked = _asked(specs, stated.driver, stated.arch, python)
    about = _about(specs, pick, target)
    contents, paths = pack(pick, about, order, workspace, report.say, asked)
    _show_pack(order, contents, paths, report)
    show_pick(pick, target, channels, report)


def _about(specs: Sequence[str], pick: Pick, machine: Machine) -> list[str]:
    """Lines for people about a pack: the request and the machine that it is for."""
    gpu = machine.arch or ("not stated" if machine.driver else "none")
    toolkit = f"{pick.toolkit or 'none'} {pick.fit}".rstrip()
    return [
        f"asked for: {' '.join(specs)}",
        f"driver: {machine.driver or 'none'}",
        f"GPU: {gpu}",
        f"toolkit: {toolkit}",
        f"python: {pick.version('python')}",
    ]


def _show_pack(
    order: PackOrder, contents: Contents, paths: Sequence[Path], report: Reporter
) -> None:
    """Prints the files of a pack, and the machines that it is for."""
    sizes = {path: path.stat().st_size for path in paths}
    total, unpacked = sum(sizes.values()), contents.kibibytes * 1024
    report.result(
        files=[{"file": str(path), "size": size} for path, size in sizes.items()],
        files_size=total,
        unpacked_size=unpacked,
        needs={"platform": contents.subdir, "glibc": contents.glibc},
    )
    report.line(
        f"packed: {count(len(paths), 'file')}, {megabytes(total)} MB; {megabytes(unpacked)} MB"
        f" unpacked, for {contents.subdir} with glibc {contents.glibc} or newer; to unpack it"
        f" there: sh {order.file.name} DIR"
    )
    rows = [(path.name, megabytes(size)) for path, size in sizes.items()]
    report.table(str(order.file.parent), ["file", "MB"], rows, right=["MB"])
