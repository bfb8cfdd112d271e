"""Measures one whole CTK release for one platform, from nothing and unchanged, and projects all
releases and platforms.

The release is measured from an empty cache; the limit beside it is what nobody can avoid
(benchmarks/build.py). The projection is arithmetic on the release locks; what it assumes is printed
with it. Example: .venv/bin/python benchmarks/matrix.py 13.4
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from build import (  # benchmarks/build.py
    cpu_seconds,
    fresh_checkout,
    limit,
)
from figures import RATIO, record

from ctk.audit import audit_packages
from ctk.build import LEVEL, build
from ctk.channel import local as states
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, megabytes
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.pipeline import Pipeline
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags, small

CORES = (2, 16, 128)


@dataclass(frozen=True)
class Cost:
    """What one release took on one platform.

    Attributes:
        wall: Station -> seconds from nothing.
        unchanged: Seconds of all stations when nothing changed.
        limit: Seconds to unzip and compress the same bytes, on the same cores.
        cpu: CPU seconds of build and audit.
        longest: The build that took longest: seconds, its id, bytes of its artefacts.
        read: Bytes of artefacts.
        worked: The same, each counted for every build that reads it.
        written: Bytes of packages.
        jobs: Processes.
    """

    wall: dict[str, float]
    unchanged: float
    limit: float
    cpu: float
    longest: tuple[float, str, int]
    read: int
    worked: int
    written: int
    jobs: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", nargs="?", default="13.4", help="a locked CTK minor")
    parser.add_argument("--platform", default=this_platform(), choices=PLATFORMS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--scratch",
        type=Path,
        help="where to work; needs about 10 GB (default: the temporary folder)",
    )
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    report = Reporter()
    with tempfile.TemporaryDirectory(prefix="ctk-benchmark-", dir=options.scratch) as scratch:
        where = fresh_checkout(Path(scratch))
        cost = measure(where, options.release, options.platform, options.jobs)
        show(cost, options.release, options.platform, report)
        project(cost, where, report)
        if options.record:
            record(
                workspace(), "matrix", recorded(cost, f"{options.release} for {options.platform}")
            )


def recorded(cost: Cost, what: str) -> Iterator[tuple[str, float, str]]:
    """The figures to keep."""
    for name, seconds in cost.wall.items():
        yield f"{what}: {name}", seconds, "s"
    yield f"{what}: unchanged", cost.unchanged, "s"
    yield f"{what}: build / limit", cost.wall["build"] / cost.limit, RATIO


def planned(where: Workspace, releases: Iterable[str] = (), platforms: Iterable[str] = ()) -> Plan:
    """All components of the toolkit; the Python projects are locks of their own."""
    asked = Request(list(releases), platforms=list(platforms))
    request = small(asked, workspace(), all_releases=True, all_components=True)
    return plan(published_set(where), request, python_tags(where.build_config))


def measure(where: Workspace, release: str, subdir: str, jobs: int) -> Cost:
    wanted = planned(where, [f"cuda-{release}"], [subdir])
    wall, cpu = {}, 0.0

    def run(name: str, station: Callable[[], object]) -> None:
        nonlocal cpu
        before, start = cpu_seconds(), time.perf_counter()
        station()
        wall[name] = time.perf_counter() - start
        cpu += cpu_seconds() - before if name in ("build", "audit") else 0

    made: list[build.BuildReport] = []

    def make() -> None:
        made.append(build.run(wanted, where, jobs=jobs))
        if made[-1].failed:
            raise SystemExit("\n".join(made[-1].failed.values()))

    def audit() -> None:
        found = audit_packages(
            states.packages(where.channel), forbidden_paths=(), jobs=jobs, cache=where.notes
        )
        # What belongs to the base channel is not here; nothing else may be found.
        print(f"audit: {found.summary()}")

    def index() -> None:
        states.commit(states.stage(states.candidates(made[-1].built, where.channel)))

    fetch = partial(Pipeline(where, Reporter(), jobs=jobs).fetch, wanted)
    run("fetch", fetch)
    # Before and after the build: what else the machine does drifts, and the mean of both sees the
    # same drift.
    bounds = [limit(wanted, where, jobs)]
    run("build", make)
    bounds.append(limit(wanted, where, jobs))
    run("index", index)
    run("audit", audit)
    start = time.perf_counter()
    fetch()
    make()
    index()
    audit()
    unchanged = time.perf_counter() - start
    built = made[0].built
    return Cost(
        wall,
        unchanged,
        sum(bounds) / 2,
        cpu,
        max((b.seconds, b.id, bytes_of(wanted, b.id)) for b in built),
        sum(a.size for a in wanted.artefacts),
        sum(bytes_of(wanted, b.id) for b in wanted.builds),
        sum(b.size for b in built),
        jobs,
    )


def bytes_of(made: Plan, build_id: str) -> int:
    """Of the artefacts that a build reads."""
    return sum(a.size for a in made.by_id[build_id].artefacts)


def show(cost: Cost, release: str, subdir: str, report: Reporter) -> None:
    total = sum(cost.wall.values())
    report.table(
        f"{release} for {subdir}, all components, level {LEVEL}, {cost.jobs} jobs",
        ["what", "measured"],
        [
            *((name, f"{seconds:.1f} s") for name, seconds in cost.wall.items()),
            ("from nothing", f"{total:.1f} s"),
            ("unchanged", f"{cost.unchanged:.1f} s"),
            ("limit: unzip and zstd", f"{cost.limit:.1f} s"),
            ("build / limit", f"{cost.wall['build'] / cost.limit:.2f}"),
            ("CPU of build and audit", f"{cost.cpu:.0f} s"),
            ("longest build", f"{cost.longest[1]}, {cost.longest[0]:.1f} s"),
            ("read", f"{megabytes(cost.read)} MB"),
            ("written", f"{megabytes(cost.written)} MB"),
        ],
    )


def project(cost: Cost, where: Workspace, report: Reporter) -> None:
    """All releases on all platforms, from the sizes in the locks and what the one release took for
    each byte.
    """
    whole = planned(where, platforms=PLATFORMS)
    read = sum(a.size for a in whole.artefacts)
    sizes = [bytes_of(whole, b.id) for b in whole.builds]
    cpu = cost.cpu / cost.worked * sum(sizes)
    busy = min(1.0, cost.cpu / (cost.jobs * (cost.wall["build"] + cost.wall["audit"])))
    seconds, _, size = cost.longest
    longest = seconds / size * max(sizes)
    download = read / (cost.read / cost.wall["fetch"])
    rows = []
    for cores in CORES:
        work = max(cpu / (cores * busy), longest)
        rows.append(
            (
                cores,
                f"{download / 3600:.2f}",
                f"{work / 3600:.2f}",
                f"{(download + work) / 3600:.2f}",
            )
        )
    locks = {b.lock for b in whole.builds}
    report.table(
        f"projected: {len(locks)} locks, {len(PLATFORMS)} platforms, {len(whole.builds)} builds",
        ["cores", "download h", "build and audit h", "hours"],
        rows,
        right=["cores", "download h", "build and audit h", "hours"],
    )
    stored = cost.written / cost.read * read
    report.console.print(
        f"downloaded: {read / 1e9:.1f} GB; stored: {stored / 1e9:.1f} GB of packages"
    )
    for line in (
        (
            f"CPU time goes with the bytes read: {cost.cpu / (cost.worked / 1e9):.0f} CPU seconds a"
            " GB, as measured"
        ),
        (
            f"cores are as busy as measured ({busy:.0%}), and a machine with more has the disk and"
            " memory for them"
        ),
        f"no build takes less than the largest does on one core: {longest:.0f} s",
        (
            f"the network is as fast as measured ({cost.read / cost.wall['fetch'] / 1e6:.0f} MB/s),"
            " whatever the cores"
        ),
        f"packages are as large for each byte read as measured ({cost.written / cost.read:.2f})",
    ):
        report.console.print(f"assumed: {line}", soft_wrap=True)


if __name__ == "__main__":
    main()
