"""`ctk publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.paths import workspace
from ctk.publish import Target, in_order, publish
from ctk.report import Reporter, count


def publish_command(
    server: Annotated[
        str, typer.Option("--server", envvar="CTK_SERVER", help="URL of a server with prefix.dev's protocol.")
    ],
    channel: Annotated[str, typer.Option("--channel", envvar="CTK_CHANNEL", help="Name of the channel on the server.")],
    folder: Annotated[
        Path | None, typer.Argument(help="A built channel; output/channel by default.", metavar="[FOLDER]")
    ] = None,
    attest: Annotated[
        bool, typer.Option("--attest", help="With a signed attestation of the CI job that built the packages.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the packages in order, and upload nothing.")] = False,
) -> None:
    """Upload a built channel to a server; what is there already is skipped.

    The server's key is what rattler keeps for it (RATTLER_AUTH_FILE), or none for a trusted publisher in CI.
    Example: ctk publish --server https://conda.example.org --channel cuda --dry-run
    """
    report = Reporter()
    files = in_order((folder or workspace().channel).resolve())
    if dry_run:
        for file in files:
            print(f"{file.parent.name}/{file.name}")
        return
    with report.task("upload", len(files)) as task:
        publish(files, Target(server, channel, attest), lambda file: task.advance(1))
    report.say(f"{count(len(files), 'package')} are in the channel {channel}")
