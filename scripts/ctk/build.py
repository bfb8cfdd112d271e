"""The build station: runs stock rattler-build for each build of a plan, and keeps the packages by content key.

A finished build is a folder named by everything that could change it; it appears by one rename, so a killed run leaves
whole builds or nothing. Package contents tests run here, inside rattler-build; tests that need an environment run once
the channel exists (`ctk.package_tests`).

Builds run on this machine, or on the workers of a Dask cluster (`ctk.building.cluster`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ctk import scratch
from ctk.building.cluster import Cluster
from ctk.building.local import LocalPool
from ctk.building.record import BuildReport, Built, Failure, build_key, cached
from ctk.building.schedule import Executor, Ledger, run_all
from ctk.dag import Build
from ctk.disk import disk_errors
from ctk.paths import Workspace
from ctk.plan import Plan

__all__ = ["BuildReport", "Built", "Failure", "build_key", "cached", "run"]


def run(
    plan: Plan,
    workspace: Workspace,
    *,
    level: int = 3,
    jobs: int | None = None,
    cluster: Cluster | None = None,
    progress: Callable[[str, str], None] = lambda build_id, outcome: None,
) -> BuildReport:
    """Builds what is not in the cache.

    Args:
        plan: What to build; its artefacts must be laid out.
        workspace: The checkout.
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
    ledger = Ledger()
    todo: dict[str, Build] = {}
    for build in plan.builds:
        earlier = cached(build, workspace, level)
        if earlier:
            ledger.done[build.id] = earlier
            progress(build.id, "unchanged")
        else:
            todo[build.id] = build
    if todo:
        with disk_errors(workspace.builds):
            scratch.clear(workspace)
            executor: Executor
            if cluster:
                executor = cluster.executor(workspace, level)
            else:
                executor = LocalPool(workspace, level, jobs, min(jobs, len(todo)))
            try:
                run_all(todo, ledger, executor, progress)
            finally:
                scratch.clear(workspace)
    order = [b.id for b in plan.builds]
    return BuildReport(
        tuple(ledger.done[i] for i in order if i in ledger.done),
        tuple(ledger.failed[i] for i in order if i in ledger.failed),
        tuple(ledger.skipped[i] for i in order if i in ledger.skipped),
    )
