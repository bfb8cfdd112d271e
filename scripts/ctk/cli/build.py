"""`ctk build` and `ctk feedstock`."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ctk.cli.options import Base, Jobs, Releases, Selection, not_both, refuse_versions, selecting
from ctk.core import console
from ctk.core.checkout import Workspace, base_channel, checkout, settings, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, IndexUnavailable, check_names
from ctk.core.locks import exclusive
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.core.versions import python_name

if (
    TYPE_CHECKING
):  # these take half a second to be imported, and commands that build nothing do without
    from ctk.lock.model import Artefact
    from ctk.pipeline import Result
    from ctk.plan.plan import LeftOut, Plan, Request, Set
    from ctk.solve.machine import Machine


def _request(chosen: Selection, what: Set, tags: Sequence[str], where: Workspace) -> Request:
    from ctk.plan.plan import Request, small, with_needs

    refuse_versions(chosen.packages or (), "--driver 12.4 --driver ")
    named = "names of packages"
    not_both("--release", "--all-releases", chosen.releases and chosen.all_releases)
    not_both("--driver", "--release", chosen.drivers and chosen.releases)
    not_both("--driver", "--all-releases", chosen.drivers and chosen.all_releases)
    not_both(named, "--all-components", chosen.packages and chosen.all_components)
    not_both(named, "--libraries", chosen.packages and chosen.libraries)
    if chosen.gpus and not chosen.drivers:
        raise BadValue(
            "--arch says nothing without --driver",
            "name the machines' drivers, such as --driver 13.0",
        )
    platforms = chosen.platforms or [this_platform()]
    check_names("platform", platforms, PLATFORMS)
    releases = (
        _releases(chosen, what, platforms, where) if chosen.drivers else chosen.releases or ()
    )
    request = Request(releases, chosen.packages or (), platforms, chosen.pythons or ())
    every = {"all_releases": chosen.all_releases, "all_components": chosen.all_components}
    request = small(request, where, **every, libraries=chosen.libraries)
    return with_needs(what, request, tags) if chosen.packages else request


def _releases(
    chosen: Selection, what: Set, platforms: Sequence[str], where: Workspace
) -> list[str]:
    """The releases that machines with the drivers and GPUs of --driver and --arch get on any of the
    platforms.

    For named packages they are those of a solver's picks: PyTorch needs a newer toolkit than a
    driver for 12.4 has.
    """
    from packaging.version import Version

    from ctk.plan.plan import release_for

    locks, machines = [lock for lock, _ in what.locks.values()], _machines(chosen)
    known = sorted(
        {gpu for lock in locks if lock.facts for gpu in lock.facts.gpu_architectures}, key=Version
    )
    # One that is newer than all may come to be.
    gpus = dict.fromkeys(on.arch for on in machines if on.arch)
    if strange := [
        gpu for gpu in gpus if gpu not in known and known and Version(gpu) < Version(known[-1])
    ]:
        cause = f"no locked release knows a GPU of compute capability {listing(strange, 'or')}"
        raise BadValue(cause, f"choose one of {listing(known, 'or')}")
    toolkits = _toolkits(chosen, what, platforms, where) if chosen.packages else None
    found: list[str] = []
    for on in machines:
        minors: list[str] = []
        for platform in platforms:
            if own := release_for(locks, platform, on.driver, on.arch):
                minors += (
                    [minor or own for minor in toolkits(platform, on.driver, on.arch)]
                    if toolkits
                    else [own]
                )
        if not minors:
            runs = f"release with {listing(chosen.packages)}" if chosen.packages else "release"
            raise BadValue(
                f"no locked {runs} runs on {listing(platforms, 'or')} with {on.words}",
                "see docs/how-the-right-build-is-picked.md for the drivers and GPUs of each"
                " release",
            )
        found += minors
    return list(dict.fromkeys(found))


def _machines(chosen: Selection) -> list[Machine]:
    from ctk.cli.machines import stated_machines

    if not chosen.drivers:
        return []
    gpus = ",".join(chosen.gpus) if chosen.gpus else None
    machines, _ = stated_machines(",".join(chosen.drivers), gpus, None)
    return machines


def _toolkits(
    chosen: Selection, what: Set, platforms: Sequence[str], where: Workspace
) -> Callable[[str, str | None, str | None], Iterator[str]]:
    """Returns a function that has the picks of the named packages made for a platform, a driver and
    a GPU.

    It yields their toolkits, "" for a pick without; one for each Python that has a pick.
    """
    from ctk.plan.plan import recipes_of
    from ctk.plan.recipes import makers_of
    from ctk.solve.channels import planned, write
    from ctk.solve.machine import python_specs
    from ctk.solve.solve import Catalogue, Scenario

    specs: list[str] = []
    for name in chosen.packages or ():
        recipes = recipes_of(what, [name])
        outputs = [
            o for recipe in recipes for o in what.recipes[recipe].output_names if "{" not in o
        ]
        specs += [name] if makers_of(name, what.recipes) else outputs
    pythons = [python_specs(python) for python in chosen.pythons or ()] or [()]
    channels = write(
        planned(where, platforms), where.notes / "planned" / "+".join(platforms)
    ).folders
    catalogues = {platform: Catalogue(channels, platform) for platform in platforms}

    def toolkits(platform: str, driver: str | None, gpu: str | None) -> Iterator[str]:
        for python in pythons:
            if pick := catalogues[platform].pick(
                Scenario((*specs, *python), platform, driver, gpu)
            ):
                yield pick.toolkit

    return toolkits


def _show(planned: Plan, asked: Collection[str], where: Workspace, report: Reporter) -> None:
    from ctk.build.build import finished

    total = sum(a.size for a in planned.artefacts)
    report.result(**planned.as_json())
    done = finished(planned, where)
    report.line(
        f"{count(len(planned.builds), 'build')},"
        f" {count(sum(len(b.outputs) for b in planned.builds), 'package')},"
        f" {count(len(planned.artefacts), 'artefact')} of {megabytes(total)} MB;"
        f" {len(planned.left_out)} left out"
    )
    rows = [  # native and compat packages have a name together
        (
            b.id,
            " ".join(dict.fromkeys(o.name for o in b.outputs)),
            megabytes(sum(a.size for a in b.artefacts)),
        )
        for b in planned.builds
        if report.verbose or b.id not in done
    ]
    if done:
        shown = "" if report.verbose else " (-v: all)"
        report.line(f"{len(done)} of them were built before, and would be unchanged{shown}")
    if rows:
        report.table("builds", ["build", "packages", "MB to read"], rows, right=["MB to read"])
    _show_left_out(planned, asked, report)


def _show_left_out(planned: Plan, asked: Collection[str], report: Reporter) -> None:
    """Prints a line for each reason, of named recipes if any were named.

    With -v a row for each that is left out.
    """
    if planned.left_out and report.verbose:
        report.table("left out", ["what", "why"], [(x.id, x.reason) for x in planned.left_out])
    elif planned.left_out:
        alike: dict[tuple[str, str], list[LeftOut]] = defaultdict(list)
        for left in planned.left_out:
            alike[left.kind, left.name].append(left)
        names, said = defaultdict[str, set[str]](set), dict[str, None]()
        for (kind, name), some in alike.items():
            pythons = dict.fromkeys(python_name(left.python) for left in some if left.python)
            why = f"{kind} and Python {listing([*pythons], 'or')}" if pythons else kind
            names[why].add(name)
            if not asked or any(left.recipe in asked for left in some):
                said[why] = None
        nothing = "nothing that you named is left out (-v: what else is)"
        report.line("left out, by reason (-v: each)" if said else nothing, "bold")
        for why in said:
            report.line(f"- {', '.join(sorted(names[why]))}: {why}")


def _show_jobs(
    chosen: Selection, what: Set, request: Request, tags: Sequence[str], where: Workspace
) -> None:
    """Prints the matrix of a workflow, whose jobs repeat the command's options that choose recipes
    and Pythons.
    """
    from ctk.build.build import github_matrix

    words = list(request.recipes) if chosen.packages else []
    words += ["--all-components"] if chosen.all_components else []
    words += ["--libraries"] if chosen.libraries else []
    words += [f"--python {name}" for name in chosen.pythons or ()]
    matrix = github_matrix(what, request, tags, settings(where.root).runner, " ".join(words))
    # As with --json: stdout has one document for a machine, and nothing else.
    sys.stdout.write(f"{matrix}\n")
    console.mode().printed = True


def _fetch(planned: Plan, where: Workspace, report: Reporter) -> None:
    from ctk.fetch.fetch import stored
    from ctk.pipeline import Pipeline

    with exclusive(where, report.say):
        fetched = Pipeline(where, report).fetch(planned)
    new = {artefact.sha256 for artefact in fetched}
    report.result(
        artefacts=[
            {
                "file": a.file,
                "sha256": a.sha256,
                "size": a.size,
                "path": str(stored(a, where)),
                "fetched": a.sha256 in new,
            }
            for a in planned.artefacts
        ]
    )
    size = megabytes(sum(a.size for a in planned.artefacts))
    report.line(
        f"{count(len(planned.artefacts), 'artefact')} of {size} MB at hand, {len(fetched)} of them"
        " fetched now"
    )


@selecting
def build_command(
    chosen: Selection,
    base: Base = "local",
    jobs: Jobs = None,
    channel: Annotated[
        Path | None, typer.Option(help="Publish in this folder; output/channel by default.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Build on a Dask cluster, such as tcp://scheduler:8786."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="CTK_STORE",
            help=(
                "Where artefacts and packages go through to the cluster: a folder or fsspec URL"
                " that all workers see; "
                ".cache/store by default."
            ),
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show what would be built, and what is left out and why; build nothing.",
        ),
    ] = False,
    fetch_only: Annotated[
        bool,
        typer.Option(
            "--fetch-only",
            help=(
                "Download the artefacts, check them against the release locks, and lay them out for"
                " recipes, which "
                "rattler-build alone can then build."
            ),
        ),
    ] = False,
    form: Annotated[
        Literal["table", "github"],
        typer.Option(
            "--format",
            help="Of --dry-run: github prints a job matrix, by default of all platforms.",
        ),
    ] = "table",
) -> None:
    """Build, audit, test and index packages, then publish them as a channel.

    Without options: the default releases and recipes for this machine's platform. What did not
    change is not built again. In a folder that has a channel, it adds to that channel, or replaces
    what changed.

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

    `--format github` prints the matrix of a workflow instead, on one line. With `--fetch-only`,
    instead:

    - `artefacts`: `file`, `sha256`, `size`, `path`, `fetched` (whether it was not there before)
    """
    from ctk.build.cluster import Cluster
    from ctk.pipeline import Pipeline
    from ctk.plan.plan import plan, published_set, python_tags, recipes_of
    from ctk.plan.usable import usable

    not_both("--dry-run", "--fetch-only", dry_run and fetch_only)
    where, report = checkout(), Reporter()
    # Before anything that takes long: an address that does not answer is an error within seconds.
    cluster = (
        Cluster(dask, store or str(where.cache / "store"), report.say)
        if dask and not (dry_run or fetch_only)
        else None
    )
    with cluster or nullcontext():
        what, tags = published_set(where), python_tags(where.build_config)
        if form == "github":
            if not dry_run:
                raise BadValue("--format says nothing without --dry-run", "add --dry-run")
            chosen = replace(chosen, platforms=chosen.platforms or list(PLATFORMS))
            _show_jobs(chosen, what, _request(chosen, what, tags, where), tags, where)
            return
        request, asked = (
            _request(chosen, what, tags, where),
            recipes_of(what, chosen.packages or ()),
        )
        with report.task("plan", len(what.locks)) as task:
            planned = plan(what, request, tags, lambda: task.advance(1))
        if chosen.packages or chosen.drivers:
            gpus = {on.arch or "" for on in _machines(chosen) if on.driver}
            planned = usable(planned, asked, () if "" in gpus else gpus)
        if dry_run:
            _show(planned, asked, where, report)
            return
        if fetch_only:
            _fetch(planned, where, report)
            return
        with exclusive(where, report.say):
            if base == "local":
                Pipeline(where, report, jobs=jobs, prefix="base ").make_base()
            run = Pipeline(where, report, jobs=jobs, cluster=cluster)
            result = run.run(planned, base_channel(base, where), channel and channel.absolute())
    _summary(result, planned, chosen.packages or (), asked, report)
    _show_machines(chosen, planned, asked, result.staged.channel, base, where, report)


def _show_machines(
    chosen: Selection,
    planned: Plan,
    asked: Collection[str],
    channel: Path,
    base: str,
    where: Workspace,
    report: Reporter,
) -> None:
    """Solves each package that was asked for on each machine that --driver states, and says what it
    gets.
    """
    from ctk.site.answers import is_half
    from ctk.solve.channels import catalogue, maker
    from ctk.solve.solve import Scenario

    machines, answers, others = _machines(chosen), list[dict[str, Any]](), [str(channel)]
    for subdir in dict.fromkeys(build.subdir for build in planned.builds) if machines else ():
        channels = catalogue(where, base, subdir, others=others if channel != where.channel else ())
        # Also what an earlier run built, of which a machine of this run may get nothing: cuda-nvcc
        # for a V100.
        makers = {
            name: maker(where, name) for name in sorted(channels.own_names) if not is_half(name)
        }
        names = [
            name
            for name, by in makers.items()
            if by and (by.recipe in asked if asked else by.is_default)
        ]
        channels = channels.grouped(names)
        channels.ask(
            Scenario((name,), subdir, on.driver, on.arch) for on in machines for name in names
        )
        for on in machines:
            picks = {
                name: channels.pick(Scenario((name,), subdir, on.driver, on.arch)) for name in names
            }
            gets: dict[str, list[str]] = defaultdict(list)
            for name, pick in picks.items():
                if not pick or pick.toolkit:
                    gets[
                        f"toolkit {pick.toolkit} {pick.fit}".strip() if pick else "nothing"
                    ].append(name)
            refused = gets.pop("nothing", [])
            most, *rest = sorted(gets, key=lambda toolkit: -len(gets[toolkit])) or ["no toolkit"]
            words = [most, *(f"{other} for {listing(gets[other], most=5)}" for other in rest)]
            words += [f"it gets no {listing(refused, 'or', most=5)}"] if refused else []
            machine = {"platform": subdir, "driver": on.driver, "gpu": on.arch}
            answers.append(
                {
                    **machine,
                    "toolkits": [t.removeprefix("toolkit ") for t in gets],
                    "refused": refused,
                }
            )
            report.line(f"{on.words} ({subdir}): {'; '.join(words)}")
    report.result(machines=answers)


def _summary(
    result: Result, planned: Plan, named: Sequence[str], asked: Collection[str], report: Reporter
) -> None:
    from ctk.pipeline import verdict
    from ctk.plan.plan import lacking
    from ctk.plan.recipes import recipe_commit

    report.result(**result.as_json(planned))
    channel = result.staged.channel
    where = ", ".join(f"{subdir} {count}" for subdir, count in result.staged.packages.items())
    unchanged = "" if result.staged.changed else ", unchanged"
    report.line(f"channel: {channel} ({where}; {megabytes(result.staged.size)} MB{unchanged})")
    for line in verdict(result.tests):
        report.line(line)
    if result.dropped:
        report.line(
            "left the channel, as no recipe makes it, a package of it is lost or the audit refuses"
            f" it: {listing(result.dropped, most=5)}; `ctk build NAME` makes again what a recipe"
            " makes"
        )
    if lacks := lacking(workspace(), channel):
        more = " ".join([*named, *(f"--release {minor}" for minor in lacks)])
        more += f" --channel {shlex.quote(str(channel))}" if channel != workspace().channel else ""
        report.line(
            f"it lacks toolkit {listing(lacks)}, with which conda-forge compiles: beside"
            f" conda-forge, pytorch and others are CPU builds then; `ctk build {more}` adds it"
        )
    _show_left_out(planned, asked, report)
    recipes = {build.recipe.name: recipe_commit(build.recipe) for build in planned.builds}
    if any(recipes.values()) and not all(recipes.values()):  # else it is no git checkout
        changed = listing([name for name, commit in recipes.items() if not commit])
        report.line(
            f"not committed: {changed}; before you publish, commit and build again: packages name"
            " the commit"
        )
    if result.staged.changed:
        source = "" if channel == workspace().channel else f" {shlex.quote(str(channel))}"
        report.line(
            f"readers of a published channel see this after: ctk publish{source} --to FOLDER"
        )


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
    """Write a recipe as a feedstock that conda-smithy and stock rattler-build take without this
    repository.

    The folder is for your own CI. conda-forge cannot take it: the sources are wheels. Its README
    has all reasons, and the commit that it was exported from.

    Its sources are named by the addresses of the index that pip is configured for. A recipe of the
    toolkit is written for the newest release, or for those that --release names. DIR is outside the
    checkout, or below its output/.

    Example: ctk feedstock cuda-core ../cuda-core --maintainer your-name

    JSON:
    - `folder`, `files`
    """
    from ctk.core.address import UNREADABLE, public
    from ctk.feedstock import check_place, feedstock, write
    from ctk.fetch.fetch import locate
    from ctk.index.index import Index

    where, report = checkout(), Reporter()
    check_place(folder, where, force=force)
    names = maintainers or settings(where.root).feedstock.maintainers
    with Index() as index:

        def source(artefact: Artefact) -> str:
            address = public(locate(index, artefact).url)
            if address == UNREADABLE:
                cause = f"the index's address of {artefact.file} may have a password in it"
                raise IndexUnavailable(
                    cause, "ask whoever runs the index for addresses without an @"
                )
            return address

        files = feedstock(where, recipe, releases or (), names, source, report.line)
    write(files, folder)
    report.result(folder=str(folder), files=sorted(map(str, files)))
    report.line(
        f"{folder}: {count(len(files), 'file')} for your own CI; `conda smithy rerender` there"
        " makes the rest"
    )
