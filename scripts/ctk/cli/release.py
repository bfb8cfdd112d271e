"""``ctk release``: locks of releases from the package index, their facts, and their changes."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from ctk.cli.options import Platforms
from ctk.core.errors import BadValue
from ctk.diff import FORMS

Write = Annotated[
    bool, typer.Option("--write", help="Write the files; without it only the difference is shown.")
]


def _names(help_: str) -> Any:
    return typer.Argument(help=help_, metavar="RELEASE...")


def _no_toolkit_release(name: str) -> str:
    """Raises BadValue for a toolkit release; before the version is asked for, which it lacks."""
    if re.fullmatch(r"(cuda-)?\d+\.\d+", name):
        raise BadValue(
            f"{name} is a toolkit release, and this command takes out single versions that"
            " `ctk release add NAME VERSION` put into locks",
            "`ctk release list` shows those versions",
        )
    return name


def add_command(
    releases: Annotated[
        list[str] | None,
        _names(
            "Toolkit releases like 13.4, or python-13, libraries-13, or base. Or a library or a"
            " Python project, and one version of it."
        ),
    ] = None,
    newer: Annotated[
        bool,
        typer.Option("--newer", help="Add every newer release that is complete on the index."),
    ] = False,
    write_: Write = False,
) -> None:
    """Lock the newest patch of toolkit minors, and the Python projects of their majors.

    It can also lock the base channel. It shows the difference to the current locks. Facts stay
    while the measured files stay the same. A release that is not complete on the index is refused.
    A line names changed licences; `ctk release diff` shows their texts.

    With the name of a library or a Python project and a version, it also locks that version, for
    each CUDA major that has a wheel of it, and what that version requires. Other projects stay as
    they are. The version stays when the lock is written again.

    Examples: ctk release add 12.9 13.4 --write
    ctk release add nvcomp 5.3.0.16 --write

    JSON:
    - `releases` (names), `written`, `unmeasured` (minors); `changes`: `file`, `diff`
    - `refused`: with a version, the lock that cannot have it -> why
    - `unread_texts`: licence texts that nobody has read: `release`, `component`, `version`, `text`
      (sha256)
    """
    from ctk.cli.work import release  # late: help does without, as with all of a command's work

    release.add(releases or (), newer=newer, is_written=write_)


def remove_command(
    project: Annotated[
        str,
        typer.Argument(
            help="A library or a Python project.", metavar="NAME", callback=_no_toolkit_release
        ),
    ],
    version: Annotated[str, typer.Argument(help="A version of it.", metavar="VERSION")],
    write_: Write = False,
) -> None:
    """Take a version out of the locks that `ctk release add NAME VERSION` put there.

    What only this version required is removed as well. The command shows the difference to the
    current locks. Versions that you did not add by name stay.

    Example: ctk release remove nvcomp 5.3.0.16 --write

    JSON:
    - `releases`, `written`, `changes`, as `release add`
    """
    from ctk.cli.work import release

    release.remove(project, version, is_written=write_)


def measure_command(
    releases: Annotated[
        list[str] | None,
        _names("Toolkit releases like 13.4, or libraries-13, python-13; all without any."),
    ] = None,
    write_: Write = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again what is already measured.")
    ] = False,
) -> None:
    """Measure the facts of releases from their artefacts.

    The facts are the GPUs that NVRTC targets, the PTX ISA, glibc, code for GPUs, and the
    contents of the artefacts, for `ctk lint --planned`. The command names licence texts that
    nobody has read. It reads only files that are not measured yet. Files that are not in the
    cache are fetched one after another, 3 to 8 GB for a new release, and removed again. You
    need a linux-64 machine, but no GPU and no driver.

    Example: ctk release measure 13.4 --write

    JSON:
    - `releases`, `written`, `changes`, as `release add`; `facts`: release -> what was measured;
      `gpu_code`: release -> component -> platform -> the GPUs that its code runs on, as a version
      spec; `unread_texts`, as `release add`
    """
    from ctk.cli.work import release

    release.measure(releases or (), again=again, is_written=write_)


def check_command(
    releases: Annotated[
        list[str] | None,
        _names("Toolkit releases like 13.4; by default the locked and the newer ones."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="Also check which toolkits a channel such as conda-forge compiles packages with."
        ),
    ] = None,
) -> None:
    """Show versions on the package index that are newer than the locks.

    It also shows how complete each toolkit release is there. If you name no releases, it shows only
    what needs a look, newer versions first; -v shows every row. Then it also says whether the
    default set has the toolkits that conda-forge and RAPIDS compile with, and when that was last
    read. It takes that from this checkout, and asks no server.

    Example: ctk release check 13.4

    JSON:
    - `rows`: `release`, `what`, `locked`, `lockable`, `newest`, `is_newer`, `held_back` (why the
      newest is not lockable), `older` (version that is lockable beside it -> why, in sentences);
      `newer`: the releases with newer rows
    - `releases`: `release`, `version`, `complete`, `wanted`, `missing`, `problem`
    - `compiles_with`: `channel`, `minors`, `source`, `read` (a date); `table` (of pyproject.toml)
      and the minors `stated` there; `lacking`: those that the default set has not
    - `compiled_with`: with `--base`, the newest toolkit of each CUDA major that packages of that
      channel are compiled with
    - `unread_texts`, as `release add`
    """
    from ctk.cli.work import release

    release.check(releases or (), base)


def list_command() -> None:
    """Show the locked releases: how many components are packaged or left out, and their facts.

    Example: ctk release list

    JSON:
    - `releases`: `name`, `release`, `components` (name, or name-version of an older one ->
      version), `packaged`, `excluded`, `unclassified`, `facts`; `added`: component -> a version
      that `release add NAME VERSION` locked -> what requires it, "" for the one that was named
    """
    from ctk.cli.work import locks

    locks.list_locks()


def diff_command(
    old: Annotated[str, typer.Argument(help=f"The first release: {FORMS}.", metavar="OLD")],
    new: Annotated[
        str,
        typer.Argument(help="The second release, written in one of the same ways.", metavar="NEW"),
    ],
    platforms: Platforms = None,
) -> None:
    """Show the changes between two releases: versions, SONAMEs, GPU architectures, sizes, licences.

    The output is Markdown. It compares the locks and variants/contents.json, and reads only the
    texts of changed licences from the index. It flags a SONAME, a component or a GPU architecture
    that is removed within a CUDA major.

    Examples: ctk release diff 13.3 13.4
    ctk release diff HEAD:13.4 13.4

    JSON:
    - `old`, `new`, `within_major`; `gpu_architectures` and `ptx_isa`, each with `old` and `new`;
      `gpu_code`: `component`, `platform`, `old`, `new`: the GPUs that its code runs on, where that
      changed
    - `components`: `components`, `platform`, `same`; `old` and `new`: `versions`, `size`, `glibc`
      and `sonames` (null if not measured)
    - `gone`: `kind`, `platform`, `place`, `text`
    - `licences`, one for each kind of change: `components`; `old` and `new`, as declared; `diff`:
      the lines that changed in the texts
    """
    from ctk.cli.work import diff

    diff.show_diff(old, new, platforms or ())
