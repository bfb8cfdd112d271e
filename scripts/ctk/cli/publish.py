"""`ctk publish`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ctk.channel.attesting import Sigstore
from ctk.channel.cleaning import Keep
from ctk.channel.folder import Folder
from ctk.channel.index_files import read_index
from ctk.channel.names import clashes, on_server, refuse
from ctk.channel.publish import Target, in_order, publish
from ctk.core.errors import BadValue, without_credentials
from ctk.core.paths import workspace
from ctk.core.report import Reporter, count


def publish_command(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="A built channel; output/channel by default.", metavar="FOLDER")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="A folder that a web server hands out; made if need be.")
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", envvar="CTK_SERVER", help="URL of a server with prefix.dev's protocol.")
    ] = None,
    channel: Annotated[
        str | None, typer.Option("--channel", envvar="CTK_CHANNEL", help="Name of the channel on the server.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="CTK_CHANNEL_URL", help="URL of the channel; that of the server by default."),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="With --server: the channel has no index yet, so no name is taken in it.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="With --to: what FOLDER lacks leaves the index; its files stay for a while.")
    ] = False,
    skip_taken: Annotated[
        bool,
        typer.Option(
            "--skip-taken", help="Leave out packages whose names have other content there, and publish the rest."
        ),
    ] = False,
    keep: Annotated[int, typer.Option("--keep", min=2, help="With --to: states that can be returned to.")] = 10,
    keep_days: Annotated[
        int, typer.Option("--keep-days", min=0, help="With --to: days that a package stays after the last such state.")
    ] = 7,
    attest: Annotated[
        bool, typer.Option("--attest", help="With a signed attestation of the CI job that built the packages.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the packages in order, and publish nothing.")
    ] = False,
) -> None:
    """Publish a built channel into a folder or to a server; what is there already is skipped.

    A name that is taken by other content is refused. The server's key is what rattler keeps for it
    (RATTLER_AUTH_FILE), or none for a trusted publisher in CI.

    Examples: ctk publish --to /srv/www/cuda
    ctk publish --server https://conda.example.org --channel cuda --dry-run
    """
    source = context.get_parameter_source("server")
    # CTK_SERVER in the environment may name a server for other runs.
    if to is not None and source is not None and source.name == "COMMANDLINE":
        raise BadValue("--to and --server exclude each other", "publish twice, into the folder and to the server")
    report, where = Reporter(), workspace()
    built = Path(os.path.realpath(folder or where.channel))
    files = in_order(built)
    if dry_run:
        report.result(packages=_names(files))
        for name in _names(files):
            report.line(name)
        return
    if to is not None:
        if attest and not url:
            raise BadValue("an attestation says for which channel a package is", "name its URL with --url")
        target = Folder(to, where.recipes, Keep(keep, timedelta(days=keep_days)))
        with report.task("publish", len(files)) as task:
            done = target.publish(
                built,
                exact=exact,
                skip_taken=skip_taken,
                attester=Sigstore(url or "") if attest else None,
                progress=lambda name: task.advance(1),
            )
        changes = [f"{len(done.added)} new"]
        changes += [f"{len(done.left)} no longer in the index"] if done.left else []
        changes += [f"{len(done.skipped)} left out, their names being taken"] if done.skipped else []
        changes += [f"{len(done.deleted)} deleted after {keep_days} days without use"] if done.deleted else []
        report.result(
            folder=str(to),
            state=done.state,
            packages=done.packages,
            added=done.added,
            left=done.left,
            left_out=done.skipped,
            deleted=done.deleted,
        )
        report.line(f"state {done.state} of {to}: {count(done.packages, 'package')}, {', '.join(changes)}")
        return
    if not server or not channel:
        raise BadValue("there is no place to publish to", "name a folder with --to, or --server and --channel")
    address = url or f"{server.rstrip('/')}/{channel}"
    found = [] if new else clashes(read_index(built).names(), on_server(address))
    if not skip_taken:
        refuse(found, address, where.recipes)
    taken = {clash.file for clash in found}
    files = [file for file in files if f"{file.parent.name}/{file.name}" not in taken]
    with report.task("upload", len(files)) as task:
        publish(files, Target(server, channel, attest), lambda file: task.advance(1))
    left = f"; {len(taken)} were left out, their names being taken" if taken else ""
    report.result(server=without_credentials(server), channel=channel, packages=_names(files), left_out=sorted(taken))
    report.line(f"{count(len(files), 'package')} are in the channel {channel}{left}")


def _names(files: Sequence[Path]) -> list[str]:
    return [f"{file.parent.name}/{file.name}" for file in files]
