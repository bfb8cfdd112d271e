"""`ctk build` and `ctk feedstock`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import BuildOptions, Releases, Selection, not_both, with_options
from ctk.core.errors import BadValue


@with_options
def build_command(chosen: Selection, options: BuildOptions) -> None:
    """Build, audit, test and index packages, then publish them as a channel.

    Without options, it builds the default releases and recipes for this machine's platform. With
    --file, it builds the packages of the file that have recipes. What did not change is not built
    again. If the folder already has a channel, the command adds to it, or replaces what changed.

    Examples: ctk build --release 13.4 --platform win-64 --platform linux-aarch64
    ctk build cupy jax --driver 12.4 --driver 13.0 --dry-run

    JSON:
    - `channel`, `changed`, `size`, `packages` (platform -> how many)
    - `builds`: `id`, `packages`, `size`, `unchanged`, `seconds`; `left_out`: `id`, `reason`
    - `dropped`: builds of earlier runs that left the channel, as no recipe makes it, a package of
      it is lost, or the audit refuses it
    - `tests`: `package`, `state`, `detail`, `missing` (what it needs, if it was not run); `audit`,
      as in `ctk check`; `stages`: `name`, `seconds`, `note`
    - `machines`: those of `--driver` and `--arch`: `platform`, `driver`, `gpu`, `toolkits` that the
      packages get there, `refused` (packages that cannot be installed there)

    With `--dry-run`, instead:

    - `builds`: `id`, `recipe`, `release`, `platform`, `python`, `packages`, `artefacts` (`file`,
      `sha256`, `size`)
    - `left_out`: `id`, `reason`

    `--format github` prints the matrix of a workflow instead, on one line, and `--format gitlab`
    the configuration of a child pipeline. With `--fetch-only`, instead:

    - `artefacts`: `file`, `sha256`, `size`, `path`, `fetched` (whether it was not there before)
    """
    not_both("--dry-run", "--fetch-only", options.dry_run and options.fetch_only)
    # Late: what a command does takes a second to import, and its help does without.
    from ctk.cli.work import plan

    if chosen.environment and chosen.file is None:
        raise BadValue("--environment applies to a file", "name it with --file")
    if chosen.file is not None:
        chosen = _of_file(chosen, chosen.file, options.base)
    if options.dry_run and options.form != "table":
        plan.show_jobs(chosen, options.form)
    elif options.dry_run:
        plan.show_plan(chosen, options.base)
    else:
        _build(chosen, options)


def _of_file(chosen: Selection, file: Path, base: str) -> Selection:
    """The selection with the packages of a file, and the releases that it pins."""
    from ctk.cli.work import files

    not_both("names of packages", "--file", chosen.packages)
    not_both("--file", "--all-components or --libraries", chosen.all_components or chosen.libraries)
    return files.selection(chosen, file, base)


def _build(chosen: Selection, options: BuildOptions) -> None:
    from ctk.cli.work import build  # with all that builds and tests, which a plan does without

    if options.fetch_only:
        build.fetch(chosen, options.base)
    else:
        build.build(chosen, options)


def export_command(
    recipe: Annotated[str, typer.Argument(help="Folder name below recipes/.")],
    folder: Annotated[
        Path,
        typer.Argument(help="Where to write the feedstock: a new or empty folder.", metavar="DIR"),
    ],
    releases: Releases = None,
    maintainers: Annotated[
        list[str] | None,
        typer.Option(
            "--maintainer",
            help="GitHub name or org/team; may be repeated. [tool.ctk.feedstock] by default.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite our files in DIR; others stay.")
    ] = False,
) -> None:
    """Write a recipe as a feedstock that conda-smithy and stock rattler-build can use on its own.

    The folder is for your own CI. conda-forge cannot accept it, because the sources are wheels. The
    README in the folder has all reasons, and the commit that the feedstock was exported from.

    The sources are addresses of the index that pip is configured for. A recipe of the toolkit is
    written for the newest release, or for those that --release names. DIR must be outside the
    checkout, or below its output/.

    Example: ctk feedstock cuda-core ../cuda-core --maintainer your-name

    JSON:
    - `folder`, `files`
    """
    from ctk.cli.work import feedstock  # late: its help does without

    feedstock.export(recipe, folder, releases or (), maintainers or (), force=force)
