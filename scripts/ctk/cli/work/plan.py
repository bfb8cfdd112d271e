"""`ctk build` as far as its plan: what a command line asks for, and what --dry-run shows."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctk.build.finished import finished
from ctk.cli.options import Selection, not_both, refuse_versions
from ctk.core import console
from ctk.core.checkout import Workspace, checkout, settings
from ctk.core.console import Reporter, count, listing, megabytes
from ctk.core.errors import BadValue, refuse_unknown_names
from ctk.core.files import HashNotes
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.core.versions import python_name, this_python
from ctk.fetch.fetch import missing
from ctk.plan.plan import (
    LeftOut,
    Plan,
    Request,
    Set,
    plan,
    published_set,
    python_tags,
    recipes_of,
    small,
    with_needs,
)

if TYPE_CHECKING:  # its import takes long, and a plan of the default set knows no machine
    from ctk.solve.machine import Machine


@dataclass(frozen=True)
class Planned:
    """A plan, and the recipes of the packages that were named for it."""

    plan: Plan
    named: Collection[str]  # empty without names
    only: str = ""  # the Python that was chosen as the machine's, in place of all


def show_plan(chosen: Selection, base: str) -> None:
    """Shows what would be built, and what is left out and why."""
    workspace, report = checkout(), Reporter()
    planned = planned_for(chosen, base, workspace, report)
    builds, artefacts = planned.plan.builds, planned.plan.artefacts
    report.result(**planned.plan.as_json())
    done = finished(planned.plan, workspace)
    HashNotes.of(workspace).save({})  # the next run need not read them again
    packages = sum(len(build.outputs) for build in builds)
    size = megabytes(sum(artefact.size for artefact in artefacts))
    report.line(
        f"{count(len(builds), 'build')}, {count(packages, 'package')},"
        f" {count(len(artefacts), 'artefact')} of {size} MB;"
        f" {len(planned.plan.left_out)} left out"
    )
    todo = replace(planned.plan, builds=tuple(build for build in builds if build.id not in done))
    if todo.artefacts:
        report.line(what_it_takes(todo, workspace))
    if done:
        shown = "" if report.verbose else " (-v: all)"
        report.line(f"{len(done)} of them were built before, and would be unchanged{shown}")
    rows = []
    for build in builds:
        if report.verbose or build.id not in done:
            # Native and compat packages have a name together.
            names = dict.fromkeys(output.name for output in build.outputs)
            size = megabytes(sum(artefact.size for artefact in build.artefacts))
            rows.append((build.id, " ".join(names), size))
    if rows:
        report.table("builds", ["build", "packages", "MB of wheels"], rows, right=["MB of wheels"])
    show_left_out(planned, report)
    show_python(planned, report)


def what_it_takes(todo: Plan, workspace: Workspace) -> str:
    """What builds download, and the disk that they need, in words.

    Wheels stay in the cache, and packages are about as large: those of the default channel have
    1589 MB, and their wheels 1657.
    """
    to_download = sum(artefact.size for artefact in missing(todo.artefacts, workspace))
    of_packages = sum(artefact.size for artefact in todo.artefacts)
    if not to_download:
        return f"nothing to download; the packages take about {megabytes(of_packages)} MB of disk"
    on_disk = megabytes(to_download + of_packages)
    return f"{megabytes(to_download)} MB to download; with the packages about {on_disk} MB of disk"


def show_jobs(chosen: Selection, form: str) -> None:
    """Prints the jobs of a CI service, by default of all platforms.

    They repeat the command's options that choose recipes and Pythons.
    """
    # Late: a plan that is shown does without.
    from ctk.build.ci import ci_jobs, github_matrix, gitlab_pipeline

    workspace = checkout()
    recipes, tags = published_set(workspace), python_tags(workspace.build_config)
    chosen = replace(chosen, platforms=chosen.platforms or list(PLATFORMS))
    request = _request(chosen, recipes, tags, workspace)
    words = list(request.recipes) if chosen.packages else []
    if chosen.all_components:
        words.append("--all-components")
    if chosen.libraries:
        words.append("--libraries")
    words += [f"--python {name}" for name in chosen.pythons or ()] or ["--all-pythons"]
    runner = settings(workspace.root).runner
    jobs = ci_jobs(recipes, request, tags, runner, " ".join(words))
    write = github_matrix if form == "github" else gitlab_pipeline
    # As with --json: stdout has one document for a machine, and nothing else.
    sys.stdout.write(f"{write(jobs)}\n")
    console.mode().printed = True


def planned_for(chosen: Selection, base: str, workspace: Workspace, report: Reporter) -> Planned:
    """Plans what a command line asks for, without builds that its machines cannot use."""
    recipes, tags = published_set(workspace), python_tags(workspace.build_config)
    only = _only_python(chosen, base, tags)
    if only:
        chosen = replace(chosen, pythons=[only])
    request = _request(chosen, recipes, tags, workspace)
    named = recipes_of(recipes, chosen.packages or ())
    with report.task("plan", len(recipes.locks), of="locks") as task:
        planned = plan(recipes, request, tags, lambda: task.advance(1))
    if chosen.packages or chosen.drivers:
        # Late: it reads specs, with a library that is slow to import.
        from ctk.plan.usable import usable

        gpus = {machine.arch for machine in machines_of(chosen) if machine.driver}
        known = {gpu for gpu in gpus if gpu}
        every = known != gpus  # a machine's GPU is not stated
        planned = usable(planned, named, () if every else known)
    return Planned(planned, named, only)


def _only_python(chosen: Selection, base: str, tags: Sequence[str]) -> str:
    """This machine's Python if the base channel has no other; "" for those that were chosen.

    Packages for another platform are made to be published, and so for all Pythons.
    """
    is_for_others = any(platform != this_platform() for platform in chosen.platforms or ())
    if chosen.pythons or chosen.all_pythons or base != "local" or is_for_others:
        return ""
    return this_python().name if this_python().tag in tags else ""


def machines_of(chosen: Selection) -> list[Machine]:
    """The machines that --driver and --arch state."""
    if not chosen.drivers:
        return []
    # Late: it solves, which is slow to import.
    from ctk.cli.work.machines import stated_machines

    stated = stated_machines(chosen.drivers, chosen.gpus or (), None)
    return stated.machines


def show_left_out(planned: Planned, report: Reporter) -> None:
    """Prints a line for each reason, of named recipes if any were named.

    With -v a row for each that is left out.
    """
    left_out = planned.plan.left_out
    if not left_out:
        return
    if report.verbose:
        report.table("left out", ["what", "why"], [(left.id, left.reason) for left in left_out])
        return
    alike: dict[tuple[str, str], list[LeftOut]] = defaultdict(list)
    for left in left_out:
        alike[left.kind, left.name].append(left)
    names = defaultdict[str, set[str]](set)
    shown: dict[str, None] = {}
    for (kind, name), some in alike.items():
        pythons = dict.fromkeys(python_name(left.python) for left in some if left.python)
        reason = f"{kind} and Python {listing([*pythons], 'or')}" if pythons else kind
        names[reason].add(name)
        if not planned.named or any(left.recipe in planned.named for left in some):
            shown[reason] = None
    if shown:
        report.line("left out, by reason (-v: each)", "bold")
    else:
        report.line("nothing that you named was left out (-v: what was)", "bold")
    for reason in shown:
        report.line(f"- {', '.join(sorted(names[reason]))}: {reason}")


def show_python(planned: Planned, report: Reporter) -> None:
    """Says that packages for other Pythons are not made, if there are any."""
    if planned.only and any(build.python for build in planned.plan.builds):
        report.line(
            f"for Python {planned.only} only, as the base channel has no other; `--all-pythons`"
            " builds for the others, too"
        )


def _request(chosen: Selection, recipes: Set, tags: Sequence[str], workspace: Workspace) -> Request:
    """What the options ask for, with the defaults of the checkout.

    Raises:
        BadValue, UnknownName: Options exclude each other, or name what does not exist.
    """
    _refuse_contradictions(chosen)
    platforms = chosen.platforms or [this_platform()]
    refuse_unknown_names("platform", platforms, PLATFORMS)
    if chosen.drivers:
        releases = _releases(chosen, recipes, platforms, workspace)
    else:
        releases = chosen.releases or []
    request = small(
        Request(releases, chosen.packages or (), platforms, chosen.pythons or ()),
        workspace,
        all_releases=chosen.all_releases,
        all_components=chosen.all_components,
        libraries=chosen.libraries,
    )
    return with_needs(recipes, request, tags) if chosen.packages else request


def _refuse_contradictions(chosen: Selection) -> None:
    """Raises BadValue for options that exclude each other, or say nothing without another one."""
    refuse_versions(chosen.packages or (), "--driver 12.4 --driver ")
    named = "names of packages"
    not_both("--release", "--all-releases", chosen.releases and chosen.all_releases)
    not_both("--driver", "--release", chosen.drivers and chosen.releases)
    not_both("--driver", "--all-releases", chosen.drivers and chosen.all_releases)
    not_both(named, "--all-components", chosen.packages and chosen.all_components)
    not_both(named, "--libraries", chosen.packages and chosen.libraries)
    not_both("--python", "--all-pythons", chosen.pythons and chosen.all_pythons)
    if chosen.gpus and not chosen.drivers:
        raise BadValue(
            "--arch has no effect without --driver",
            "name the machines' drivers, such as --driver 13.0",
        )


def _releases(
    chosen: Selection, recipes: Set, platforms: Sequence[str], workspace: Workspace
) -> list[str]:
    """The releases that the stated machines get; for named packages those of a solver's picks."""
    # Late: solving is slow to import, and a plan without stated machines does without.
    from ctk.solve.served import refuse_unknown_gpus, releases_for, toolkits_of

    machines, packages = machines_of(chosen), chosen.packages or ()
    locks = [lock for lock, _ in recipes.locks.values()]
    refuse_unknown_gpus(dict.fromkeys(m.arch for m in machines if m.arch), locks)
    toolkits = None
    if packages:
        toolkits = toolkits_of(packages, chosen.pythons or (), recipes, platforms, workspace)
    return releases_for(machines, platforms, locks, packages, toolkits)
