"""Measures how the install selector's questions are answered: each by itself, and all about one
package together.

Both ways must say the same. CPU time says more than the clock on a machine with other work.
Example: .venv/bin/python benchmarks/site.py cuda-core --sample 200
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from build import cpu_seconds  # benchmarks/build.py
from figures import RATIO, record

from ctk.core.checkout import workspace
from ctk.core.console import Reporter
from ctk.core.platforms import this_platform
from ctk.lock.model import release_locks
from ctk.plan.plan import python_tags
from ctk.site.answers import ALWAYS, answers, axes
from ctk.solve.candidates import CandidateClasses
from ctk.solve.channels import catalogue as channels
from ctk.solve.solve import ASKS_NATIVE, Catalogue
from ctk.solve.why import explain, find_reason


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", nargs="?", default="cuda-core")
    parser.add_argument(
        "--sample", type=int, default=200, help="questions that are answered by themselves as well"
    )
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    where, report = workspace(), Reporter()
    used = channels(where, "local", this_platform()).channels
    asked = axes(
        Catalogue(used, this_platform()),
        release_locks(where).values(),
        python_tags(where.build_config),
    )

    busy = cpu_seconds()
    every = Catalogue(used, asked.subdir)
    names = [options.package, *ALWAYS, ASKS_NATIVE]
    catalogue = every.grouped(names, CandidateClasses)
    found = dict(answers(catalogue, asked, options.package, ""))
    together = (cpu_seconds() - busy) / len(found)

    sample = random.Random(0).sample(list(found), min(options.sample, len(found)))
    busy, start = cpu_seconds(), time.perf_counter()
    for question in sample:
        alone = Catalogue(used, asked.subdir)  # as `ctk solve --explain` does it
        scenario = question.scenario(asked.subdir)
        pick = alone.pick(scenario)
        said = tuple(explain(pick, alone)) if pick else (find_reason(scenario, alone).step,)
        if said != found[question].reasons:
            sys.exit(f"{question}: {said} alone, {found[question].reasons} together")
    each = (cpu_seconds() - busy) / len(sample)

    rows = [
        (f"together ({len(found)} questions)", f"{1000 * together:.2f}", "1"),
        (f"each by itself ({len(sample)} of them)", f"{1000 * each:.2f}", f"{each / together:.0f}"),
    ]
    title = (
        f"questions about {options.package} on {asked.subdir}; {time.perf_counter() - start:.0f} s"
        " for the sample"
    )
    report.table(title, ["way", "CPU ms each", "ratio"], rows, ["CPU ms each", "ratio"])
    if options.record:
        record(
            where,
            "site",
            [
                ("CPU time of a question, together", 1000 * together, "ms"),
                ("CPU time of a question, by itself / together", each / together, RATIO),
            ],
        )


if __name__ == "__main__":
    main()
