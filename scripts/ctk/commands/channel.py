"""`ctk channel`: whether a channel is what its index says, and the way back to an older state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ctk import channel as built
from ctk.history import History
from ctk.paths import workspace
from ctk.publishing.folder import HISTORY, Folder
from ctk.report import Reporter, count
from ctk.runlock import exclusive

app = typer.Typer(no_args_is_help=True, help="Check a channel, and return to an older state of it.")
Channel = Annotated[
    Path | None,
    typer.Argument(
        help="A built channel, or a folder that was published to; output/channel by default.", metavar="[CHANNEL]"
    ),
]


@app.command("history")
def history_command(
    channel: Channel = None,
    as_json: Annotated[bool, typer.Option("--json", help="The states as JSON.")] = False,
) -> None:
    """List the states that a channel can return to.

    Example: ctk channel history /srv/www/cuda
    """
    known = _history(channel or workspace().channel)
    if as_json:
        states = [{**vars(s), "current": s.number == known.current} for s in known.states]
        print(json.dumps(states, indent=1))
        return
    rows = [
        (
            s.number,
            s.made,
            s.packages,
            "" if s.before is None else s.before,
            "readers see it" if s.number == known.current else "",
        )
        for s in known.states
    ]
    report = Reporter()
    report.table(
        f"states of {known.channel}",
        ["state", "made", "packages", "followed", ""],
        rows,
        ["state", "packages", "followed"],
    )


@app.command("rollback")
def rollback_command(
    channel: Channel = None,
    to: Annotated[
        int | None, typer.Option("--to", help="The state; by default the one before what readers see.")
    ] = None,
) -> None:
    """Let readers see the index before, or another state that is kept.

    The state that is left is kept too: `--to` with its number returns to it. The next build or publishing adds to what
    readers see then.
    Example: ctk channel rollback /srv/www/cuda --to 4
    """
    place, where, report = channel or workspace().channel, workspace(), Reporter()
    if _is_published(place):
        state = Folder(place, where.recipes).rollback(to)
    else:
        with exclusive(where, report.say):
            state = built.rollback(place, to)
    report.say(f"{place} shows state {state.number} of {state.made}: {count(state.packages, 'package')}")


def _history(place: Path) -> History:
    return Folder(place, workspace().recipes).history() if _is_published(place) else built.history(place)


def _is_published(place: Path) -> bool:
    return (place / HISTORY).is_dir()
