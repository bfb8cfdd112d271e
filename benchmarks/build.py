"""Measures one release from an empty cache: fetch, build, index, solve, and how close the build is
to its limit.

It builds the default recipes for this machine's Python, as `ctk build` does; without a release,
those of the default channel. The limit is what nobody can avoid: unzipping the same artefacts and
compressing the same bytes with zstd at the same level, on the same cores, measured in the same run.
With --recipe only the builds of some recipes are measured, and nothing is solved. Example:
.venv/bin/python benchmarks/build.py 13.4
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import zstandard
from figures import RATIO, record
from packaging.version import Version

from ctk import pipeline
from ctk.build import LEVEL, build
from ctk.channel import local as states
from ctk.core.checkout import Workspace, workspace
from ctk.core.console import Reporter, megabytes
from ctk.core.platforms import this_platform
from ctk.core.versions import this_python
from ctk.fetch import fetch
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags, small
from ctk.solve.solve import Scenario, solve

# What the recipe of the tool takes besides its code.
_OF_THE_TOOL = ("pyproject.toml", "LICENSE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="*", help="locked CTK minors; the default ones without")
    parser.add_argument("--platform", default=this_platform())
    parser.add_argument(
        "--recipe", action="append", default=[], help="may be repeated; all default ones without it"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctk-benchmark-") as scratch:
        where = fresh_checkout(Path(scratch))
        asked = Request(options.releases, options.recipe, [options.platform], [this_python().name])
        request = small(asked, workspace())
        found = measure(where, request, options.jobs, is_whole=not options.recipe)
        if options.record:
            what = " ".join([*options.releases, *options.recipe]) or "default channel"
            record(
                workspace(), "build", ((f"{what} {row}", value, unit) for row, value, unit in found)
            )


def fresh_checkout(folder: Path) -> Workspace:
    """This checkout's recipes and locks, with no cache."""
    source = workspace()
    for part in (source.recipes, source.variants, source.base_recipes, source.root / "scripts"):
        shutil.copytree(part, folder / part.name)
    for file in (source.build_config, *map(source.root.joinpath, _OF_THE_TOOL)):
        shutil.copy(file, folder)
    return Workspace(folder)


def measure(
    where: Workspace, request: Request, jobs: int, *, is_whole: bool
) -> list[tuple[str, float, str]]:
    """Prints a table; returns the figures to keep."""
    report = Reporter()
    releases = sorted(request.releases, key=Version)
    (subdir,) = request.platforms
    planned = plan(published_set(where), request, python_tags(where.build_config))
    read = sum(a.size for a in planned.artefacts)
    times: dict[str, float] = {}

    start = time.perf_counter()
    pipeline.Pipeline(where, report, jobs=jobs).fetch(planned)
    times["fetch"] = time.perf_counter() - start

    # Before and after the build: what else the machine does drifts, and the mean of both sees the
    # same drift.
    before = limit(planned, where, jobs)
    start, busy = time.perf_counter(), cpu_seconds()
    made = build.run(planned, where, jobs=jobs)
    times["build"], cpu = time.perf_counter() - start, cpu_seconds() - busy
    busy = cpu_seconds()
    after = limit(planned, where, jobs)
    cpu_ratio = cpu / (cpu_seconds() - busy)
    if made.failed:
        raise SystemExit("\n".join(made.failed.values()))

    start = time.perf_counter()
    states.commit(states.stage(states.candidates(made.built, where.channel)))
    times["index"] = time.perf_counter() - start

    if is_whole:
        # What the solver needs besides; not measured.
        base = pipeline.Pipeline(where, report, jobs=jobs, prefix="base ").make_base()
        start = time.perf_counter()
        solve(
            Scenario((f"cuda-version={releases[-1]}", "cuda-core"), subdir, releases[-1]),
            [where.channel, base],
        )
        times["solve"] = time.perf_counter() - start

    bound = (before + after) / 2
    packages = [p for b in made.built for p in b.packages]
    unpacked = sum(unpacked_bytes(fetch.laid_out(a, where)) for a in planned.artefacts)
    report.table(
        f"{', '.join(releases)} for {subdir}: {len(planned.builds)} builds,"
        f" {len(packages)} packages, level {LEVEL}, {jobs} jobs",
        ["what", "measured"],
        [
            *((name, f"{seconds:.1f} s") for name, seconds in times.items()),
            (
                "read",
                (
                    f"{megabytes(read)} MB in {len(planned.artefacts)} artefacts"
                    f" ({megabytes(unpacked)} MB unpacked)"
                ),
            ),
            ("written", f"{megabytes(sum(p.stat().st_size for p in packages))} MB of packages"),
            (
                "limit: unzip and zstd",
                f"{bound:.1f} s ({before:.1f} s before, {after:.1f} s after the build)",
            ),
            ("build / limit", f"{times['build'] / bound:.2f}"),
            ("build / limit, processor time", f"{cpu_ratio:.2f}"),
        ],
    )
    return [
        *((name, seconds, "s") for name, seconds in times.items()),
        ("build / limit", times["build"] / bound, RATIO),
        ("build / limit, CPU", cpu_ratio, RATIO),
    ]


def cpu_seconds() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def limit(planned: Plan, where: Workspace, jobs: int) -> float:
    """Seconds to unzip every artefact and compress its files, each once, largest first."""
    files = [fetch.laid_out(a, where) for a in planned.artefacts]
    unique = list({os.stat(f).st_ino: f for f in files}.values())
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(abs, range(jobs)))  # the processes exist before the clock starts
        start = time.perf_counter()
        list(pool.map(_unzip_and_compress, unique))
        return time.perf_counter() - start


def _unzip_and_compress(file: Path) -> int:
    compressor = zstandard.ZstdCompressor(level=LEVEL).compressobj()
    size = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as content:
                while block := content.read(1 << 20):
                    size += len(compressor.compress(block))
    return size + len(compressor.flush())


def unpacked_bytes(file: Path) -> int:
    with zipfile.ZipFile(file) as archive:
        return sum(m.file_size for m in archive.infolist())


if __name__ == "__main__":
    main()
