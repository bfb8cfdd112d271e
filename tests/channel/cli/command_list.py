"""All commands, as typer has them, and command lines for a world of tests/system/faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import typer

from ctk.cli.main import COMMANDS, app
from kit.world import NEW, OLD, World

RECIPE = Path(__file__).with_name("recipe")
"""Somebody's, which needs no compiler."""
ALL = sorted(
    f"{name} {inner}".strip()
    for name, entry in COMMANDS.items()
    for inner in (entry[1] if isinstance(entry, tuple) else [""])
)
"""``plan``, ``release list`` and so on."""
Typed = Callable[..., CompletedProcess[str]]
"""Runs a command line, given as words."""


def command(name: str) -> Any:
    """The command of a name."""
    found: Any = typer.main.get_command(app)
    for word in name.split():
        found = found.commands[word]
    return found


def line(world: World, text: str, folder: Path) -> list[str]:
    """The words of a command line.

    ``{base}``, ``{channel}`` and so on stand for places in a world.
    """
    places = {"base": world.base, "channel": world.workspace.channel, "folder": folder}
    plans = {"new": " ".join(world.plan(NEW)), "both": " ".join(world.plan(OLD, NEW))}
    return text.format(**places, **plans).split()
