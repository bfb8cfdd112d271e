"""`ctk doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ctk.check.doctor import CHECKS, Check, Seen, State, look
from ctk.check.doctor.check import Where
from ctk.core.checkout import checkout
from ctk.core.console import Reporter, count
from ctk.core.errors import NotReady

_COLOURS = {State.OK: "green", State.MISSING: "yellow", State.PROBLEM: "bold red"}


def doctor_command(
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the package index.")] = False,
) -> None:
    """Say what this machine has, what is missing, and what to do about it.

    Fails when ./scripts/build and ./scripts/test would not work. What is missing otherwise is needed by some commands
    or tests only; the line says which, or what to do.

    Examples: ctk doctor
    ctk doctor --offline --json
    """
    report = Reporter()
    found = look(CHECKS, Where(checkout(), offline))
    problems = [(check, seen) for check, seen in found if check.needed and seen.state is State.PROBLEM]
    report.result(
        ready=not problems, checks=[{**as_json(check, seen), "needed": check.needed} for check, seen in found]
    )
    report.console.print(table(found))
    if problems:
        names = ", ".join(check.name for check, _ in problems)
        raise NotReady(f"{count(len(problems), 'problem')}: {names}", "mend each as its line says, and run it again")
    report.line("ready: ./scripts/build and ./scripts/test work here")


def as_json(check: Check, seen: Seen) -> dict[str, Any]:
    """What a check saw, for other programs."""
    return {"check": check.name, "state": str(seen.state), "found": seen.text, "step": seen.step or None}


def table(found: Sequence[tuple[Check, Seen]], *, why: bool = False) -> Table:
    """What checks saw; with `why`, what it matters where one is not content."""
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check, seen in found:
        text = Text(seen.text)
        if why and seen.state is not State.OK:
            text.append(f"\nwhy: {check.why}", "dim")
        if seen.step and seen.state is not State.OK:
            text.append(f"\nto do: {seen.step}", "dim")
        table.add_row(Text(seen.state, _COLOURS[seen.state]), Text(check.name, "bold"), text)
    return table
