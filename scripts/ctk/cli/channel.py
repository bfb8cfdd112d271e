"""`ctk publish`, `ctk rollback`, `ctk site`, `ctk clean`: for the keeper of a built channel."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import PublishOptions, SiteOptions, refuse_address, with_options
from ctk.core.address import bucket_address, server_address, typed_address
from ctk.core.errors import BadValue


@with_options
def publish_command(context: typer.Context, options: PublishOptions) -> None:
    """Publish a built channel into a folder, into a bucket of S3, or to a server.

    The address of a server begins with its kind: prefix+https://HOST/CHANNEL,
    quetz+https://HOST/CHANNEL, artifactory+https://HOST/artifactory/REPOSITORY,
    anaconda+https://HOST/OWNER/LABEL or cloudsmith+https://HOST/OWNER/REPOSITORY. All but the first
    need --url, the address that clients read.

    Packages that are already there are skipped. A package whose name has other content there is
    refused. Without --accept-redistribution, so is a package with files that its licence text does
    not name for distribution, if no version of it is there. A table says what these texts allow; it
    is not legal advice. The login for a server comes from rattler's credentials
    (RATTLER_AUTH_FILE); a trusted publisher in CI needs none.

    Examples: ctk publish --to /srv/www/cuda
    ctk publish --to s3://channels/cuda
    ctk publish --from /srv/www/staging@4 --to /srv/www/cuda
    ctk publish --to quetz+https://quetz.example.org/cuda --url https://quetz.example.org/get/cuda

    JSON:
    - into a folder or a bucket: `folder`, `state`, `packages` (how many), and the names of
      packages: `added`, `repaired` (damaged, and written again), `lost` (in the index, and
      nowhere), `left` (no longer in the index), `left_out` (the name is taken), `signed` (got an
      attestation), `deleted`;
      `forgotten` (numbers of older states that had lost index files)
    - to a server: `server`, `channel`, `packages` (names), `left_out`
    - `not_named`: package that is new there -> its files that its licence text does not name for
      distribution
    """
    from ctk.channel.server import Server  # late: help does without, as with all of the work
    from ctk.cli.work import publish

    if options.to is None:
        raise _no_place(options.folder)
    if options.folder:
        refuse_address(options.folder)
    if options.yes and not options.exact:
        raise BadValue("--yes has no effect without --exact", "leave it out, or add --exact")
    named = server_address(options.to)
    if named:
        _refuse_of_folders(context, options.to)
        publish.to_server(options, Server.at(*named))
        return
    _refuse_other_addresses(options.to)
    _refuse_of_servers(context, options.to, is_signed=bool(options.attest or options.sign_key))
    publish.into_place(options, options.to)


def _no_place(folder: Path | None) -> BadValue:
    step = "name a folder, s3://BUCKET/PREFIX or KIND+https://HOST/CHANNEL with --to"
    if folder:
        into = f"`ctk publish --to {shlex.quote(str(folder))}` publishes output/channel into it"
        step += f"; as typed, {folder} is the channel to publish, not the target: {into}"
    return BadValue("there is no place to publish to", step)


def _refuse_other_addresses(to: Path) -> None:
    """Raises BadValue for an address that is not of a bucket."""
    if ":/" in str(to) and not bucket_address(to):
        raise BadValue(
            f"--to takes a folder, s3://BUCKET/PREFIX or KIND+https://HOST/CHANNEL, but"
            f" {typed_address(to)} is none of these",
            "name a server as in prefix+https://HOST/CHANNEL",
        )


def _refuse_of_servers(context: typer.Context, to: Path, *, is_signed: bool) -> None:
    """Raises BadValue for options about a server beside a folder or a bucket."""
    names = ["new", "wait"] if is_signed else ["new", "wait", "url"]
    found = _typed_first(context, names)
    if found:
        raise BadValue(
            f"{found} has no effect with --to {typed_address(to)}, which is not a server",
            "leave it out, or name a server as in --to quetz+https://HOST/CHANNEL",
        )


def _refuse_of_folders(context: typer.Context, to: Path) -> None:
    """Raises BadValue for options about a folder or a bucket beside a server."""
    found = _typed_first(context, ["exact", "yes", "keep", "keep_days", "sign_key"])
    if found:
        raise BadValue(
            f"{found} has no effect with --to {typed_address(to)}, which is a server",
            f"leave out {found}, or publish into a folder or a bucket",
        )


def _typed_first(context: typer.Context, names: Sequence[str]) -> str:
    """The first of some options that stands on the command line, or ""."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            return f"--{name.replace('_', '-')}"
    return ""


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

    The change `+2 -1` means two packages more than in the state that it followed, and one less.
    `30 signed` means that 30 of its packages got attestations, which stay when you return to an
    earlier state. The state that you leave is kept: `--to` with its number returns to it. The next
    `ctk publish` adds to the state that readers then see.

    Examples: ctk rollback /srv/www/cuda
    ctk rollback /srv/www/cuda --to 4
    ctk rollback s3://channels/cuda --to 4

    JSON:
    - `channel`; `states`: `number`, `before`, `made`, `packages`, `current`, and how many packages
      differ from the state before: `added`, `left`, `signed` (have other attestations); with
      `--to` `state` instead, with the first four
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

    All answers of the first page are solved now. The pages include the docs of the checkout, with
    this channel's address. They work from the folder without a server, and load nothing from other
    sites. The folder is replaced as a whole at the end. With --url, the pages are for other users,
    and name no folder of this machine.

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
    """Show what nothing needs in the caches of this checkout, and remove it.

    On a terminal, the command asks first. Elsewhere, it removes nothing without --yes. Everything
    that it removes can be fetched or built again. It keeps environments, channels and what a
    running command uses. For `output`, it only shows the sizes.

    Examples: ctk clean
    ctk clean --yes

    JSON:
    - `cache`, `dry_run` (whether nothing was removed), `freed`; `output`: `name`, `size`
    - `groups`: `name`, `size`, `freed`, `goes` (files and folders that went, or would go)
    """
    from ctk.cli.work import clean

    clean.clean_up(yes=yes)
