"""`ctk doctor`: this machine and checkout, or an environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctk.cli.options import Arch, Driver, OtherChannels, base_channel
from ctk.core.checkout import known_workspace, workspace
from ctk.core.console import Reporter, count, listing
from ctk.core.errors import BadValue, NotReady
from ctk.core.secrets import without_credentials

if TYPE_CHECKING:
    from rich.table import Table

    from ctk.rules import Check, Finding

Keep = Annotated[
    bool,
    typer.Option(
        "--keep", help="Remember the channels of --channel, for all commands without a checkout."
    ),
]
KeptBase = Annotated[
    str | None,
    typer.Option("--base", help="With --keep: their base channel, if it is not conda-forge."),
]

_COLOURS = {"ok": "green", "hint": "yellow", "error": "bold red"}


def doctor_command(
    prefix: Annotated[
        Path | None,
        typer.Argument(help="Folder of an environment; without it, this machine and checkout."),
    ] = None,
    driver: Driver = None,
    arch: Arch = None,
    channel: OtherChannels = None,
    base: KeptBase = None,
    keep: Keep = False,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not contact the package index or channels on servers."),
    ] = False,
) -> None:
    """Check this machine or an environment, and say how to fix what is wrong.

    Without PREFIX, the command fails if ./scripts/build or ./scripts/test would not work here.
    Other lines name what only some commands need. If ctk is installed without a checkout, the
    command fails if it knows no channel. PREFIX can be any conda environment, for this machine or
    another one. The command fails if something is wrong with it.

    Examples: ctk doctor
    ctk doctor --channel https://conda.example.org/cuda --keep
    ctk doctor ./my-env
    ctk doctor $CONDA_PREFIX --driver 13.0 --arch 9.0

    JSON:
    - `ready`: whether ./scripts/build and ./scripts/test would work; without a checkout, whether
      a channel is known and answers
    - `kept`: with `--keep`, the file that has the channels
    - `checks`: `check`, `needed`, `state` (`ok`, `note` or `problem`), `found`, `step`

    With PREFIX, of the environment:

    - `ok`, `prefix`; `machine`: `platform`, `driver`, `gpu`
    - `checks`: `check`, `state` (`ok`, `problem`, or `note`, which is only a hint), `found`,
      `why`, `step`
    """
    if keep and workspace().is_checkout:
        raise BadValue(
            "commands in a checkout use the channel that it builds, so --keep has no effect there",
            "leave it out, and name another channel with --channel",
        )
    if prefix is None:
        if driver or arch:
            stated = (("--driver", driver), ("--arch", arch))
            words = [word for option, value in stated if value for word in (option, value)]
            step = f"name its folder: {shlex.join(['ctk', 'doctor', './my-env', *words])}"
            raise BadValue("--driver and --arch are for an environment", step)
        _machine(channel or (), offline)
        if keep:
            _keep(channel or (), base or "")
    else:
        _refuse_of_machine({"--channel": channel, "--keep": keep, "--offline": offline})
        _environment(prefix, driver, arch)


# The imports below are late: what looks at machines is slow to import, and help does without.


def _refuse_of_machine(given: Mapping[str, object]) -> None:
    """Refuses the options that are about this machine, where an environment is named."""
    typed = [option for option, value in given.items() if value]
    if typed:
        verb = "is" if len(typed) == 1 else "are"
        cause = f"{listing(typed)} {verb} for this machine, but you named an environment"
        raise BadValue(cause, f"leave out {listing(typed)}, or the environment")


def _machine(channels: Sequence[str], offline: bool) -> None:
    from ctk.env.doctor import CHECKS, OF_A_USER, Where, look

    workspace, report = known_workspace(), Reporter()
    source = ""
    if not (channels or workspace.is_checkout):
        channels, source = _own_channels()
    named = tuple(base_channel(name, workspace) for name in channels)
    checks = CHECKS if workspace.is_checkout else OF_A_USER
    found = look(checks, Where(workspace, offline, named, source))
    problems = [check.name for check, finding in found if finding.severity == "error"]
    report.result(
        ready=not problems,
        checks=[
            {**as_json(finding), "needed": check.severity == "error"} for check, finding in found
        ],
    )
    if not problems:
        works = "./scripts/build and ./scripts/test work here"
        report.line(f"ready: {works if workspace.is_checkout else 'the channel answers'}")
    report.console.print(table(found))
    if problems:
        names = ", ".join(problems)
        raise NotReady(
            f"{count(len(problems), 'problem')}: {names}",
            "fix each as its line says, and run it again",
        )


def _own_channels() -> tuple[tuple[str, ...], str]:
    """The user's own channels, and how they are known; none if they are not."""
    from ctk.core.own_channels import own_channels

    own = own_channels()
    if own is None:
        return (), ""
    source = f"kept in {own.source}" if own.is_kept else f"this ctk came from it: {own.source}"
    if own.base:
        source += f"; its base is {without_credentials(own.base)}"
    return own.channels, source


def _keep(channels: Sequence[str], base: str) -> None:
    """Keeps channels in the user's configuration."""
    from ctk.core.own_channels import keep

    file, report = keep(channels, base), Reporter()
    report.result(kept=str(file))
    report.line(f"kept in {file}: commands use it where you name no other --channel")


def _environment(prefix: Path, driver: str | None, arch: str | None) -> None:
    from ctk.env.check import ENVIRONMENT_CHECKS
    from ctk.env.doctor import look
    from ctk.env.environment import refuse_missing
    from ctk.env.examine import examined

    report = Reporter()
    refuse_missing(prefix)
    found = examined(workspace(), prefix.absolute(), driver, arch)
    only = "files" if found.is_stopped else ""
    if found.reaching_out:  # the steps of the others change the environment
        only = "records"
    checks = [check for check in ENVIRONMENT_CHECKS if only in ("", check.name)]
    seen, machine = look(checks, found), found.machine
    problems = [check.name for check, finding in seen if finding.severity == "error"]
    report.result(
        ok=not problems,
        prefix=str(found.prefix),
        machine={"platform": machine.subdir, "driver": machine.driver, "gpu": machine.arch},
        checks=[{**as_json(finding), "why": check.help} for check, finding in seen],
    )
    if not problems:
        report.line(f"nothing is wrong with {prefix} ({machine.subdir}, {machine.words})")
    report.console.print(table(seen, why=True))
    if problems:
        raise NotReady(
            f"{count(len(problems), 'problem')} in {prefix}: {', '.join(problems)}",
            "do what each line says after `to do`",
        )


def as_json(finding: Finding) -> dict[str, Any]:
    """A finding for other programs."""
    from ctk.env.doctor import state

    return {
        "check": finding.check,
        "state": state(finding.severity),
        "found": finding.message,
        "step": finding.fix or None,
    }


def table(found: Sequence[tuple[Check[Any], Finding]], *, why: bool = False) -> Table:
    """The findings of checks; with `why`, each finding that is not ok has the help of its check."""
    from rich.table import Table
    from rich.text import Text

    from ctk.env.doctor import state

    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check, finding in found:
        text = Text(finding.message)
        if why and finding.severity != "ok":
            text.append(f"\nwhy: {check.help}", "dim")
        if finding.fix and finding.severity != "ok":
            text.append(f"\nto do: {finding.fix}", "dim")
        table.add_row(
            Text(state(finding.severity), _COLOURS[finding.severity]),
            Text(check.name, "bold"),
            text,
        )
    return table
