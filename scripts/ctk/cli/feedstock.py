"""`ctk feedstock`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctk.cli.options import Releases, recipes
from ctk.core.checkout import checkout, settings
from ctk.core.console import Reporter, count
from ctk.feedstock import feedstock, public_url, write
from ctk.index.index import Index


def export_command(
    recipe: Annotated[str, typer.Argument(help="Folder name below recipes/.", autocompletion=recipes)],
    folder: Annotated[Path, typer.Argument(help="Where to write the feedstock: a new or empty folder.", metavar="DIR")],
    releases: Releases = None,
    maintainers: Annotated[
        list[str] | None,
        typer.Option("--maintainer", help="GitHub name or team; may be repeated. [tool.ctk.feedstock] by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is in DIR.")] = False,
) -> None:
    """Write a recipe as a feedstock that conda-smithy and stock rattler-build take without this repository.

    Its sources are named by the addresses of the index that pip is configured for. A recipe of the toolkit is written
    for one release, the newest unless --release names another.

    Example: ctk feedstock export cuda-core ../cuda-core
    """
    where = checkout()
    with Index() as index:
        files = feedstock(
            where,
            recipe,
            releases or (),
            maintainers or settings(where.root).feedstock.maintainers,
            lambda artefact: public_url(index.locate(artefact)),
        )
    write(files, folder, where, force=force)
    report = Reporter()
    report.result(folder=str(folder), files=sorted(map(str, files)))
    report.line(f"{folder}: {count(len(files), 'file')}; `conda smithy rerender` there makes the rest")
