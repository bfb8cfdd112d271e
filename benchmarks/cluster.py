"""Measures how much faster a Dask cluster makes the same builds with more workers.

Few and many workers make the whole plan, in turn and several times, so that drift is seen. Every
time nothing is built: the cache has no builds, and the store has the artefacts alone. Scheduler and
workers are processes of this machine, which needs a core for each worker and one more; they have
imported what they need before the clock starts. All must make the same packages. Example:
.venv/bin/python benchmarks/cluster.py 12.9 13.4 --recipe cuda-cccl --workers 1 4
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

from build import fresh_checkout  # benchmarks/build.py
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster
from figures import RATIO, record

from ctk.build import LEVEL, build
from ctk.build.cluster import Cluster, Store
from ctk.build.finished import tools
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, count, megabytes
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.fetch import fetch
from ctk.index.index import Index
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags

Side = tuple[float, tuple[build.Built, ...]]
"""Seconds until the last package is back in the cache, and what was made."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "releases", nargs="*", default=["13.4"], help="locked CTK minors (default: 13.4)"
    )
    parser.add_argument(
        "--platform", action="append", choices=PLATFORMS, help="may be repeated (default: this one)"
    )
    parser.add_argument(
        "--recipe", action="append", default=[], help="may be repeated (default: all)"
    )
    parser.add_argument("--workers", nargs=2, type=int, default=[1, 4], metavar=("FEW", "MANY"))
    parser.add_argument("--rounds", type=int, default=2, help="of few and many (default: 2)")
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    if options.workers[0] >= options.workers[1]:
        parser.error("--workers: the second number is the larger one")
    platforms = options.platform or [this_platform()]
    sides: dict[int, list[Side]] = {n: [] for n in options.workers}
    with tempfile.TemporaryDirectory(prefix="ctk-benchmark-") as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = (
            scratch  # of the workers too, which are killed in the end
        )
        where = fresh_checkout(Path(scratch) / "checkout")
        request = Request(options.releases, options.recipe, platforms)
        planned = plan(published_set(where), request, python_tags(where.build_config))
        lay_out(planned, where)
        # Not counted: the first side reads from cold disks.
        measure(planned, where, options.workers[1])
        for _ in range(options.rounds):
            for workers in options.workers:
                sides[workers].append(measure(planned, where, workers))
    hold_same(sides)
    asked = f"{', '.join(options.releases)} for {', '.join(platforms)}, level {LEVEL}"
    found = show(f"{asked}, {count(len(planned.builds), 'build')}", planned, sides)
    if options.record:
        record(workspace(), "cluster", found)


def lay_out(planned: Plan, where: Workspace) -> None:
    """Fetches the artefacts, but those that this checkout has."""
    for artefact in planned.artefacts:
        have, home = fetch.stored(artefact, workspace()), fetch.stored(artefact, where)
        if have.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(have, home)
    fetch.fetch(planned.artefacts, where, Index)


def measure(planned: Plan, where: Workspace, workers: int) -> Side:
    """Makes every build with so many workers."""
    store = where.cache / "store"
    for folder in (store, where.builds):
        shutil.rmtree(folder, ignore_errors=True)
    for artefact in planned.artefacts:
        Store(str(store)).put(fetch.laid_out(artefact, where), artefact.sha256)
    with SubprocessCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0"
    ) as processes:
        with Client(processes) as client:
            client.wait_for_workers(workers)
            client.submit(
                tools
            ).result()  # the scheduler unpickles what is submitted, and so imports all of ctk
        with Cluster(processes.scheduler_address, str(store)) as cluster:
            start = time.perf_counter()
            made = build.run(planned, where, cluster=cluster)
            seconds = time.perf_counter() - start
    if made.failed:
        sys.exit("\n".join(made.failed.values()))
    Reporter().say(f"{count(workers, 'worker')}: {seconds:.1f} s")
    return seconds, made.built


def hold_same(sides: dict[int, list[Side]]) -> None:
    """Ends the run where two sides made other packages."""
    made = [
        {i for b in built for i in b.sha256.items()}
        for found in sides.values()
        for _, built in found
    ]
    if differ := sorted({name for one in made for name, _ in one ^ made[0]}):
        sys.exit(f"not the same every time: {', '.join(differ)}")


def show(what: str, planned: Plan, sides: dict[int, list[Side]]) -> list[tuple[str, float, str]]:
    """Prints a table; returns the figures to keep."""
    times = {count(workers, "worker"): [s for s, _ in found] for workers, found in sides.items()}
    # What remains is the way there and back, the start of a process for each build, and workers
    # with nothing to do.
    builds = [
        mean(sum(b.seconds for b in built) / s / n for s, built in found)
        for n, found in sides.items()
    ]
    few, many = times
    ratio = mean(times[few]) / mean(times[many])
    last = sides[min(sides)][-1][1]  # with few workers, builds disturb each other least
    longest = max(last, key=lambda b: b.seconds)
    read, records = planned.artefacts, [r for b in last for r in b.records.values()]
    rows = [
        *(
            (name, f"{mean(t):.1f} s ({', '.join(f'{s:.1f}' for s in t)})")
            for name, t in times.items()
        ),
        (f"{few} / {many}", f"{ratio:.2f}"),
        ("share of builds in a worker's time", " and ".join(f"{share:.0%}" for share in builds)),
        ("longest build", f"{longest.id}, {longest.seconds:.1f} s"),
        ("read", f"{megabytes(sum(a.size for a in read))} MB in {count(len(read), 'artefact')}"),
        (
            "written",
            f"{megabytes(sum(r['size'] for r in records))} MB in {count(len(records), 'package')}",
        ),
    ]
    Reporter().table(what, ["what", "measured"], rows)
    return [(f"{what}: {name}", mean(t), "s") for name, t in times.items()] + [
        (f"{what}: {few} / {many}", ratio, RATIO)
    ]


if __name__ == "__main__":
    main()
