"""`ctk doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from ctk.rules import Check, Finding

from ctk.core.checkout import checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import NotReady

_COLOURS = {"ok": "green", "hint": "yellow", "error": "bold red"}


def doctor_command(
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the package index.")] = False,
) -> None:
    """Say what this machine has, what is missing, and what to do about it.

    Fails when ./scripts/build and ./scripts/test would not work. What is missing otherwise is needed by some commands.

    Examples: ctk doctor
    ctk doctor --offline --json
    """
    from ctk.env.doctor import CHECKS, Where, look

    report = Reporter()
    found = look(CHECKS, Where(checkout(), offline))
    problems = [check.name for check, finding in found if finding.severity == "error"]
    report.result(
        ready=not problems,
        checks=[{**as_json(finding), "needed": check.severity == "error"} for check, finding in found],
    )
    report.console.print(table(found))
    if problems:
        names = ", ".join(problems)
        raise NotReady(f"{count(len(problems), 'problem')}: {names}", "mend each as its line says, and run it again")
    report.line("ready: ./scripts/build and ./scripts/test work here")


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
    """The findings; with `why`, what it matters where one is not content."""
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
        table.add_row(Text(state(finding.severity), _COLOURS[finding.severity]), Text(check.name, "bold"), text)
    return table
