"""`ctk site`: pages that tell what to type and what the channel is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ctk import site as pages
from ctk.cli import options
from ctk.cli.options import Base, Jobs, Platforms, Pythons
from ctk.cli.solve import catalogue as catalogue_of
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import UnknownName, Unsolvable
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.lock import release_locks
from ctk.plan.plan import python_tags
from ctk.site.answers import Axes, Work, axes, plan_work, solved
from ctk.site.pages import check
from ctk.site.selector import Selector, front_page, shards

Folder = Annotated[Path, typer.Argument(help="Where the site goes: a new folder, or one made by this command.")]
Packages = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        help="Solve for this package; may be repeated. Otherwise all that one installs by name.",
        autocompletion=options.packages,
    ),
]
Planned = Annotated[
    bool,
    typer.Option(
        "--planned",
        help="Of what recipes and release locks say, for all platforms, and not of what was built. Slow: narrow it.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="The channel's published address, for the commands on the page; its folder by default."),
]


def build_command(
    folder: Folder,
    platforms: Platforms = None,
    packages: Packages = None,
    pythons: Pythons = None,
    url: Url = None,
    as_planned: Planned = False,
    base: Base = "local",
    jobs: Jobs = None,
) -> None:
    """Make the channel's site: what to type on which machine, and a report of picks, releases, packages and audits.

    Every answer of its first page is solved now; what was solved before is kept in .cache/site. The pages work from the
    folder as it is, and load nothing from elsewhere. The folder is replaced as a whole when all is done.

    Example: ctk site build output/site

    Example: ctk site build /srv/www/cuda-site --url https://example.org/cuda --base conda-forge
    """
    where, report = workspace(), Reporter()
    check(folder)
    read = pages.read(where, _channel(where, as_planned, base), planned=as_planned)
    chosen = tuple(dict.fromkeys(platforms or read.platforms))
    for platform in chosen:
        if platform not in PLATFORMS:
            raise UnknownName.of("platform", platform, PLATFORMS)
        if not as_planned and platform not in read.platforms:
            step = f"run `ctk build --platform {platform}` first, or add --planned"
            raise Unsolvable(f"nothing is built for {platform} here", step)
    made: dict[str, Axes] = {}
    work: list[Work] = []
    addresses: list[str] = []
    for subdir in chosen:
        catalogue = catalogue_of(where, base, subdir, report, as_planned)
        locks, tags = release_locks(where).values(), python_tags(where.build_config)
        made[subdir] = axes(catalogue, locks, tags, packages or (), pythons or ())
        work += plan_work(made[subdir], catalogue.channels, where.cache)
        addresses = addresses or _addresses(where, url, catalogue.channels)
    with report.task("questions", sum(piece.size for piece in work)) as task:
        found = [(piece.name, content) for piece, content in solved(work, jobs or os.cpu_count() or 1, task.advance)]
    selector = Selector(made, addresses, as_planned, base)
    every = [front_page(read, selector), *shards(sorted(found)), *pages.report_pages(read)]
    files = pages.write(every, folder)
    size = sum(len(page.content) for page in every)
    questions = sum(piece.size for piece in work)
    report.result(folder=str(folder), files=files, bytes=size, questions=questions, platforms=list(made))
    report.line(f"{folder}: {count(files, 'file')}, {megabytes(size)} MB; {count(questions, 'question')} answered")
    report.line(f"open {(folder / 'index.html').absolute().as_uri()}")


def _channel(where: Workspace, as_planned: bool, base: str) -> Path:
    """The folder that the pages are about."""
    if not as_planned:
        return where.channel
    planned, *_ = catalogue_of(where, base, this_platform(), None, as_planned).channels
    return Path(planned)


def _addresses(where: Workspace, url: str | None, used: tuple[Path | str, ...]) -> list[str]:
    """What a client is given as channels. Metadata that stands in for a channel is no address."""
    own, *others = used
    stand_in = where.cache / "planned"
    found = [url or _address(where.channel if own == stand_in / "channel" else own)]
    for other in others:
        found.append("conda-forge" if isinstance(other, Path) and stand_in in other.parents else _address(other))
    return found


def _address(channel: Path | str) -> str:
    """A channel as a client takes it: of a folder the link, not the state behind it, which a later build removes."""
    return channel.absolute().as_uri() if isinstance(channel, Path) else channel
