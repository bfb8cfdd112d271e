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
    EnvironmentName,
    File,
    OtherChannels,
    Platform,
    Python,
    Specs,
    SpecsBesideFile,
    not_both,
)
from ctk.core import console
from ctk.core.checkout import given_environment
from ctk.core.children import run_in_front
from ctk.core.errors import BadValue, Stopped
from ctk.core.locks import release_folders

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
ModuleName = Annotated[
    str,
    typer.Argument(metavar="NAME/VERSION", help="Its name for `module load`, such as gpu/13.0."),
]
ModuleFolder = Annotated[
    Path, typer.Option("--to", help="Folder of the module files, for `module use`.")
]
PackFile = Annotated[
    Path,
    typer.Option("--output", "-o", help="File to write; others have its name and an ending."),
]


def create_command(
    prefix: NewPrefix,
    specs: SpecsBesideFile = None,
    file: File = None,
    environment: EnvironmentName = None,
    driver: Driver = None,
    arch: Arch = None,
    python: Python = None,
    channel: OtherChannels = None,
    base: Base = "local",
    yes: LetGo = False,
    force: RemoveOthers = False,
) -> None:
    """Create an environment from the channel, or change one that this command created.

    The environment gets what you ask for now and nothing else, and the output says what changed.
    If packages would be removed because you do not name them now, the command lists them and
    changes nothing without --yes; `ctk env add` keeps them. It refuses a folder with other files,
    and an environment with packages of other tools. With --file, the environment gets what the
    file asks conda for, as `ctk solve FILE` shows it.

    Example: ctk env create cuda-core --prefix ./my-env

    JSON:
    Those of `ctk solve`, and

    - `prefix`, `changed`; `removed`: names of packages that were there before
    - `would_remove`: with the error `WouldLose`, the packages that would go: name and version
    - with `--file`, what `ctk solve` has of a file, and `of_pip`: its requirements that are left
    - `problems`: NVIDIA's wheels beside its CUDA, as a check of `ctk doctor`
    """
    from ctk.cli.work import env  # late: help does without
    from ctk.cli.work.change import Stated

    stated = Stated(driver, arch, tuple(channel or ()), base)
    place = Path(os.path.realpath(prefix))
    not_both("SPECS", "--file", specs and file)
    if environment and not file:
        raise BadValue("--environment applies to a file", "name it with --file")
    if not specs and not file:
        raise BadValue(
            "no packages are named", "name specs, as in cuda-core, or a file with --file"
        )

    def create(wanted: list[str]) -> None:
        env.create_environment(wanted, place, stated, python, force=force, yes=yes)

    if file is None:
        create(specs or [])
    else:
        env.create_from_file(file, prefix, environment, stated, create)


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

    The toolkit, Python and everything that you asked for stay, and as many other packages as
    possible. If the toolkit would have to change, the command says why, and changes nothing without
    --move. It solves for the machine and the channels that the environment was made for, unless you
    state others. `ctk solve SPEC --prefix PREFIX` shows the change without making it.

    Example: ctk env add ./my-env numba-cuda

    JSON:
    Those of `ctk solve`, and

    - `prefix`, `changed`; `removed`: names of packages that were there before
    - `worse`: what gets worse, as that of `ctk solve --prefix`; `obstacle`: why that cannot be
      avoided, or null
    - `problems`: NVIDIA's wheels beside its CUDA, as a check of `ctk doctor`
    """
    from ctk.cli.work import env
    from ctk.cli.work.change import Stated

    stated = Stated(driver, arch, tuple(channel or ()), base)
    env.add_packages(Path(os.path.realpath(prefix)), specs, stated, move=move)


def run_command(prefix: Prefix, command: CommandLine) -> None:
    """Run a command in an environment that is activated as conda does it.

    The command gets PATH, CONDA_PREFIX and what the scripts of packages set. `ctk env run` ends
    with its exit code, or with 127 if there is no such command. PREFIX can be any conda
    environment. With --json, what the command prints goes to stderr. A signal that tells ctk to end
    is passed on, and 5 seconds later what still runs is killed.

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

    There, `sh FILE DIR` unpacks it, and `sh FILE DIR COMMAND` also runs a command in it. FILE.lock
    lists the packages, and FILE.sha256 the hashes. State the driver and the GPU of that machine;
    otherwise, those of this machine are used. A pack does not contain what pip installed.

    Example: ctk env pack cuda-core --driver 13.0 --arch 9.0 -o cuda-core.run

    JSON:
    Those of `ctk solve`, and

    - `files`: `file`, `size`; `files_size`, `unpacked_size`; `needs`: `platform`, `glibc`
    """
    from ctk.cli.work import env
    from ctk.cli.work.change import Stated

    stated = Stated(driver, arch, tuple(channel or ()), base)
    env.pack_environment(specs, file, stated, platform, python, force=force)


def module_command(
    prefix: Prefix,
    module: ModuleName,
    to: ModuleFolder,
    force: Annotated[bool, typer.Option("--force", help="Replace other module files.")] = False,
) -> None:
    """Write module files with which `module load` activates an environment.

    One file is for Lmod, the other for Environment Modules 4.6 or newer. Both activate the
    environment as `. PREFIX/bin/activate` does, and `module unload` undoes it. Two versions of one
    name are never loaded together. The environment can come from `ctk env create` or from a pack.
    If you move it, write the files again.

    Example: ctk env module ./my-env gpu/13.0 --to ./modules

    JSON:
    - `prefix`, `module`, `files`
    """
    from ctk.env.environment import refuse_unfinished
    from ctk.env.modulefile import Module, texts, write

    refuse_unfinished(prefix)
    place, folder = prefix.absolute(), to.absolute()
    files = texts(Module.parse(module), place, f"activates {place}")
    written = write(folder, files, force=force)
    report = console.Reporter()
    report.result(prefix=str(place), module=module, files=[str(file) for file in written])
    for file in written:
        report.line(f"written: {file}")
    report.line(f"to use it: module use {shlex.quote(str(folder))}; module load {module}")
