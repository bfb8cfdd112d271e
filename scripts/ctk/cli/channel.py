"""`ctk publish`, `ctk rollback`, `ctk site` and `ctk clean`: for the keeper of a channel, after a
build.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from packaging.version import Version

from ctk.cli.options import Base, Jobs, Platforms, Pythons, base_beside, base_channel, not_both
from ctk.core import console
from ctk.core.checkout import Workspace, channel_missing, checkout, settings, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import (
    BadValue,
    ChannelBroken,
    ChannelMissing,
    UnknownName,
    Unsolvable,
    check_names,
    without_credentials,
)
from ctk.core.locks import exclusive
from ctk.core.platforms import PLATFORMS

if TYPE_CHECKING:
    from ctk.channel.publish import Folder
    from ctk.site.answers import Axes, Work


def publish_command(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(help="A built channel; output/channel by default.", metavar="FOLDER"),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="A folder that a web server hands out; made if need be.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(envvar="CTK_SERVER", help="URL of a server with prefix.dev's protocol."),
    ] = None,
    channel: Annotated[
        str | None, typer.Option(envvar="CTK_CHANNEL", help="Name of the channel on the server.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="CTK_CHANNEL_URL", help="URL of the channel; that of the server by default."
        ),
    ] = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new", help="With --server: the channel has no index yet, so no name is taken in it."
        ),
    ] = False,
    wait: Annotated[
        int,
        typer.Option(min=0, help="With --server: seconds in which it must list what it was sent."),
    ] = 60,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="With --to: packages that FOLDER lacks leave the index, and later the folder.",
        ),
    ] = False,
    skip_taken: Annotated[
        bool,
        typer.Option(
            "--skip-taken",
            help="Leave out packages whose names have other content there, and publish the rest.",
        ),
    ] = False,
    keep: Annotated[
        int, typer.Option(min=2, help="With --to: states that can be returned to.")
    ] = 10,
    keep_days: Annotated[
        int,
        typer.Option(min=0, help="With --to: days that a package stays after the last such state."),
    ] = 7,
    attest: Annotated[
        bool,
        typer.Option(
            "--attest", help="With a signed attestation of the CI job that built the packages."
        ),
    ] = False,
    accept_redistribution: Annotated[
        bool,
        typer.Option(
            "--accept-redistribution",
            help=(
                "Also packages with files that their licence text does not name for distribution;"
                " they are listed."
            ),
        ),
    ] = False,
) -> None:
    """Publish a built channel into a folder or to a server.

    Packages that it already has are skipped. A package whose name has other content there is
    refused. So is, without --accept-redistribution, a new package with files that its licence text
    does not name for distribution. A program reads these texts; that is not legal advice. The key
    of a server is read from rattler's credentials (RATTLER_AUTH_FILE); a trusted publisher in CI
    needs none.

    Examples: ctk publish --to /srv/www/cuda
    ctk publish --server https://conda.example.org --channel cuda

    JSON:
    - into a folder: `folder`, `state`, `packages` (how many), and the names of packages: `added`,
      `repaired` (damaged, and written again), `lost` (in the index, and nowhere), `left` (no longer
      in the index), `left_out` (the name is taken), `deleted`; `forgotten` (numbers of older states
      that had lost index files)
    - to a server: `server`, `channel`, `packages` (names), `left_out`
    - `not_named`: package that is new there -> its files that its licence text does not name for
      distribution
    """
    from ctk.channel.attestations import Sigstore
    from ctk.channel.publish import Folder, Keep, clashes, refuse
    from ctk.channel.repodata import in_order, read_index
    from ctk.channel.server import confirm, on_server, publish

    source = context.get_parameter_source("server")
    # CTK_SERVER in the environment may name a server for other runs.
    given = to is not None and source is not None and source.name == "COMMANDLINE"
    not_both("--to", "--server", given, "publish twice, into the folder and to the server")
    if to is not None and ":/" in str(to):
        raise BadValue(
            f"--to takes a folder, and {to} is an address",
            "name a server with --server and --channel",
        )
    report, where = Reporter(), workspace()
    if folder:
        _check_folder(folder)
    if to is None and not (server and channel):
        step = "name a folder with --to, or --server and --channel"
        into = f"`ctk publish --to {shlex.quote(str(folder))}` publishes into it"
        step += f"; {folder} is then what is published: {into}" if folder else ""
        raise BadValue("there is no place to publish to", step)
    built = Path(os.path.realpath(folder or where.channel))
    names = in_order(built)
    if lost := [name for name in names if not (built / name).is_file()]:
        step = (
            "run `ctk build` again, which puts them back, or names the command that does; nothing"
            " was published"
        )
        raise ChannelBroken(
            f"{folder or where.channel} lacks {listing(lost, most=3)}, which its index names", step
        )
    if to is not None:
        if attest and not url:
            raise BadValue(
                "an attestation says for which channel a package is", "name its URL with --url"
            )
        target = Folder(to, where.recipes, Keep(keep, timedelta(days=keep_days)))
        target.check_is_for_readers(built)
        attester = Sigstore(url or "") if attest else None
        if attester:
            attester.signer()  # without an identity it is an error before gigabytes are copied
        _ask(built, names, target.known(), accept_redistribution, where, report)
        is_lost = not target.history().states and bool(target.visible().records)
        with report.reading("publish", [built / name for name in names]) as task:
            done = target.publish(
                built,
                exact=exact,
                skip_taken=skip_taken,
                attester=attester,
                progress=lambda name: task.advance((built / name).stat().st_size),
            )
        changes = [f"{len(done.added)} new"]
        changes += [f"{len(done.left)} no longer in the index"] if done.left else []
        changes += (
            [f"{len(done.left_out)} left out, their names being taken"] if done.left_out else []
        )
        changes += (
            [f"{len(done.deleted)} deleted after {keep_days} days without use"]
            if done.deleted
            else []
        )
        report.result(folder=str(to), **vars(done))
        report.line(
            f"state {done.state} of {to}: {count(done.packages, 'package')}, {', '.join(changes)}"
        )
        if is_lost:
            report.line(f"{to} had no history: what readers saw before is now its first state")
        if done.forgotten:
            report.line(
                "forgotten, having lost index files: state"
                f" {listing(list(map(str, done.forgotten)))}"
            )
        for what, listed in (
            ("damaged, and written again", done.repaired),
            ("no longer in the index", done.left),
        ):
            if listed:
                report.line(f"{what}: {listing(listed, most=0 if report.verbose else 3)}")
        stay = _toolkits(target.visible().names()) if done.left else set()
        if gone := sorted(_toolkits(done.left) - stay):
            best = [max((m for m in stay if m < minor), default="no native one") for minor in gone]
            ends = [
                f"{minor} (a driver for it now gets {other})"
                for minor, other in zip(gone, best, strict=True)
            ]
            report.line(f"toolkits that are gone: {listing(ends)}")
            report.line(
                "every machine: ctk solve cuda-version --everywhere --channel"
                f" {shlex.quote(str(to))}"
            )
        if done.added or done.left:
            _say_site(to, report)
        if done.lost:
            step = "build it again (ctk build NAME --release MINOR), then "
            step += f"ctk publish --to {shlex.quote(str(to))}; or withdraw it: --exact"
            cause = (
                f"{to} has lost {listing(done.lost, most=3)}, and {folder or where.channel} lacks"
                " it, too"
            )
            raise ChannelBroken(cause, step)
        return
    assert server and channel
    address = url or f"{server.rstrip('/')}/{channel}"
    ours = read_index(built).names()
    there = {} if new else on_server(address)
    taken = clashes(ours, there)
    if not skip_taken:
        refuse(taken, address, where.recipes)
    _ask(built, names, there, accept_redistribution, where, report)
    names = [name for name in names if name not in taken]
    files = [built / name for name in names]
    with report.reading("upload", files) as task:
        publish(files, server, channel, attest, lambda file: task.advance(file.stat().st_size))
    confirm({name: ours[name] for name in names}, address, where.recipes, wait)
    left = f"; {len(taken)} were left out, their names being taken" if taken else ""
    report.result(
        server=without_credentials(server), channel=channel, packages=names, left_out=sorted(taken)
    )
    report.line(
        f"{count(len(names), 'package')} are in the channel {channel}, listed with their"
        f" sha256{left}"
    )


def _toolkits(names: Collection[str]) -> set[Version]:
    """The toolkits that are native for drivers, by the names of packages."""
    return {
        Version(match[1])
        for name in names
        if (match := re.search(r"/cuda-version-([\d.]+)-native", name))
    }


def _ask(
    built: Path,
    names: Sequence[str],
    there: Collection[str],
    accepted: bool,
    where: Workspace,
    report: Reporter,
) -> None:
    """Names the packages that readers do not see yet, and whose licence text does not name files
    for distribution.

    Raises:
        NotAccepted: There are some, and neither the option nor the settings accept that.
    """
    from ctk.channel.distribution import ADVICE, ask, package_name, read

    known = {package_name(name) for name in there}
    found = read(built / name for name in names if package_name(name) not in known).not_named
    report.result(not_named=found)
    if found:
        rows = [(name, len(paths), paths[0]) for name, paths in found.items()]
        report.table(
            "not named for distribution by their licence text",
            ["package", "files", "such as"],
            rows,
            ["files"],
        )
        report.line(ADVICE)
    # The link of the channel made here: a later build removes the folder behind it.
    place = where.channel if os.path.realpath(where.channel) == str(built) else built
    ask(found, accepted or settings(where.root).publish.accept_redistribution, place)


def rollback_command(
    folder: Annotated[
        Path, typer.Argument(help="A folder that was published to.", metavar="FOLDER")
    ],
    to: Annotated[
        int | None, typer.Option(help="The state to return to; without it the states are listed.")
    ] = None,
) -> None:
    """List the states that a published folder can return to, or return to a state.

    The change `+2 -1`: two packages that the state which it followed has not, and one of that state
    is gone. The state that is left is kept too: `--to` with its number returns to it. The next `ctk
    publish` adds to the state that readers then see.

    Examples: ctk rollback /srv/www/cuda
    ctk rollback /srv/www/cuda --to 4

    JSON:
    - `channel`; `states`: `number`, `before`, `made`, `packages`, `current`, and how many packages
      differ from the state before: `added`, `left`; with `--to` `state` instead, with the first
      four
    """
    report, target = Reporter(), _published(folder)
    if to is not None:
        state = target.rollback(to)
        report.result(channel=str(folder), state=vars(state))
        report.line(
            f"{folder} shows state {state.number} of {state.made}:"
            f" {count(state.packages, 'package')}"
        )
        _say_site(folder, report)
        return
    known = target.history()
    if not known.states:
        cause = f"{folder} has no states: a `ctk publish` into it was stopped, or is at work now"
        raise UnknownName(f"{cause}, or its history.json is gone", _first_state(folder))
    whole = target.changes(known)
    states = [
        {**vars(state), "current": state.number == known.current, "added": added, "left": left}
        for state, (added, left) in whole.items()
    ]
    report.result(channel=str(folder), states=states)
    rows = [
        (
            *(s["number"], s["made"], s["packages"], s["before"] or ""),
            "" if s["added"] is None else f"+{s['added']} -{s['left']}",
            "readers see it" if s["current"] else "",
        )
        for s in states
    ]
    numbers = ["state", "packages", "followed"]
    report.table(
        f"states of {folder}",
        ["state", "made", "packages", "followed", "change", ""],
        rows,
        numbers,
    )
    if lost := [str(state.number) for state in known.states if state not in whole]:
        report.line(f"not to be returned to, having lost index files: state {listing(lost)}")
    if states:
        report.line("--to N returns to a state")


def _first_state(folder: Path) -> str:
    return f"ctk publish --to {shlex.quote(str(folder))}; what readers see becomes its first state"


def _say_site(folder: Path, report: Reporter) -> None:
    """Says that a site in a published folder, or beside it with a longer name, does not show what
    has changed.
    """
    from ctk.channel.publish import SITE

    place = folder.absolute()
    files = {*place.glob(f"*/{SITE}"), *place.parent.glob(f"{place.name}*/{SITE}")}
    if sites := sorted(str(file.parent) for file in files):
        report.line(
            f"{listing(sites)}: pages from before this; the same `ctk site` makes them again"
        )


def _check_folder(folder: Path) -> None:
    if ":/" in str(folder):
        raise BadValue(
            f"{folder} is an address, and a folder of this machine is wanted", "name the folder"
        )


def _published(folder: Path) -> Folder:
    from ctk.channel.local import is_built
    from ctk.channel.publish import Folder

    _check_folder(folder)
    if not folder.exists():
        raise channel_missing(folder)
    found = Folder(folder, workspace().recipes)
    if not found.notes.is_dir():
        is_shown = bool(found.visible().records) and not is_built(Path(os.path.realpath(folder)))
        cause = (
            f"nothing was published into {folder}{', or its .history is gone' if is_shown else ''}"
        )
        step = _first_state(folder) if is_shown else "name a folder that was published to"
        raise UnknownName(f"{cause}, so it has no states", step)
    return found


def site_command(
    folder: Annotated[
        Path, typer.Argument(help="Where the site goes: a new folder, or one made by this command.")
    ],
    platforms: Platforms = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--package",
            help=(
                "Solve for this package; may be repeated. By default all packages that users"
                " install by name."
            ),
        ),
    ] = None,
    pythons: Pythons = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help=(
                "The channel's published address, for the commands on the page; its folder by"
                " default."
            ),
        ),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            help="A folder or a URL in place of the built channel; its packages are downloaded."
        ),
    ] = None,
    base: Base = "local",
    title: Annotated[
        str, typer.Option(help="The name of the site, at the head of each page.")
    ] = "CUDA for conda",
    jobs: Jobs = None,
) -> None:
    """Make the channel's web pages: the command for each machine, the packages, and what is in the
    channel.

    Every answer of the first page is solved now. The docs of the checkout are among the pages, with
    this channel's address. The pages work from the folder without a server, and load nothing from
    elsewhere. It is replaced as a whole at the end. With --url the pages are for others: they name
    no folder of this machine.

    Examples: ctk site output/site ctk site /srv/www/cuda-site --url https://example.org/cuda --base
    conda-forge --title "CUDA at Example"

    JSON:
    - `folder`, `files` (how many), `bytes`, `questions` (how many were answered), `platforms`
    """
    from ctk import site
    from ctk.channel.check import mirrored
    from ctk.channel.local import is_built
    from ctk.lock.model import release_locks
    from ctk.plan.plan import python_tags
    from ctk.site import docs
    from ctk.site.answers import axes, plan_work, solved
    from ctk.site.pages import check, check_reachable, front_page, shards
    from ctk.solve.channels import catalogue

    where, report = workspace(), Reporter()
    others = [channel] if channel else []
    base = base_beside(base, others, where)
    check(folder)
    if url:
        check_reachable(url, base_channel(base, where))
    with ExitStack() as stack:
        own = base_channel(channel, where) if channel else where.channel
        place = (
            own
            if isinstance(own, Path)
            else stack.enter_context(mirrored(own, where.temporary, report))
        )
        report.say(f"reading the packages of {own}")
        content = replace(site.read(where, place), title=title)
        chosen = tuple(dict.fromkeys(platforms or content.platforms))
        check_names("platform", chosen, PLATFORMS)
        if not chosen:
            raise ChannelMissing(
                f"{own} has no packages", "name a --channel that has some, or run `ctk build`"
            )
        if missing := [platform for platform in chosen if platform not in content.platforms]:
            if channel:
                raise Unsolvable(
                    f"{channel} has nothing for {missing[0]}",
                    "leave it out, or name another --channel",
                )
            raise Unsolvable(
                f"nothing is built for {missing[0]} here", f"ctk build --platform {missing[0]}"
            )
        made: dict[str, Axes] = {}
        work: list[Work] = []
        addresses: list[str] = []
        for subdir in chosen:
            channels = catalogue(where, base, subdir, report, others=others)
            locks, tags = release_locks(where).values(), python_tags(where.build_config)
            made[subdir] = axes(channels, locks, tags, packages or (), pythons or ())
            work += plan_work(made[subdir], channels.channels)
            addresses = addresses or _addresses(where, url or _address(own), channels.channels)
        questions = sum(piece.size for piece in work)
        with report.task("questions", questions) as task:
            answers = [
                (piece.name, found)
                for piece, found in solved(work, jobs or os.cpu_count() or 1, task.advance)
            ]
        guide = list(docs.pages(where.root / "docs", title, addresses[0]))
        content = replace(content, channels=tuple(addresses), docs=bool(guide))
        front = front_page(content, made)
        every = [front, *shards(sorted(answers)), *site.report_pages(content), *guide]
    files, size = site.write(every, folder), sum(len(page.content) for page in every)
    report.result(
        folder=str(folder), files=files, bytes=size, questions=questions, platforms=list(made)
    )
    report.line(
        f"{folder}: {count(files, 'file')}, {megabytes(size)} MB; {count(questions, 'question')}"
        " answered"
    )
    if any(address.startswith("file:") for address in addresses):
        report.line(
            "its commands name folders of this machine; for others, make it with --url and --base"
        )
    elif isinstance(own, Path) and is_built(own.resolve()):
        report.line(
            f"it shows {own}, as built here; to show what readers have, name their folder with"
            " --channel"
        )
    report.line(f"open {(folder / 'index.html').absolute().as_uri()}")


def _addresses(where: Workspace, own: str, used: tuple[Path | str, ...]) -> list[str]:
    """The channels that a client is given: conda-forge in place of the metadata that stands in for
    it.
    """
    stand_in = where.notes / "planned" / "base"
    return [own, *("conda-forge" if c == stand_in else _address(c) for c in used[1:])]


def _address(channel: Path | str) -> str:
    """A channel as a client takes it: of a folder the link, not the state behind it, which a later
    build removes.
    """
    from ctk.solve.solve import lasting

    return lasting(channel.absolute().as_uri()) if isinstance(channel, Path) else channel


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
    from ctk.clean import Group, clean

    where, report = checkout(), Reporter()
    groups = clean(where, dry_run=True)
    freed = sum(group.freed for group in groups)
    folders = sorted(path for path in where.output.glob("[!.]*") if path.is_dir())
    output = [(path.name, Group.of(path.name, "", [path]).size) for path in folders]
    report.line(f"{megabytes(freed)} MB of {where.cache} can go", "bold")
    rows = [(g.name, megabytes(g.size), megabytes(g.freed), g.rule) for g in groups]
    columns = ["group", "MB", "MB that can go", "what can go"]
    report.table("caches", columns, rows, right=columns[1:3])
    sizes = [(name, megabytes(size)) for name, size in output]
    report.table(
        f"{where.output}, of which nothing goes by itself", ["folder", "MB"], sizes, right=["MB"]
    )
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not console.mode().json
    remove = yes or bool(freed and asks and typer.confirm(f"remove {megabytes(freed)} MB?"))
    if remove:
        # A user's cache for somebody else's checkout has nothing that the checkout's lock is for.
        with exclusive(where, report.say) if where.cache == where.own_cache else nullcontext():
            groups = clean(where)
        freed = sum(group.freed for group in groups)
        report.line(f"{megabytes(freed)} MB removed")
    elif freed:
        report.line("nothing was removed" + ("" if asks else "; --yes removes it"))
    report.result(
        cache=str(where.cache),
        dry_run=not remove,
        freed=freed,
        groups=[{"name": g.name, "size": g.size, "freed": g.freed, "goes": g.goes} for g in groups],
        output=[{"name": name, "size": size} for name, size in output],
    )
