"""`ctk env`: environments are created from a channel, commands run in them, and they are packed."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from ctk.core import console
from ctk.core.checkout import given_environment, workspace
from ctk.core.children import run_in_front
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import Stopped, WouldLose
from ctk.core.files import release_folders

if TYPE_CHECKING:
    from ctk.env.environment import Environment
    from ctk.solve.machine import Machine

_LINE = 5  # changed packages in one line
Prefix = Annotated[Path, typer.Argument(help="Folder of the environment.")]


def create_command(
    specs: Specs,
    prefix: Annotated[Path, typer.Option("--prefix", "-p", help="Folder of the environment.")],
    driver: Driver = None,
    arch: Arch = None,
    python: Python = None,
    channel: OtherChannels = None,
    base: Base = "local",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Let packages go that were asked for before and are not named now."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also remove packages that this command did not install."),
    ] = False,
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
    - `problems`: what is wrong with what pip installed in it: some of the `checks` of `ctk doctor`
    """
    from ctk.cli.change import Stated, machine_of, words_of
    from ctk.cli.picks import show_pick, solve_request
    from ctk.env.environment import Terms, create
    from ctk.env.environment import check as check_prefix
    from ctk.env.prefix import Note
    from ctk.solve.channels import built_catalogue

    where, report = workspace(), Reporter()
    prefix = Path(
        os.path.realpath(prefix)
    )  # Path.resolve is a traceback for a link that leads to itself
    check_prefix(prefix)
    stated = Stated(driver, arch, tuple(channel or ()), base)
    on, stated = machine_of(Note.read(prefix), stated, report)
    channels = built_catalogue(where, base_beside(base, channel, where), on.subdir, channel or ())
    pick = solve_request(specs, python, on, channels)
    asked = [*_asked(specs, stated.driver, stated.arch, python), *words_of(stated.channel_options)]
    try:
        made = create(
            pick, prefix, where.packages, report.say, asked, Terms(force=force, yes=yes), report
        )
    except WouldLose as error:
        report.result(would_remove=list(error.packages))
        raise
    _show_state(made)
    for kind, packages in made.changes.items():
        if kind in ("removed", "replaced") and len(packages) > _LINE:
            report.table(
                kind, ["package", "version"], [package.split(" ", 1) for package in packages]
            )
        elif packages:  # all others are in the table of packages
            report.line(f"{kind}: {listing(packages, most=_LINE)}")
    show_pick(pick, on, channels, report)
    _show_rest(made, on)


def add_command(
    prefix: Prefix,
    specs: Specs,
    driver: Driver = None,
    arch: Arch = None,
    channel: OtherChannels = None,
    base: Base = "local",
    move: Annotated[
        bool,
        typer.Option(
            "--move", help="Let its toolkit and its Python change, if the specs need that."
        ),
    ] = False,
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
    - `problems`: what is wrong with what pip installed in it: some of the `checks` of `ctk doctor`
    """
    from ctk.cli.change import (
        Stated,
        channels_of,
        machine_for_more,
        refuse_half_made,
        refuse_of_others,
        refuse_other_platform,
        refuse_worse,
        show_change,
        worse_as_json,
    )
    from ctk.cli.picks import REASON_LINES, show_toolkit, wanted_specs
    from ctk.env.add import plan, refuse_unreadable
    from ctk.env.environment import Terms, check_is_there, create
    from ctk.env.examine import examined
    from ctk.env.outside import refuse_reaching_out
    from ctk.env.request import with_more

    where, report = workspace(), Reporter()
    prefix = Path(os.path.realpath(prefix))
    check_is_there(prefix)
    wanted = wanted_specs(specs, None)
    stated = Stated(driver, arch, tuple(channel or ()), base)
    found = examined(where, prefix, driver, arch)
    refuse_other_platform(found)
    refuse_reaching_out(prefix, found.has.records)
    on = machine_for_more(found, stated, report)
    refuse_of_others(found, wanted, on)
    if found.is_stopped:
        refuse_half_made(found, wanted)
    else:
        refuse_unreadable(found)
    channels = channels_of(found, where, stated)
    planned = plan(found, wanted, on, channels, REASON_LINES)
    report.result(
        worse=[worse_as_json(one) for one in planned.change.worse],
        obstacle=planned.obstacle or None,
    )
    if planned.change.worse and not move:
        refuse_worse(found, planned, wanted, stated)
    asked = with_more(found.note.asked if found.note else (), wanted, stated.options)
    terms = Terms(yes=True, since=found.has.packages.keys())
    made = create(planned.pick, prefix, where.packages, report.say, asked, terms, report)
    _show_state(made)
    show_toolkit(planned.pinned_pick, on, channels, report)
    report.result(request=list(planned.pick.scenario.specs))
    if made.changes:
        show_change(planned, made.changes, report)
    _show_rest(made, on)


def _show_state(made: Environment) -> None:
    state = "changed" if made.changes else "created" if made.changed else "unchanged"
    Reporter().line(f"{state}: {made.prefix}")


def _show_rest(made: Environment, on: Machine) -> None:
    """Prints what is wrong with the wheels in an environment, and how to use it."""
    from ctk.cli.doctor import as_json
    from ctk.env.check import wrong_with_pip
    from ctk.env.examine import examined

    where, report = workspace(), Reporter()
    removed = [package.split()[0] for package in made.changes.get("removed", ())]
    wrong = wrong_with_pip(examined(where, made.prefix, on.driver or "none", on.arch))
    problems = [as_json(finding) for finding in wrong]
    report.result(prefix=str(made.prefix), changed=made.changed, removed=removed, problems=problems)
    for finding in wrong:
        report.line(f"{finding.check}: {finding.message}")
        report.line(f"to do: {finding.fix}")
    place = shlex.quote(str(made.prefix))
    # A terminal folds long lines, so each command has its own.
    ending = ".fish" if os.environ.get("SHELL", "").endswith("/fish") else ""
    report.line(f"to use it: . {place}/bin/activate{ending}")
    report.line(f"or: ctk env run {place} -- COMMAND")
    if (
        os.environ.get("VIRTUAL_ENV") == sys.prefix
    ):  # it was activated, and the environment's script leaves it
        report.line(f"after the first, ctk is {shlex.quote(f'{sys.prefix}/bin/ctk')}")


def _asked(specs: list[str], driver: str | None, arch: str | None, python: str | None) -> list[str]:
    """The words of a request that say what is asked for, and for which machine."""
    options = {"--driver": driver, "--arch": arch, "--python": python}
    return [
        *specs,
        *(
            word
            for option, value in options.items()
            if value is not None
            for word in (option, value)
        ),
    ]


def run_command(
    prefix: Prefix,
    command: Annotated[
        list[str],
        typer.Argument(metavar=VERBATIM, help="The command and its arguments, behind --."),
    ],
) -> None:
    """Run a command in an environment, activated as conda does it: PATH, CONDA_PREFIX and the
    scripts of its packages.

    It ends with the exit code of the command, and with 127 where there is no such command. Any
    conda environment will do. With --json, what the command prints goes to stderr, and a signal
    that tells ctk to end is passed on: 5 seconds later, whatever still runs is killed.

    Example: ctk env run ./my-env -- python -c "import cuda.core"

    JSON:
    - `prefix`, `command`, `exit_code`; what the command prints goes to stderr
    """
    from ctk.env.environment import check_is_whole, command_in

    check_is_whole(prefix)
    words = command_in(prefix.absolute(), command)
    environment = given_environment()
    if not console.mode().json:
        sys.stdout.flush()
        signal.signal(
            signal.SIGPIPE, signal.SIG_DFL
        )  # Python ignores it, and what is ignored stays so
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
    file: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write; others have its name and an ending."),
    ],
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
    from ctk.cli.picks import show_pick, solve_request
    from ctk.env.pack import PackOrder, check, pack
    from ctk.solve.channels import built_catalogue
    from ctk.solve.machine import machine

    where, report, on = workspace(), Reporter(), machine(platform, driver, arch)
    order = PackOrder(file.absolute(), force)
    check(order, on.subdir)
    channels = built_catalogue(where, base_beside(base, channel, where), on.subdir, channel or ())
    pick = solve_request(specs, python, on, channels)
    about = [
        f"asked for: {' '.join(specs)}",
        f"driver: {on.driver or 'none'}",
        f"GPU: {on.arch or ('not stated' if on.driver else 'none')}",
        f"toolkit: {pick.toolkit or 'none'}{' ' if pick.fit else ''}{pick.fit}",
        f"python: {pick.version('python')}",
    ]
    # Channels are left out: their addresses may be folders of this machine.
    asked = _asked(specs, driver, arch, python)
    contents, paths = pack(pick, about, order, where, report.say, asked)
    files = [(path, path.stat().st_size) for path in paths]
    total, unpacked = sum(size for _, size in files), contents.kibibytes * 1024
    report.result(
        files=[{"file": str(path), "size": size} for path, size in files],
        files_size=total,
        unpacked_size=unpacked,
        needs={"platform": contents.subdir, "glibc": contents.glibc},
    )
    report.line(
        f"packed: {count(len(files), 'file')}, {megabytes(total)} MB; {megabytes(unpacked)} MB"
        f" unpacked, for {contents.subdir} with glibc {contents.glibc} or newer; there: sh"
        f" {order.file.name} DIR"
    )
    rows = [(path.name, megabytes(size)) for path, size in files]
    report.table(str(order.file.parent), ["file", "MB"], rows, right=["MB"])
    show_pick(pick, on, channels, report)
