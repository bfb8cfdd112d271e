"""`ctk plan`, `ctk fetch`, `ctk build`, and `ctk feedstock`."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctk.cli import options
from ctk.cli.options import Base, Jobs, Releases, Selection, base_channel, not_both, selecting
from ctk.core import console
from ctk.core.checkout import Workspace, checkout, settings, workspace
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.files import exclusive
from ctk.core.platforms import PLATFORMS, this_platform

if TYPE_CHECKING:
    from ctk.plan.plan import Plan, Request

if TYPE_CHECKING:  # what builds takes half a second to be imported: the commands that only look do without
    from ctk.pipeline import Result


class PlanForm(StrEnum):
    """How `ctk plan` prints."""

    table = "table"
    github = "github"


def _request(chosen: Selection, where: Workspace) -> Request:
    from ctk.plan.plan import Request, small

    not_both("--release", "--all-releases", chosen.releases and chosen.all_releases)
    not_both("--recipe", "--all-components", chosen.recipes and chosen.all_components)
    not_both("--recipe", "--ring 2", chosen.recipes and chosen.ring == 2)
    platforms = chosen.platforms or [this_platform()]
    request = Request(chosen.releases or (), chosen.recipes or (), platforms, chosen.pythons or ())
    every = {"all_releases": chosen.all_releases, "all_components": chosen.all_components}
    return small(request, where, **every, ring2=chosen.ring == 2)


def _plan(chosen: Selection, where: Workspace) -> Plan:
    from ctk.plan.plan import plan, published_set, python_tags

    return plan(published_set(where), _request(chosen, where), python_tags(where.build_config))


def _show(planned: Plan, report: Reporter) -> None:
    rows = [
        (b.id, " ".join(o.name for o in b.outputs), megabytes(sum(a.size for a in b.artefacts))) for b in planned.builds
    ]
    report.table("builds", ["build", "packages", "MB to read"], rows, right=["MB to read"])
    _show_left_out(planned, report)
    total = sum(a.size for a in planned.artefacts)
    report.result(**planned.as_json())
    report.line(
        f"{count(len(planned.builds), 'build')}, {count(sum(len(b.outputs) for b in planned.builds), 'package')}, "
        f"{count(len(planned.artefacts), 'artefact')} of {megabytes(total)} MB; {len(planned.left_out)} left out"
    )


def _show_left_out(planned: Plan, report: Reporter) -> None:
    """A line for each reason; with -v a row for each build that there is not."""
    from ctk.plan.plan import folded

    if planned.left_out and report.verbose:
        report.table("left out", ["what", "why"], [(x.id, x.reason) for x in planned.left_out])
    elif planned.left_out:
        subdirs = {b.subdir for b in planned.builds} | {x.subdir for x in planned.left_out} - {""}
        report.line("left out, by reason (-v: each)", "bold")
        for names, where, why in folded(planned.left_out, subdirs):
            report.line(f"- {where}: no {names}; {why}")


@selecting
def plan_command(
    chosen: Selection,
    form: Annotated[
        PlanForm,
        typer.Option("--format", help="github prints a job matrix, by default of all platforms, and nothing else."),
    ] = PlanForm.table,
) -> None:
    """Show what would be built, and what is left out and why.

    Example: ctk plan --release 13.4 --platform win-arm64
    """
    from ctk.plan.plan import published_set, python_tags

    where = checkout()
    if form is PlanForm.table:
        _show(_plan(chosen, where), Reporter())
        return
    chosen = replace(chosen, platforms=chosen.platforms or list(PLATFORMS))
    from ctk.build.build import github_matrix, jobs

    words = [f"--recipe {name}" for name in chosen.recipes or ()] + [
        f"--python {name}" for name in chosen.pythons or ()
    ]
    every = [*(["--all-components"] if chosen.all_components else ()), *(["--ring 2"] if chosen.ring == 2 else ())]
    narrowed = " ".join(words or every)
    found = jobs(published_set(where), _request(chosen, where), python_tags(where.build_config))
    # It is what --json would print: a document for a machine, on stdout alone.
    sys.stdout.write(f"{github_matrix(found, settings(where.root).runner, narrowed)}\n")
    console.mode().printed = True


@selecting
def fetch_command(chosen: Selection) -> None:
    """Download the artefacts of a plan, checked against the release locks, and lay them out for recipes.

    Afterwards rattler-build alone can build those recipes.

    Example: ctk fetch --release 12.9 --recipe cuda-nvrtc
    """
    from ctk.fetch.fetch import stored
    from ctk.pipeline import Pipeline

    where, report = checkout(), Reporter()
    planned = _plan(chosen, where)
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
    report.line(f"{count(len(planned.artefacts), 'artefact')} of {size} MB at hand, {len(fetched)} of them fetched now")


@selecting
def build_command(
    chosen: Selection,
    base: Base = "local",
    jobs: Jobs = None,
    level: Annotated[int, typer.Option(min=1, max=22, help="zstd level: low is fast, 19 is for publishing.")] = 3,
    channel: Annotated[Path | None, typer.Option(help="Publish in this folder; output/channel by default.")] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Build on a Dask cluster, such as tcp://scheduler:8786.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="CTK_STORE",
            help="Where artefacts and packages go through to the cluster: a folder or fsspec URL that all workers see; "
            ".cache/store by default.",
        ),
    ] = None,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Print the plan and exit.")] = False,
) -> None:
    """Build, audit, test and index packages, then publish them as a channel.

    Without options: the default releases and recipes for this machine's platform. What did not change is not built
    again.

    Example: ctk build --release 13.4 --platform win-64 --platform linux-aarch64
    """
    from ctk.build.cluster import Cluster
    from ctk.pipeline import Pipeline

    where, report = checkout(), Reporter()
    # First of all: what does not answer is said within seconds.
    cluster = Cluster(dask, store or str(where.cache / "store")) if dask and not print_plan else None
    with cluster or nullcontext():
        planned = _plan(chosen, where)
        if print_plan:
            _show(planned, report)
            return
        with exclusive(where, report.say):
            if base == "local":
                Pipeline(where, report, level=level, jobs=jobs, prefix="base ").make_base()
            run = Pipeline(where, report, level=level, jobs=jobs, cluster=cluster)
            result = run.run(planned, base_channel(base, where), channel and channel.absolute())
    _summary(result, planned, report)


def _summary(result: Result, planned: Plan, report: Reporter) -> None:
    report.result(**result.as_json(planned))
    from ctk.pipeline import verdict
    from ctk.plan.plan import lacking

    for line in verdict(result.tests):
        report.line(line)
    _show_left_out(planned, report)
    rows = []
    for recipe in sorted({b.recipe.name for b in planned.builds}):
        made = [b for b in result.built.built if planned.by_id[b.id].recipe.name == recipe]
        packages = sum(len(b.packages) for b in made)
        fresh = [b for b in made if not b.cached]
        spent = f"{sum(b.seconds for b in fresh):.1f}" if fresh else "unchanged"
        rows.append((recipe, len(made), packages, megabytes(sum(b.size for b in made)), spent))
    report.table(
        "built", ["recipe", "builds", "packages", "MB", "seconds"], rows, ["builds", "packages", "MB", "seconds"]
    )
    if result.dropped:
        report.line(
            f"left the channel, as the audit refuses now what earlier runs built: {', '.join(result.dropped)}; "
            "`ctk build --recipe NAME` makes it again"
        )
    where = ", ".join(f"{subdir} {count}" for subdir, count in result.staged.packages.items())
    report.line(f"channel: {result.staged.channel} ({where}; {megabytes(result.staged.size)} MB)")
    if lacks := lacking(workspace(), result.staged.channel):
        channel = result.staged.channel
        more = " ".join(f"--release {minor}" for minor in lacks)
        more += f" --channel {shlex.quote(str(channel))}" if channel != workspace().channel else ""
        report.line(
            f"before conda-forge it hides toolkit {listing(lacks)}, which conda-forge compiles with: CUDA builds of "
            f"pytorch and others need that; `ctk build {more}` adds it"
        )


def export_command(
    recipe: Annotated[str, typer.Argument(help="Folder name below recipes/.", autocompletion=options.recipes)],
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

    Example: ctk feedstock cuda-core ../cuda-core
    """
    from ctk.core.address import public
    from ctk.feedstock import feedstock, write
    from ctk.fetch.fetch import locate
    from ctk.index.index import Index

    where, report = checkout(), Reporter()
    names = maintainers or settings(where.root).feedstock.maintainers
    with Index() as index:
        files = feedstock(where, recipe, releases or (), names, lambda artefact: public(locate(index, artefact).url))
    write(files, folder, force=force)
    report.result(folder=str(folder), files=sorted(map(str, files)))
    report.line(f"{folder}: {count(len(files), 'file')}; `conda smithy rerender` there makes the rest")
