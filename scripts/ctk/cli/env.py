"""`ctk env`: environments are created from a channel, commands run in them, and they are packed."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

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
from ctk.core.errors import Stopped
from ctk.core.files import release_folders

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
    force: Annotated[
        bool, typer.Option("--force", help="Also remove packages that this command did not install.")
    ] = False,
) -> None:
    """Create an environment from the channel, or change one that this command created.

    It has what is asked for now and nothing else, and the output says what that changed. A folder with other files is
    refused, and so is an environment with packages of other tools.

    Example: ctk env create cuda-core --prefix ./my-env

    JSON:
    Those of `ctk solve`, and

    - `prefix`, `changed`; `removed`: names of packages that were there before
    - `problems`: what is wrong with what pip installed in it: some of the `checks` of `ctk doctor`
    """
    from ctk.cli.doctor import as_json
    from ctk.cli.solve import show_pick, solve_request
    from ctk.env.check import wrong_with_pip
    from ctk.env.environment import check as check_prefix
    from ctk.env.environment import create
    from ctk.env.examine import examined
    from ctk.env.prefix import Note
    from ctk.solve.channels import built_catalogue
    from ctk.solve.machine import machine

    where, report, on = workspace(), Reporter(), machine(None, driver, arch)
    prefix = Path(os.path.realpath(prefix))  # Path.resolve is a traceback for a link that leads to itself
    check_prefix(prefix)
    before = note.machine if (note := Note.read(prefix)) else {}
    was = machine(None, before.get("--driver"), before.get("--arch")) if before else on
    if before and not on.driver and not on.stated and arch is None:
        report.line(f"for the same machine as before: {was.words}; here: {on.words}")
        driver, arch, on = before.get("--driver"), before.get("--arch"), was
    elif (was.driver, was.arch) != (on.driver, on.arch):
        report.line(f"for another machine than before: {on.words}; before: {was.words}")
    channels = built_catalogue(where, base_beside(base, channel, where), on.subdir, channel or ())
    pick = solve_request(specs, python, on, channels)
    asked = _asked(specs, driver, arch, python)
    asked += [word for name in channel or () for word in ("--channel", name)]
    asked += ["--base", base] if base != "local" else []
    made = create(pick, prefix, where.packages, report.say, asked, force, report)
    state = "changed" if made.changes else "created" if made.changed else "unchanged"
    report.line(f"{state}: {made.prefix}")
    for kind, packages in made.changes.items():
        if kind in ("removed", "replaced") and len(packages) > _LINE:
            report.table(kind, ["package", "version"], [package.split(" ", 1) for package in packages])
        elif packages:  # all others are in the table of packages
            report.line(f"{kind}: {listing(packages, most=_LINE)}")
    show_pick(pick, on, channels, report)
    removed = [package.split()[0] for package in made.changes.get("removed", ())]
    wrong = wrong_with_pip(examined(where, made.prefix, driver, arch))
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
    if os.environ.get("VIRTUAL_ENV") == sys.prefix:  # it was activated, and the environment's script leaves it
        report.line(f"after the first, ctk is {shlex.quote(f'{sys.prefix}/bin/ctk')}")


def _asked(specs: list[str], driver: str | None, arch: str | None, python: str | None) -> list[str]:
    """The words of a request that say what is asked for, and for which machine."""
    options = {"--driver": driver, "--arch": arch, "--python": python}
    return [*specs, *(word for option, value in options.items() if value is not None for word in (option, value))]


def run_command(
    prefix: Prefix,
    command: Annotated[list[str], typer.Argument(metavar=VERBATIM, help="The command and its arguments, behind --.")],
) -> None:
    """Run a command in an environment, activated as conda does it: PATH, CONDA_PREFIX and the scripts of its packages.

    It ends with the exit code of the command, and with 127 where there is no such command. Any conda environment will
    do. With --json, what the command prints goes to stderr, and a signal that tells ctk to end is passed on: 5 seconds
    later, whatever still runs is killed.

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
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what is ignored stays so
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
    file: Annotated[Path, typer.Option("--output", "-o", help="File to write; others have its name and an ending.")],
    driver: Driver = None,
    arch: Arch = None,
    platform: Platform = None,
    python: Python = None,
    channel: OtherChannels = None,
    base: Base = "local",
    force: Annotated[bool, typer.Option("--force", help="Replace a pack of that name.")] = False,
) -> None:
    """Pack an environment into a program that unpacks it on an air-gapped machine.

    There, `sh FILE DIR` unpacks and `sh FILE DIR COMMAND` also runs something in it. FILE.lock lists the packages and
    FILE.sha256 the hashes. State the driver and the GPU of that machine: this one's are taken otherwise. What pip
    installed in an environment is in no pack.

    Example: ctk env pack cuda-core --driver 13.0 --arch 9.0 -o cuda-core.run

    JSON:
    Those of `ctk solve`, and

    - `files`: `file`, `size`; `files_size`, `unpacked_size`; `needs`: `platform`, `glibc`
    """
    from ctk.cli.solve import show_pick, solve_request
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
        f"packed: {count(len(files), 'file')}, {megabytes(total)} MB; {megabytes(unpacked)} MB unpacked, for "
        f"{contents.subdir} with glibc {contents.glibc} or newer; there: sh {order.file.name} DIR"
    )
    rows = [(path.name, megabytes(size)) for path, size in files]
    report.table(str(order.file.parent), ["file", "MB"], rows, right=["MB"])
    show_pick(pick, on, channels, report)
