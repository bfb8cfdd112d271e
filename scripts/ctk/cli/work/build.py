"""`ctk build` after its plan: fetch, build, publish the channel, and say what machines get."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from ctk.build.cluster import Cluster
from ctk.cli.options import BuildOptions, Selection
from ctk.cli.work.plan import Planned, machines_of, planned_for, show_left_out, show_python
from ctk.core.checkout import Workspace, base_channel, checkout
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.locks import exclusive
from ctk.fetch.fetch import stored
from ctk.pipeline import Pipeline, Result, verdict
from ctk.plan.commits import uncommitted
from ctk.plan.plan import Build, lacking
from ctk.plan.recipes import recipe_commit
from ctk.site.answers import is_half
from ctk.solve.channels import catalogue, makers
from ctk.solve.served import Served, served


def fetch(chosen: Selection, base: str) -> None:
    """Downloads the artefacts of a plan and lays them out for recipes."""
    workspace, report = checkout(), Reporter()
    planned = planned_for(chosen, base, workspace, report).plan
    with exclusive(workspace, report.say):
        fetched = Pipeline(workspace, report).fetch(planned)
    new = {artefact.sha256 for artefact in fetched}
    report.result(
        artefacts=[
            {
                "file": artefact.file,
                "sha256": artefact.sha256,
                "size": artefact.size,
                "path": str(stored(artefact, workspace)),
                "fetched": artefact.sha256 in new,
            }
            for artefact in planned.artefacts
        ]
    )
    size = megabytes(sum(artefact.size for artefact in planned.artefacts))
    report.line(
        f"{count(len(planned.artefacts), 'artefact')} of {size} MB in the cache, {len(fetched)} of"
        " them fetched now"
    )


def build(chosen: Selection, options: BuildOptions) -> None:
    """Builds what a command line asks for, publishes the channel, and shows what it is now."""
    workspace, report = checkout(), Reporter()
    with _cluster(options, workspace, report) as cluster:
        planned = planned_for(chosen, options.base, workspace, report)
        with exclusive(workspace, report.say):
            if options.base == "local":
                Pipeline(workspace, report, jobs=options.jobs, prefix="base ").make_base()
            run = Pipeline(workspace, report, jobs=options.jobs, cluster=cluster)
            base = base_channel(options.base, workspace)
            channel = options.to and options.to.absolute()
            result = run.run(planned.plan, base, channel)
    _show_result(result, planned, chosen.packages or (), workspace, report)
    _show_machines(chosen, planned, result.staged.channel, options.base, workspace, report)


def _cluster(
    options: BuildOptions, workspace: Workspace, report: Reporter
) -> Cluster | nullcontext[None]:
    """The Dask cluster of --dask.

    Made before anything that takes long: an address that does not answer is an error within
    seconds.
    """
    if not options.dask:
        return nullcontext()
    store = options.store or str(workspace.cache / "store")
    return Cluster(options.dask, store, report.say)


def _show_result(
    result: Result, planned: Planned, named: Sequence[str], workspace: Workspace, report: Reporter
) -> None:
    """Shows the channel, the tests, and what to do next."""
    report.result(**result.as_json(planned.plan))
    staged = result.staged
    packages = ", ".join(f"{subdir} {number}" for subdir, number in staged.packages.items())
    unchanged = "" if staged.changed else ", unchanged"
    report.line(f"channel: {staged.channel} ({packages}; {megabytes(staged.size)} MB{unchanged})")
    for line in verdict(result.tests):
        report.line(line)
    if result.dropped:
        report.line(
            "removed from the channel, because no recipe makes them, a package of them is lost or"
            f" the audit refuses them: {listing(result.dropped, most=5)}; if a recipe makes one,"
            " `ctk build NAME` makes it again"
        )
    _show_lacking(staged.channel, named, workspace, report)
    show_left_out(planned, report)
    show_python(planned, report)
    _show_uncommitted(planned.plan.builds, workspace, report)
    if staged.changed:
        is_own = staged.channel == workspace.channel
        source = "" if is_own else f" {shlex.quote(str(staged.channel))}"
        report.line(
            f"to show this to readers of a published channel: ctk publish{source} --to FOLDER"
        )


def _show_lacking(
    channel: Path, named: Sequence[str], workspace: Workspace, report: Reporter
) -> None:
    """Says that a channel lacks toolkits with which conda-forge compiles, and how to add them."""
    lacks = lacking(workspace, channel)
    if not lacks:
        return
    words = " ".join([*named, *map("--release {}".format, lacks)])
    if channel != workspace.channel:
        words += f" --to {shlex.quote(str(channel))}"
    report.line(
        f"it lacks toolkit {listing(lacks)}, with which conda-forge compiles: with both channels,"
        f" pytorch and others would be CPU builds; `ctk build {words}` adds it"
    )


def _show_uncommitted(builds: Sequence[Build], workspace: Workspace, report: Reporter) -> None:
    """Names the recipes and locks with changes that git does not have, if others are committed."""
    commits = {build.recipe.name: recipe_commit(build.recipe) for build in builds}
    is_git_checkout = any(commits.values())
    changed = [name for name, commit in commits.items() if not commit]
    if is_git_checkout and changed:
        report.line(
            f"not committed: {listing(changed)}; before you publish, commit and build again:"
            " packages name the commit"
        )
    locks = uncommitted(workspace.variants) if is_git_checkout else []
    if locks:
        report.line(f"not committed: {listing(locks, most=4)}; commit them with what they changed")


def _show_machines(
    chosen: Selection,
    planned: Planned,
    channel: Path,
    base: str,
    workspace: Workspace,
    report: Reporter,
) -> None:
    """Shows what each machine of --driver gets of the packages that were asked for."""
    answers = list(_served(chosen, planned, channel, base, workspace))
    for answer in answers:
        report.line(f"{answer.machine.words} ({answer.subdir}): {_words(answer)}")
    report.result(
        machines=[
            {
                "platform": answer.subdir,
                "driver": answer.machine.driver,
                "gpu": answer.machine.arch,
                "toolkits": list(answer.toolkits),
                "refused": answer.refused,
            }
            for answer in answers
        ]
    )


def _served(
    chosen: Selection, planned: Planned, channel: Path, base: str, workspace: Workspace
) -> Iterator[Served]:
    """What the machines of --driver get of a channel, on each platform of the plan."""
    machines = machines_of(chosen)
    if not machines:
        return
    others = [str(channel)] if channel != workspace.channel else ()
    maker = makers(workspace)
    for subdir in dict.fromkeys(build.subdir for build in planned.plan.builds):
        channels = catalogue(workspace, base, subdir, others=others)
        names = []
        # Also what an earlier run built, of which a machine of this run may get nothing: cuda-nvcc
        # for a V100.
        for name in sorted(channels.own_names):
            by = None if is_half(name) else maker(name)
            if by and (by.recipe in planned.named if planned.named else by.is_default):
                names.append(name)
        yield from served(channels.grouped(names), names, machines)


def _words(answer: Served) -> str:
    """The toolkit of most packages first, then those of others, then what cannot be installed."""
    by_number = sorted(answer.toolkits.items(), key=lambda toolkit: len(toolkit[1]), reverse=True)
    if not by_number:
        parts = ["no toolkit"]
    else:
        (most, _), *rest = by_number
        parts = [f"toolkit {most}"]
        parts += [f"toolkit {other} for {listing(names, most=5)}" for other, names in rest]
    if answer.refused:
        parts.append(f"{listing(answer.refused, most=5)} cannot be installed: {answer.why}")
    return "; ".join(parts)
