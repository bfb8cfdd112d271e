"""`ctk plan`, `ctk fetch`, `ctk build` and `ctk rebuild`."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ctk import pipeline
from ctk.build.build import github_matrix, jobs
from ctk.build.cluster import Cluster
from ctk.build.rebuild import Rebuilt, rebuild
from ctk.channel import states
from ctk.cli import options
from ctk.cli.options import AllComponents, AllReleases, Base, Jobs, Platforms, Pythons, Recipes, Releases, base_channel
from ctk.core import console
from ctk.core.checkout import Workspace, checkout, settings, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.errors import BadValue, NotReproduced, UnknownName
from ctk.core.files import exclusive
from ctk.core.platforms import PLATFORMS
from ctk.fetch.fetch import stored
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags, small


class PlanForm(StrEnum):
    """How `ctk plan` prints."""

    table = "table"
    github = "github"


def _request(
    where: Workspace,
    releases: list[str] | None,
    recipes: list[str] | None,
    platforms: list[str] | None,
    pythons: list[str] | None,
    all_releases: bool,
    all_components: bool,
) -> Request:
    if releases and all_releases:
        raise BadValue("--release and --all-releases exclude each other", "give one of them")
    if recipes and all_components:
        raise BadValue("--recipe and --all-components exclude each other", "give one of them")
    request = Request(releases or (), recipes or (), pipeline.default_platforms(platforms or ()), pythons or ())
    return small(request, where, all_releases=all_releases, all_components=all_components)


def _plan(where: Workspace, request: Request) -> Plan:
    return plan(published_set(where), request, python_tags(where.build_config))


def _show(planned: Plan, report: Reporter) -> None:
    rows = [
        (b.id, " ".join(o.name for o in b.outputs), megabytes(sum(a.size for a in b.artefacts))) for b in planned.builds
    ]
    report.table("builds", ["build", "packages", "MB to read"], rows, right=["MB to read"])
    if planned.left_out:
        report.table("left out", ["what", "why"], [(x.id, x.reason) for x in planned.left_out])
    total = sum(a.size for a in planned.artefacts)
    report.result(**planned.as_json())
    report.line(
        f"{count(len(planned.builds), 'build')}, {count(sum(len(b.outputs) for b in planned.builds), 'package')}, "
        f"{count(len(planned.artefacts), 'artefact')} of {megabytes(total)} MB; {len(planned.left_out)} left out"
    )


def plan_command(
    releases: Releases = None,
    recipes: Recipes = None,
    platforms: Platforms = None,
    pythons: Pythons = None,
    all_releases: AllReleases = False,
    all_components: AllComponents = False,
    form: Annotated[
        PlanForm,
        typer.Option("--format", help="github prints a job matrix, by default of all platforms, and nothing else."),
    ] = PlanForm.table,
) -> None:
    """Show what would be built, and what is left out and why.

    Example: ctk plan --release 13.4 --platform win-arm64
    """
    where = checkout()
    if form is PlanForm.github:
        platforms = platforms or list(PLATFORMS)
    request = _request(where, releases, recipes, platforms, pythons, all_releases, all_components)
    if form is PlanForm.github:
        words = [f"--recipe {name}" for name in recipes or ()] + [f"--python {name}" for name in pythons or ()]
        narrowed = " ".join(words or (["--all-components"] if all_components else []))
        found = jobs(published_set(where), request, python_tags(where.build_config))
        # It is what --json would print: a document for a machine, on stdout alone.
        sys.stdout.write(f"{github_matrix(found, settings(where.root).runner, narrowed)}\n")
        console.mode().printed = True
    else:
        _show(_plan(where, request), Reporter())


def fetch_command(
    releases: Releases = None,
    recipes: Recipes = None,
    platforms: Platforms = None,
    pythons: Pythons = None,
    all_releases: AllReleases = False,
    all_components: AllComponents = False,
) -> None:
    """Download the artefacts of a plan, checked against the release locks, and lay them out for recipes.

    Afterwards rattler-build alone can build those recipes.

    Example: ctk fetch --release 12.9 --recipe cuda-nvrtc
    """
    where, report = checkout(), Reporter()
    planned = _plan(where, _request(where, releases, recipes, platforms, pythons, all_releases, all_components))
    with exclusive(where, report.say):
        fetched = pipeline.fetch_plan(planned, where, report, pipeline.Clock(report))
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


def build_command(
    releases: Releases = None,
    recipes: Recipes = None,
    platforms: Platforms = None,
    pythons: Pythons = None,
    all_releases: AllReleases = False,
    all_components: AllComponents = False,
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
    where, report = checkout(), Reporter()
    # First of all: what does not answer is said within seconds.
    cluster = Cluster(dask, store or str(where.cache / "store")) if dask and not print_plan else None
    with cluster or nullcontext():
        planned = _plan(where, _request(where, releases, recipes, platforms, pythons, all_releases, all_components))
        if print_plan:
            _show(planned, report)
            return
        with exclusive(where, report.say):
            if base == "local":
                pipeline.make_base(where, report, level=level, jobs=jobs or os.cpu_count() or 1)
            result = pipeline.run(
                planned,
                where,
                report,
                base_channel(base, where),
                channel_folder=channel and channel.absolute(),
                level=level,
                jobs=jobs,
                cluster=cluster,
            )
    _summary(result, planned, report)


def _summary(result: pipeline.Result, planned: Plan, report: Reporter) -> None:
    report.result(**result.as_json(planned))
    not_run = Counter(o.detail for o in result.tests if o.state == "not run")
    for reason, number in not_run.items():
        report.line(f"package tests: {number} not run: {reason}")
    if planned.left_out:
        report.table("left out", ["what", "why"], [(x.id, x.reason) for x in planned.left_out])
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
    where = ", ".join(f"{subdir} {count}" for subdir, count in result.staged.packages.items())
    report.line(f"channel: {result.staged.channel} ({where}; {megabytes(result.staged.size)} MB)")


def rebuild_command(
    packages: Annotated[
        list[str] | None,
        typer.Argument(
            help="Package files, or names of packages in the channel; see --all.", autocompletion=options.packages
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--channel", help="Where names are looked up; output/channel by default.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every package of the channel.")] = False,
    sample: Annotated[
        int | None, typer.Option(min=1, help="This many packages of the channel, chosen at random.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of --sample; it is printed.")] = None,
    jobs: Jobs = None,
) -> None:
    """Make packages again from their own metadata, and compare byte by byte.

    A package names the commit of its recipe, its variant and its artefacts by sha256; what is missing is fetched.

    Example: ctk rebuild output/channel/noarch/cuda-version-13.0-native_100.conda
    """
    where, report = workspace(), Reporter()
    if sum((bool(packages), everything, sample is not None)) != 1:
        raise BadValue("name packages, or give --all or --sample", "see ctk rebuild --help")
    held = states.packages(folder or where.channel)
    if packages:
        chosen = [p for name in packages for p in _named(name, held)]
    elif not held:
        raise UnknownName(f"there are no packages in {folder or where.channel}", "run `ctk build` first")
    elif sample is not None:
        seed = random.randrange(10**6) if seed is None else seed
        report.result(seed=seed)
        report.line(f"sample of {min(sample, len(held))} from {count(len(held), 'package')}, --seed {seed}")
        chosen = sorted(random.Random(seed).sample(held, min(sample, len(held))))
    else:
        chosen = held
    with exclusive(where, report.say):
        _run(list(dict.fromkeys(chosen)), where, jobs, report)


def _named(name: str, held: list[Path]) -> list[Path]:
    if Path(name).is_file():
        return [Path(name)]
    found = [p for p in held if name in (p.name, p.stem, p.stem.rsplit("-", 2)[0])]
    if not found:
        raise UnknownName.of("package", name, {p.stem.rsplit("-", 2)[0] for p in held})
    return found


def _run(chosen: list[Path], where: Workspace, jobs: int | None, report: Reporter) -> None:
    with report.task("rebuild", len(chosen)) as task:
        outcomes = rebuild(chosen, where, jobs=jobs, progress=lambda outcome: task.advance(1, _line(outcome)))
    changed = [o for o in outcomes if not o.identical]
    report.result(
        packages=[
            {
                "package": f"{o.package.parent.name}/{o.package.name}",
                "identical": o.identical,
                "differences": [{"where": d.place, "what": d.what} for d in o.differences],
            }
            for o in outcomes
        ]
    )
    rows = [(f"{o.package.parent.name}/{o.package.name}", d.place, d.what) for o in changed for d in o.differences]
    if rows:
        report.table("differences", ["package", "where", "what"], rows)
    subdirs = sorted({o.package.parent.name for o in outcomes})
    counts = [(s, [o.identical for o in outcomes if o.package.parent.name == s]) for s in subdirs]
    report.table(
        "rebuilt",
        ["subdir", "packages", "identical", "different"],
        [(s, len(found), sum(found), len(found) - sum(found)) for s, found in counts],
        ["packages", "identical", "different"],
    )
    if changed:
        raise NotReproduced(
            f"{count(len(changed), 'package')} of {len(outcomes)} came out in another way",
            "the table says which file differs; what another version of ctk built has to be built again",
        )
    report.line(f"{count(len(outcomes), 'package')} rebuilt, identical")


def _line(outcome: Rebuilt) -> str:
    return "" if outcome.identical else f"{outcome.package.name} differs"
