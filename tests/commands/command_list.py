"""All commands, as typer has them."""

from __future__ import annotations

from typing import Any

import typer

from ctk.cli.main import COMMANDS, app

ALL = sorted(
    f"{name} {inner}".strip()
    for name, entry in COMMANDS.items()
    for inner in (entry[1] if isinstance(entry, tuple) else [""])
)
"""``plan``, ``release list`` and so on."""


def command(name: str) -> Any:
    """The command of a name."""
    found: Any = typer.main.get_command(app)
    for word in name.split():
        found = found.commands[word]
    return found
