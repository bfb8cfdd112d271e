"""`ctk site`: the pages of a channel, with every answer of the first page solved now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from ctk import site
from ctk.channel.check import mirrored
from ctk.channel.local import is_built
from ctk.cli.options import SiteOptions, base_beside
from ctk.core.checkout import Workspace, base_channel, refuse_without_recipes, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import ChannelMissing, Unsolvable, refuse_unknown_names
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.model import release_locks
from ctk.plan.plan import python_tags
from ctk.site import docs
from ctk.site.answers import NOTES, Axes, Work, axes, plan_work, solved
from ctk.site.pages import Site, check, front_page, refuse_unreachable, settings_pages, shards
from ctk.solve.channels import catalogue
from ctk.solve.solve import Catalogue, Scenario, lasting


def make(folder: Path, options: SiteOptions) -> None:
    """Makes the pages of a channel, and says what is in them."""
    here, report = workspace(), Reporter()
    refuse_without_recipes(here)
    others = [options.channel] if options.channel else []
    base = base_beside(options.base, others, here)
    check(folder)
    if options.url:
        refuse_unreachable(options.url, base_channel(base, here))
    own = base_channel(options.channel, here) if options.channel else here.channel
    with _folder_of(own, here, report) as place:
        report.say(f"reading the packages of {own}")
        content = replace(site.read(here, place), title=options.title)
        platforms = _platforms(content, own, options)
        questions = _questions(platforms, own, base, options, here, report)
        answers = _answers(questions, options.jobs, here, report)
        content = replace(content, channels=tuple(questions.addresses))
        guide = list(docs.pages(here.root / "docs", options.title, _subject(content, questions)))
        content = replace(content, docs=bool(guide))
        pages = [front_page(content, questions.axes), *settings_pages(content), *shards(answers)]
        pages += [*site.report_pages(content), *guide]
    number = site.write(pages, folder)
    size = sum(len(page.content) for page in pages)
    report.result(
        folder=str(folder),
        files=number,
        bytes=size,
        questions=questions.number,
        platforms=list(questions.axes),
    )
    report.line(
        f"{folder}: {count(number, 'file')}, {megabytes(size)} MB;"
        f" {count(questions.number, 'question')} answered"
    )
    _show_whose(own, questions.addresses, report)
    report.line(f"open {(folder / 'index.html').absolute().as_uri()}")
    if options.url:
        report.line(f"for users: {address_for_users(folder, own, options.url)}")


def address_for_users(folder: Path, own: Path | str, url: str) -> str:
    """Where users read the site: beside the channel, if the folders are beside each other."""
    place, above = Path(own), url.rstrip("/").rpartition("/")
    are_together = place.absolute().parent == folder.absolute().parent
    if are_together and place.name == above[2]:
        return f"{above[0]}/{folder.name}/"
    return f"the address at which your web server serves {folder}"


@contextmanager
def _folder_of(channel: Path | str, workspace: Workspace, report: Reporter) -> Iterator[Path]:
    """The folder of a channel, for a while: one at an address is downloaded."""
    if isinstance(channel, Path):
        yield channel
        return
    with mirrored(channel, workspace.temporary, report) as place:
        yield place


def _platforms(content: Site, own: Path | str, options: SiteOptions) -> tuple[str, ...]:
    """The platforms of the site: those that were named, else those of the channel.

    A channel with noarch packages alone serves each platform: it is that of this machine then.

    Raises:
        ChannelMissing: The channel has no packages.
        Unsolvable: It has none for a named platform.
    """
    known, default = content.platforms, content.platforms
    if content.entries and not known:
        known, default = tuple(PLATFORMS), (this_platform(),)
    chosen = tuple(dict.fromkeys(options.platforms or default))
    refuse_unknown_names("platform", chosen, PLATFORMS)
    if not chosen:
        raise ChannelMissing(
            f"{own} has no packages", "name a --channel that has some, or run `ctk build`"
        )
    for platform in chosen:
        if platform in known:
            continue
        if options.channel:
            raise Unsolvable(
                f"{options.channel} has nothing for {platform}",
                "leave it out, or name another --channel",
            )
        raise Unsolvable(
            f"nothing is built for {platform} here", f"ctk build --platform {platform}"
        )
    return chosen


@dataclass(frozen=True)
class Questions:
    """What the first page asks of each platform.

    Attributes:
        axes: Platform -> what a reader can choose there.
        work: The questions, in pieces that are solved together.
        addresses: The channels as a client is given them.
        catalogues: The packages of each platform.
    """

    axes: dict[str, Axes]
    work: list[Work]
    addresses: list[str]
    catalogues: list[Catalogue]

    @property
    def number(self) -> int:
        return sum(piece.size for piece in self.work)


def _questions(
    platforms: Iterable[str],
    own: Path | str,
    base: str,
    options: SiteOptions,
    workspace: Workspace,
    report: Reporter,
) -> Questions:
    """Plans the questions of each platform."""
    others = [options.channel] if options.channel else []
    locks, tags = release_locks(workspace).values(), python_tags(workspace.build_config)
    packages, pythons = options.packages or (), options.pythons or ()
    questions = Questions({}, [], [], [])
    for subdir in platforms:
        channels = catalogue(workspace, base, subdir, report, others=others)
        asked = axes(channels, locks, tags, packages, pythons)
        questions.catalogues.append(channels)
        questions.axes[subdir] = asked
        questions.work.extend(plan_work(asked, channels.channels))
        if not questions.addresses:
            address = options.url or _address(own)
            questions.addresses.extend(_addresses(workspace, address, channels.channels))
    return questions


def _subject(content: Site, questions: Questions) -> docs.Subject:
    """What the docs say of the channel, on its first platform."""
    catalogue = questions.catalogues[0]

    def toolkit(specs: Sequence[str], driver: str) -> str:
        pick = catalogue.pick(Scenario(tuple(specs), catalogue.subdir, driver))
        if pick is None or not pick.fit:
            return ""
        return f"toolkit {pick.toolkit}" + (" compat" if pick.fit == "compat" else "")

    own, *others = content.channels
    minors = sorted(
        {entry.index.version for entry in content.packages.get("cuda-version", ())}, key=Version
    )
    base = others[0] if others else "conda-forge"
    return docs.Subject(own, base, tuple(minors), toolkit, content.platforms)


def _answers(
    questions: Questions, jobs: int | None, workspace: Workspace, report: Reporter
) -> list[tuple[str, Mapping[str, Any]]]:
    """The answers of each piece of the questions, by its name."""
    workers = jobs or os.cpu_count() or 1
    with report.task("answers for the page", questions.number, of="questions") as task:
        pieces = solved(questions.work, workers, task.advance, workspace.notes / NOTES)
        return sorted((piece.name, found) for piece, found in pieces)


def _show_whose(own: Path | str, addresses: Iterable[str], report: Reporter) -> None:
    """Says for whom the site is, if it is not for everybody."""
    if any(address.startswith("file:") for address in addresses):
        report.line(
            "its commands use folders of this machine; for others, make it with --url and --base"
        )
    elif isinstance(own, Path) and is_built(own.resolve()):
        report.line(
            f"it shows {own}, as built here; to show what readers have, name their folder with"
            " --channel"
        )


def _addresses(workspace: Workspace, own: str, used: Sequence[Path | str]) -> list[str]:
    """The channels that a client is given.

    conda-forge stands in place of the metadata that stands in for it.
    """
    stand_in = workspace.notes / "planned" / "base"
    addresses = [own]
    for channel in used[1:]:
        addresses.append("conda-forge" if channel == stand_in else _address(channel))
    return addresses


def _address(channel: Path | str) -> str:
    """A channel as a client takes it.

    Of a folder the link, not the state behind it, which a later build removes.
    """
    return lasting(channel.absolute().as_uri()) if isinstance(channel, Path) else channel
