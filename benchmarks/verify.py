"""Measures how fast scenarios are solved, by rattler and by libsolv.

rattler solves machines that are alike once, libsolv, where it is, each. Both answer the same sample
and must answer it alike. CPU time is that of the solves alone: on a machine with other work it says
more than the clock. Example: .venv/bin/python benchmarks/verify.py 4000
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from build import cpu_seconds  # benchmarks/build.py
from figures import RATIO, record

from ctk.core.checkout import workspace
from ctk.core.console import Reporter
from ctk.core.errors import SolverMissing
from ctk.lock.model import release_locks
from ctk.solve import channels
from ctk.solve.channels import pythons
from ctk.solve.solve import Scenario
from ctk.verify import clients
from ctk.verify.clients import RattlerSolver
from ctk.verify.oracle import Question
from ctk.verify.run import Solver, SolverAnswer, Tally
from ctk.verify.scenarios import facts, matrix, scenario

CORES = os.cpu_count() or 1
TARGET = 20_000, 60.0
"""Scenarios and seconds that `ctk verify` is meant to manage on two cores."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=4000, help="scenarios in the sample")
    parser.add_argument(
        "--whole", action="store_true", help="time the default scenarios of `ctk verify` as well"
    )
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    where, report = workspace(), Reporter()

    start = time.perf_counter()
    known = facts(release_locks(where).values())
    content = channels.planned(where)
    planned = time.perf_counter() - start
    every = matrix(known, pythons())
    questions = every.sample(options.count, 0)
    with tempfile.TemporaryDirectory(prefix="ctk-benchmark-") as folder:
        solved = channels.write(content, Path(folder))
        ways: dict[str, Callable[[Sequence[Scenario]], Iterator[SolverAnswer]]] = {
            "each class of machines once": partial(
                RattlerSolver().solve_all, channels=solved.folders
            )
        }
        with suppress(SolverMissing):
            ways["libsolv, one core"] = partial(
                clients.solver("libsolv", where).solve_all, channels=solved.folders
            )
        measured = [measure(name, solve, questions) for name, solve in ways.items()]
        rows = [
            (name, f"{seconds:.1f}", f"{rate:.0f}", f"{cpu:.2f}")
            for name, seconds, rate, cpu in measured
        ]
        title = (
            f"{len(questions)} of {len(every)} scenarios on {CORES} cores; {planned:.1f} s to plan"
            " before"
        )
        report.table(
            title,
            ["way", "seconds", "solves/s", "CPU ms each"],
            rows,
            ["seconds", "solves/s", "CPU ms each"],
        )
        if options.record:
            record(where, "verify", recorded(measured))
        if options.whole:
            whole(Tally(known, solved), RattlerSolver(), every.covering(), report)


def recorded(
    measured: Sequence[tuple[str, float, float, float]],
) -> Iterator[tuple[str, float, str]]:
    """The figures to keep: the CPU time of each way, and how much faster each is than one at a
    time.
    """
    for name, _, rate, cpu in measured:
        yield f"CPU time of a solve, {name}", cpu, "ms"
        if name != measured[0][0]:
            yield f"solves a second, {name} / {measured[0][0]}", rate / measured[0][2], RATIO


def measure(
    name: str,
    solve: Callable[[Sequence[Scenario]], Iterator[SolverAnswer]],
    questions: Sequence[Question],
) -> tuple[str, float, float, float]:
    """One row: a way to solve, seconds, solves a second, milliseconds of CPU time for each."""
    asked = [scenario(question) for question in questions]
    start, busy = time.perf_counter(), cpu_seconds()
    answered = sum(1 for _ in solve(asked))
    seconds, busy = time.perf_counter() - start, cpu_seconds() - busy
    if answered != len(asked):
        sys.exit(f"{name}: {answered} of {len(asked)} answered")
    return name, seconds, answered / seconds, 1000 * busy / answered


def whole(tally: Tally, solver: Solver, questions: Sequence[Question], report: Reporter) -> None:
    """What `ctk verify` does without options, with the comparison of each answer, against the
    target.
    """
    busy = cpu_seconds()
    tally.run(solver, questions)
    busy = cpu_seconds() - busy
    scenarios, limit = TARGET
    report.console.print(
        f"default: {len(questions)} scenarios in {tally.seconds:.1f} s ({busy:.1f} s of CPU time,"
        f" {busy / CORES:.1f} s on {CORES} cores that do nothing else), {tally.total['wrong']}"
        f" wrong; target: {scenarios} in {limit:.0f} s",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
