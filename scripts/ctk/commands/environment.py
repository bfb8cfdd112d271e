"""`ctk env create`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.commands import channels
from ctk.commands.options import Base, Driver
from ctk.commands.request import Arch, Python, Specs, ask
from ctk.environment import create
from ctk.machine import machine
from ctk.paths import workspace
from ctk.report import Reporter

app = typer.Typer(help="Environments made from the channel.", no_args_is_help=True)


@app.callback()
def _env() -> None:
    """Keeps `create` a command of its own name."""


@app.command("create")
def create_command(
    specs: Specs,
    prefix: Annotated[Path, typer.Option("--prefix", help="Folder of the environment.")],
    driver: Driver = None,
    arch: Arch = None,
    python: Python = None,
    base: Base = "local",
) -> None:
    """Create an environment from the channel, or bring one up to date.

    Example: ctk env create cuda-core --prefix ./my-env
    """
    where, report, on = workspace(), Reporter(), machine(None, driver, arch)
    asked = ask(specs, python, on, channels.installable(where, base, on.subdir))
    made = create(asked.pick, prefix.resolve(), where.cache / "packages")
    asked.show(report)
    report.console.print(f"{'created' if made.changed else 'unchanged'}: {made.prefix}", soft_wrap=True)
