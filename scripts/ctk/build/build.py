"""Makes the builds of a plan, each by itself: in processes here, or on a Dask cluster.

rattler-build checks the contents of a package as it builds it; tests that need an environment run
later, when the channel exists (`ctk.pipeline`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from ctk.build.cluster import Cluster
from ctk.build.finished import Built, build_key, finished
from ctk.build.one import at_work, processes
from ctk.build.runner import make
from ctk.core.checkout import Workspace
from ctk.core.disk import disk_errors
from ctk.core.errors import BuildFailed
from ctk.plan.plan import Build, Plan

__all__ = ["BuildReport", "Built", "build_key", "finished", "run"]

MAX_ON_CLUSTER = 256  # builds that a scheduler is given at once


@dataclass(frozen=True)
class BuildReport:
    """The builds of a plan, in its order."""

    built: tuple[Built, ...]
    failed: Mapping[str, str]  # id -> the cause, with the end of the log


def run(
    plan: Plan,
    workspace: Workspace,
    *,
    earlier: Mapping[str, Built] | None = None,
    jobs: int | None = None,
    cluster: Cluster | None = None,
    progress: Callable[[str, str], None] = lambda build_id, outcome: None,
) -> BuildReport:
    """Makes the builds of a plan that are not in the cache.

    Raises:
        BuildFailed: A build process was killed. A build that fails by itself is in the report.
        ClusterFailed: The scheduler is lost, or a worker has another ctk.
        NoSpace: A disk is full.
    """
    jobs = jobs or os.cpu_count() or 1
    done = dict(finished(plan, workspace, jobs=jobs) if earlier is None else earlier)
    failed: dict[str, str] = {}
    for build_id in done:
        progress(build_id, "unchanged")
    # The largest first, so that none is left for a single core at the end.
    todo = sorted(
        (b for b in plan.builds if b.id not in done),
        key=lambda b: -sum(a.size for a in b.artefacts),
    )
    working = at_work(workspace) if todo else nullcontext()
    with (
        disk_errors(workspace.builds),
        working,
        _started(todo, workspace, jobs, cluster) as running,
    ):
        for future in as_completed(running):
            build_id = running[future]
            try:
                built = done[build_id] = future.result()
                progress(
                    build_id,
                    "taken from the store" if built.cached else f"built in {built.seconds:.1f} s",
                )
            except BuildFailed as error:
                failed[build_id] = error.cause
                progress(build_id, "FAILED")
            except BrokenExecutor:
                raise BuildFailed(
                    f"a build process was killed while {build_id} was at work",
                    "it may have run out of memory; run it again: finished builds are kept",
                ) from None
    order = [b.id for b in plan.builds]
    return BuildReport(
        tuple(done[i] for i in order if i in done), {i: failed[i] for i in order if i in failed}
    )


@contextmanager
def _started(
    todo: Sequence[Build], workspace: Workspace, jobs: int, cluster: Cluster | None
) -> Iterator[dict[Future[Built], str]]:
    """Gives futures of builds, with their ids; leaving early cancels those that have not begun."""
    if not todo:
        yield {}
        return
    pool: Executor
    if cluster:
        pool = ThreadPoolExecutor(min(MAX_ON_CLUSTER, len(todo)))
        running = {pool.submit(cluster.make, b, workspace): b.id for b in todo}
    else:
        pool = processes(min(jobs, len(todo)), workspace.logs / "build-processes.log")
        running = {pool.submit(make, b, workspace, jobs): b.id for b in todo}
    try:
        yield running
    except BaseException:
        for future in running:
            future.cancel()
        if cluster:
            cluster.close()  # the threads of the pool wait for it
        raise
    finally:
        pool.shutdown()
