"""All commands, as typer has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from ctk.cli.command_line import Folder
from ctk.cli.main import app
from ctk.cli.table import COMMANDS


def names(table: Mapping[str, str | Folder] = COMMANDS, before: str = "") -> Iterator[str]:
    """``plan``, ``release list`` and so on."""
    for name, entry in table.items():
        if isinstance(entry, Folder):
            yield from names(entry.commands, f"{before}{name} ")
        else:
            yield f"{before}{name}"


ALL = sorted(names())


def command(name: str) -> Any:
    """The command of a name."""
    found: Any = typer.main.get_command(app)
    for word in name.split():
        found = found.commands[word]
    return found
