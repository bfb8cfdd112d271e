"""`ctk publish`, `ctk rollback`, `ctk site`, `ctk clean`: for the keeper of a built channel."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import PublishOptions, SiteOptions, not_both, refuse_address, with_options
from ctk.core.address import bucket_address, server_address
from ctk.core.errors import BadValue


@with_options
def publish_command(context: typer.Context, options: PublishOptions) -> None:
    """Publish a built channel into a folder, into a bucket of S3, or to a server.

    Servers are named by their kind: prefix+https://HOST/CHANNEL, quetz+https://HOST/CHANNEL,
    artifactory+https://HOST/artifactory/REPOSITORY, anaconda+https://HOST/OWNER/LABEL or
    cloudsmith+https://HOST/OWNER/REPOSITORY. All but the first need --url, where clients read.

    Packages that it already has are skipped. A package whose name has other content there is
    refused. So is, without --accept-redistribution, a new package with files that its licence text
    does not name for distribution. A table says what these texts allow; it is not legal advice. The
    key of a server is read from rattler's credentials (RATTLER_AUTH_FILE); a trusted publisher in
    CI needs none.

    Examples: ctk publish --to /srv/www/cuda
    ctk publish --to s3://channels/cuda
    ctk publish --from /srv/www/staging@4 --to /srv/www/cuda
    ctk publish --to quetz+https://quetz.example.org/cuda --url https://quetz.example.org/get/cuda

    JSON:
    - into a folder or a bucket: `folder`, `state`, `packages` (how many), and the names of
      packages: `added`, `repaired` (damaged, and written again), `lost` (in the index, and
      nowhere), `left` (no longer in the index), `left_out` (the name is taken), `deleted`;
      `forgotten` (numbers of older states that had lost index files)
    - to a server: `server`, `channel`, `packages` (names), `left_out`
    - `not_named`: package that is new there -> its files that its licence text does not name for
      distribution
    """
    from ctk.channel.server import Server  # late: help does without, as with all of the work
    from ctk.cli.work import publish

    _refuse_places(context, options)
    named = server_address(options.to) if options.to else None
    if named:
        publish.to_server(options, Server.at(*named))
    elif options.to is not None:
        publish.into_place(options, options.to)
    elif options.server and options.channel:
        publish.to_server(options, Server("prefix", options.server, options.channel))
    else:
        step = "name a folder or s3://BUCKET/PREFIX with --to, or --server and --channel"
        if options.folder:
            into = f"`ctk publish --to {shlex.quote(str(options.folder))}` publishes into it"
            step += f"; {options.folder} is then what is published: {into}"
        raise BadValue("there is no place to publish to", step)


def _refuse_places(context: typer.Context, options: PublishOptions) -> None:
    """Raises BadValue for two places to publish to, and for an address in place of a folder."""
    source = context.get_parameter_source("server")
    # CTK_SERVER in the environment may name a server for other runs.
    is_typed = source is not None and source.name == "COMMANDLINE"
    both = options.to is not None and is_typed
    not_both("--to", "--server", both, "publish twice, into the folder and to the server")
    channel = context.get_parameter_source("channel")
    if options.to and server_address(options.to) and channel and channel.name == "COMMANDLINE":
        raise BadValue("--to names the channel of its server", "leave out --channel")
    if options.to is not None and ":/" in str(options.to) and not _is_known(options.to):
        raise BadValue(
            f"--to takes a folder, s3://BUCKET/PREFIX or KIND+https://HOST/CHANNEL, and"
            f" {options.to} is another address",
            "name a server as in prefix+https://HOST/CHANNEL, or with --server and --channel",
        )
    if options.to and not server_address(options.to):
        _refuse_of_servers(context, options)
    if options.folder:
        refuse_address(options.folder)


def _refuse_of_servers(context: typer.Context, options: PublishOptions) -> None:
    """Raises BadValue for options about a server beside a folder or a bucket."""
    is_signed = bool(options.attest or options.sign_key)
    names = ["new", "wait"] if is_signed else ["new", "wait", "url"]
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise BadValue(
                f"--{name} says nothing beside --to {options.to}, which is no server",
                "leave it out, or name a server as in --to quetz+https://HOST/CHANNEL",
            )


def _is_known(place: Path) -> bool:
    return bool(bucket_address(place) or server_address(place))


def rollback_command(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder or s3://... that was published to.", metavar="FOLDER"),
    ],
    to: Annotated[
        int | None, typer.Option(help="The state to return to; without it the states are listed.")
    ] = None,
) -> None:
    """List the states that a published folder or bucket can return to, or return to a state.

    The change `+2 -1`: two packages that the state which it followed has not, and one of that state
    is gone. The state that is left is kept too: `--to` with its number returns to it. The next `ctk
    publish` adds to the state that readers then see.

    Examples: ctk rollback /srv/www/cuda
    ctk rollback /srv/www/cuda --to 4
    ctk rollback s3://channels/cuda --to 4

    JSON:
    - `channel`; `states`: `number`, `before`, `made`, `packages`, `current`, and how many packages
      differ from the state before: `added`, `left`; with `--to` `state` instead, with the first
      four
    """
    from ctk.cli.work import publish

    if to is None:
        publish.list_states(folder)
    else:
        publish.return_to(folder, to)


@with_options
def site_command(
    folder: Annotated[
        Path, typer.Argument(help="Where the site goes: a new folder, or one made by this command.")
    ],
    options: SiteOptions,
) -> None:
    """Make the channel's web pages: the command for each machine, and what is in the channel.

    Every answer of the first page is solved now. The docs of the checkout are among the pages, with
    this channel's address. The pages work from the folder without a server, and load nothing from
    elsewhere. It is replaced as a whole at the end. With --url the pages are for others: they name
    no folder of this machine.

    Examples: ctk site output/site
    ctk site /srv/www/cuda-site --url https://example.org/cuda --base conda-forge --title "Our CUDA"

    JSON:
    - `folder`, `files` (how many), `bytes`, `questions` (how many were answered), `platforms`
    """
    from ctk.cli.work import site

    site.make(folder, options)


def clean_command(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it without a question.")] = False,
) -> None:
    """Show what of the caches of this checkout nothing needs, and remove it.

    On a terminal it asks first. Elsewhere it removes nothing without --yes. All of it can be
    fetched or made again. Environments, channels and what a running command uses stay; of `output`
    only the sizes are shown.

    Examples: ctk clean
    ctk clean --yes

    JSON:
    - `cache`, `dry_run` (whether nothing was removed), `freed`; `output`: `name`, `size`
    - `groups`: `name`, `size`, `freed`, `goes` (files and folders that went, or would go)
    """
    from ctk.cli.work import clean

    clean.clean_up(yes=yes)
