"""The build station: runs stock rattler-build for each build of a plan, and keeps the packages by content key.

A finished build is a folder named by everything that could change it; it appears by one rename, so a killed run leaves
whole builds or nothing. Package contents tests run here, inside rattler-build; tests that need an environment run once
the channel exists (`ctk.channel.package_tests`).

Builds run on this machine, or on the workers of a Dask cluster (`ctk.build.cluster`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from ctk.build.cluster import Cluster
from ctk.build.local import LocalPool
from ctk.build.record import BuildReport, Built, Failure, build_key, cached
from ctk.build.schedule import Executor, Ledger, run_all
from ctk.core.checkout import Workspace
from ctk.core.files import clear_build_folders, disk_errors
from ctk.plan.dag import Build
from ctk.plan.plan import Plan

__all__ = ["BuildReport", "Built", "Failure", "build_key", "cached", "finished", "run"]


def finished(
    plan: Plan,
    workspace: Workspace,
    *,
    level: int = 3,
    jobs: int | None = None,
    damaged: Callable[[str], None] = lambda what: None,
) -> dict[str, Built]:
    """What earlier runs left of a plan, by id of the build. Every package of it is read, several at once.

    Args:
        plan: What to build.
        workspace: The checkout.
        level: zstd compression level of the packages.
        jobs: Packages read at once; the number of cores by default.
        damaged: Told of each package that is not what its build left; that build is not in the result.
    """
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda build: cached(build, workspace, level, damaged), plan.builds))
    return {built.id: built for built in found if built}


def run(
    plan: Plan,
    workspace: Workspace,
    *,
    earlier: Mapping[str, Built] | None = None,
    level: int = 3,
    jobs: int | None = None,
    cluster: Cluster | None = None,
    progress: Callable[[str, str], None] = lambda build_id, outcome: None,
) -> BuildReport:
    """Builds what no earlier run has built.

    Args:
        plan: What to build; the artefacts of what is not in `earlier` must be laid out.
        workspace: The checkout.
        earlier: What `finished` found, where it was asked before.
        level: zstd compression level of the packages.
        jobs: Parallel builds on this machine; the number of cores by default.
        cluster: Builds there instead.
        progress: Told of each build's id and outcome.

    Raises:
        BuildFailed: A build process was killed. A build that fails is in the report.
        ClusterFailed: The cluster does not answer, or a worker does not fit.
        NoSpace: A disk is full.
    """
    jobs = jobs or os.cpu_count() or 1
    earlier = finished(plan, workspace, level=level, jobs=jobs) if earlier is None else earlier
    ledger = Ledger()
    todo: dict[str, Build] = {}
    for build in plan.builds:
        if build.id in earlier:
            ledger.done[build.id] = earlier[build.id]
            progress(build.id, "unchanged")
        else:
            todo[build.id] = build
    if todo:
        with disk_errors(workspace.builds):
            clear_build_folders(workspace)
            executor: Executor
            if cluster:
                executor = cluster.executor(workspace, level)
            else:
                executor = LocalPool(workspace, level, jobs, min(jobs, len(todo)))
            try:
                run_all(todo, ledger, executor, progress)
            finally:
                clear_build_folders(workspace)
    order = [b.id for b in plan.builds]
    return BuildReport(
        tuple(ledger.done[i] for i in order if i in ledger.done),
        tuple(ledger.failed[i] for i in order if i in ledger.failed),
        tuple(ledger.skipped[i] for i in order if i in ledger.skipped),
    )
