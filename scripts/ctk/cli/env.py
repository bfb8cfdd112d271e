"""`ctk env`: environments are created from a channel, commands run in them, and they are packed."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli.change import (
    Stated,
    channels_of,
    machine_for_more,
    machine_of,
    refuse_half_made,
    refuse_of_others,
    refuse_other_platform,
    refuse_worse,
    show_change,
    words_of,
    worse_as_json,
)
from ctk.cli.doctor import as_json
from ctk.cli.options import (
    VERBATIM,
    Arch,
    Base,
    Driver,
    OtherChannels,
    Platform,
    Python,
    Specs,
    base_beside,
)
from ctk.cli.picks import REASON_LINES, show_pick, show_toolkit, solve_request, wanted_specs
from ctk.core import checkout, console
from ctk.core.checkout import given_environment
from ctk.core.children import run_in_front
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import Stopped, WouldLose
from ctk.core.locks import release_folders

if TYPE_CHECKING:
    from ctk.env.environment import Environment
    from ctk.env.examine import Examined
    from ctk.env.pack import Contents, PackOrder
    from ctk.env.terms import Terms
    from ctk.solve.machine import Machine
    from ctk.solve.solve import Pick

_LINE = 5  # changed packages in one line

Prefix = Annotated[Path, typer.Argument(help="Folder of the environment.")]
NewPrefix = Annotated[Path, typer.Option("--prefix", "-p", help="Folder of the environment.")]
LetGo = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Let packages go that were asked for before and are not named now."
    ),
]
RemoveOthers = Annotated[
    bool,
    typer.Option("--force", help="Also remove packages that this command did not install."),
]
Move = Annotated[
    bool,
    typer.Option("--move", help="Let its toolkit and its Python change, if the specs need that."),
]
CommandLine = Annotated[
    list[str],
    typer.Argument(metavar=VERBATIM, help="The command and its arguments, behind --."),
]
PackFile = Annotated[
    Path,
    typer.Option("--output", "-o", help="File to write; others have its name and an ending."),
]


def create_command(
    specs: Specs,
    prefix: NewPrefix,
    driver: Driver = None,
    arch: Arch = None,
    python: Python = None,
    channel: OtherChannels = None,
    base: Base = "local",
    yes: LetGo = False,
    force: RemoveOthers = False,
) -> None:
    """Create an environment from the channel, or change one that this command created.

    It has what is asked for now and nothing else, and the output says what that changed. If
    packages would go because they are not named now, it lists them and changes nothing without
    --yes; `ctk env add` keeps them. A folder with other files is refused, and so is an environment
    with packages of other tools.

    Example: ctk env create cuda-core --prefix ./my-env

    JSON:
    Those of `ctk solve`, and

    - `prefix`, `changed`; `removed`: names of packages that were there before
    - `would_remove`: with the error `WouldLose`, the packages that would go: name and version
    - `problems`: NVIDIA's wheels beside its CUDA, as a check of `ctk doctor`
    """
    from ctk.env.terms import Terms

    stated = Stated(driver, arch, tuple(channel or ()), base)
    terms = Terms(force=force, yes=yes)
    _create(specs, Path(os.path.realpath(prefix)), stated, python, terms)


def _create(
    specs: list[str], prefix: Path, stated: Stated, python: str | None, terms: Terms
) -> None:
    """Creates an environment, or changes it, and prints what that did."""
    from ctk.env.environment import create, refuse_other_folder
    from ctk.env.prefix import Note
    from ctk.solve.channels import built_catalogue

    workspace, report = checkout.workspace(), Reporter()
    refuse_other_folder(prefix)
    machine, stated = machine_of(Note.read(prefix), stated, report)
    base = base_beside(stated.base, stated.channels, workspace)
    channels = built_catalogue(workspace, base, machine.subdir, stated.channels)
    pick = solve_request(specs, python, machine, channels)
    machine_words = _asked(specs, stated.driver, stated.arch, python)
    asked = [*machine_words, *words_of(stated.channel_options)]
    try:
        environment = create(pick, prefix, workspace.packages, report.say, asked, terms, report)
    except WouldLose as error:
        report.result(would_remove=list(error.packages))
        raise
    _show_state(environment, report)
    _show_changes(environment.changes, report)
    show_pick(pick, machine, channels, report)
    _show_rest(environment, machine, report)


def _show_changes(changes: Mapping[str, Sequence[str]], report: Reporter) -> None:
    """Prints what changed; of what was added or installed again, the table of packages has all."""
    for kind, packages in changes.items():
        if kind in ("removed", "replaced") and len(packages) > _LINE:
            rows = [package.split(" ", 1) for package in packages]
            report.table(kind, ["package", "version"], rows)
        elif packages:
            report.line(f"{kind}: {listing(packages, most=_LINE)}")


def add_command(
    prefix: Prefix,
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    channel: OtherChannels = None,
    base: Base = "local",
    move: Move = False,
) -> None:
    """Add packages to an environment that `ctk env create` made, and keep what is there.

    Its toolkit, its Python and all that was asked for stay; of the other packages, as many as
    possible. If its toolkit would have to change, it says why and changes nothing without --move.
    The machine and the channels are those that it was made for, if you state no others. `ctk solve
    SPEC --prefix PREFIX` shows the change before.

    Example: ctk env add ./my-env numba-cuda

    JSON:
    Those of `ctk solve`, and

    - `prefix`, `changed`; `removed`: names of packages that were there before
    - `worse`: what gets worse, as that of `ctk solve --prefix`; `obstacle`: why that cannot be
      avoided, or null
    - `problems`: NVIDIA's wheels beside its CUDA, as a check of `ctk doctor`
    """
    stated = Stated(driver, arch, tuple(channel or ()), base)
    _add(Path(os.path.realpath(prefix)), specs, stated, move)


def _add(prefix: Path, specs: list[str], stated: Stated, move: bool) -> None:
    """Adds packages to an environment, and prints what that changed."""
    from ctk.env.add import plan
    from ctk.env.environment import create, refuse_missing
    from ctk.env.examine import examined
    from ctk.env.request import with_more
    from ctk.env.terms import Terms

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
    _show_rest(environment, machine, report)


def _machine_to_add_for(
    found: Examined, wanted: tuple[str, ...], stated: Stated, report: Reporter
) -> Machine:
    """The machine of an environment that gets more packages; refuses one that cannot get any."""
    from ctk.env.add import refuse_unreadable
    from ctk.env.outside import refuse_reaching_out

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
    from ctk.env.check import wheels_of_pip
    from ctk.env.examine import examined

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
        report.line(f"after the first, ctk is {shlex.quote(f'{sys.prefix}/bin/ctk')}")


def _asked(specs: list[str], driver: str | None, arch: str | None, python: str | None) -> list[str]:
    """The words of a request that say what is asked for, and for which machine."""
    words = [*specs]
    for option, value in (("--driver", driver), ("--arch", arch), ("--python", python)):
        if value is not None:
            words += [option, value]
    return words


def run_command(prefix: Prefix, command: CommandLine) -> None:
    """Run a command in an environment that is activated as conda does it.

    It gets PATH, CONDA_PREFIX and what the scripts of packages set. It ends with the exit code of
    the command, and with 127 where there is no such command. Any conda environment will do. With
    --json, what the command prints goes to stderr, and a signal that tells ctk to end is passed on:
    5 seconds later, whatever still runs is killed.

    Example: ctk env run ./my-env -- python -c "import cuda.core"

    JSON:
    - `prefix`, `command`, `exit_code`; what the command prints goes to stderr
    """
    from ctk.env.activation import command_in
    from ctk.env.environment import refuse_unfinished

    refuse_unfinished(prefix)
    words = command_in(prefix.absolute(), command)
    environment = given_environment()
    if not console.mode().json:
        sys.stdout.flush()
        # Python ignores it, and what is ignored stays so
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        release_folders()  # nothing of this process is left
        os.execvpe(words[0], words, environment)  # signals and the exit code are the command's
    code, told = run_in_front(words, env=environment, stdout=sys.stderr)
    console.mode().document.update(prefix=str(prefix.absolute()), command=command, exit_code=code)
    if told:
        raise Stopped.by(told)
    console.finish()
    raise typer.Exit(code)


def pack_command(
    specs: Specs,
    file: PackFile,
    driver: Driver = None,
    arch: Arch = None,
    platform: Platform = None,
    python: Python = None,
    channel: OtherChannels = None,
    base: Base = "local",
    force: Annotated[bool, typer.Option("--force", help="Replace a pack of that name.")] = False,
) -> None:
    """Pack an environment into a program that unpacks it on an air-gapped machine.

    There, `sh FILE DIR` unpacks and `sh FILE DIR COMMAND` also runs something in it. FILE.lock
    lists the packages and FILE.sha256 the hashes. State the driver and the GPU of that machine:
    this one's are taken otherwise. What pip installed in an environment is in no pack.

    Example: ctk env pack cuda-core --driver 13.0 --arch 9.0 -o cuda-core.run

    JSON:
    Those of `ctk solve`, and

    - `files`: `file`, `size`; `files_size`, `unpacked_size`; `needs`: `platform`, `glibc`
    """
    from ctk.env.pack import PackOrder, pack, refuse_order
    from ctk.solve.channels import built_catalogue
    from ctk.solve.machine import machine

    workspace, report = checkout.workspace(), Reporter()
    target = machine(platform, driver, arch)
    order = PackOrder(file.absolute(), force)
    refuse_order(order, target.subdir)
    base = base_beside(base, channel, workspace)
    channels = built_catalogue(workspace, base, target.subdir, channel or ())
    pick = solve_request(specs, python, target, channels)
    # Channels are left out: their addresses may be folders of this machine.
    asked = _asked(specs, driver, arch, python)
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
        f" unpacked, for {contents.subdir} with glibc {contents.glibc} or newer; there: sh"
        f" {order.file.name} DIR"
    )
    rows = [(path.name, megabytes(size)) for path, size in sizes.items()]
    report.table(str(order.file.parent), ["file", "MB"], rows, right=["MB"])
