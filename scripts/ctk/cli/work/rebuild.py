"""`ctk check --rebuild`: packages are made again, and compared byte by byte."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ctk.build.rebuild import rebuild
from ctk.cli.work.places import packages_in
from ctk.core.checkout import workspace
from ctk.core.console import Reporter, count
from ctk.core.errors import BadValue, NotReproduced
from ctk.core.locks import exclusive


def rebuild_places(names: Sequence[str], number: str, jobs: int | None) -> None:
    """Makes packages again, and prints how each differs.

    Raises:
        BadValue: A package is on a server, or the number is none.
        NotReproduced: A package has other bytes.
    """
    here, report = workspace(), Reporter()
    if any("://" in name for name in names):
        raise BadValue(
            "packages of a channel on a server cannot be rebuilt",
            "download them, and name the files",
        )
    is_number = number.isdecimal() and int(number) > 0
    if number != "all" and not is_number:
        raise BadValue(
            f"{number!r} is not a number of packages", "write it as --rebuild 10 or --rebuild all"
        )
    chosen = packages_in(Path(os.path.realpath(name)) for name in names)
    if number != "all" and int(number) < len(chosen):
        report.line(f"{number} from {count(len(chosen), 'package')}")
        chosen = sorted(random.sample(chosen, int(number)))
    with exclusive(here, report.say), report.task("rebuild", len(chosen), of="packages") as task:

        def progress(package: Path, differences: Sequence[object]) -> None:
            task.advance(1, f"{package.name} differs" if differences else "")

        outcomes = rebuild(chosen, here, jobs=jobs, progress=progress)
    _show(outcomes, report)
    changed = sum(bool(differences) for differences in outcomes.values())
    if changed:
        raise NotReproduced(
            f"{count(changed, 'package')} of {len(outcomes)} came out differently",
            "the table says which file differs; what another version of ctk built has to be built"
            " again",
        )


def _show(outcomes: Mapping[Path, Sequence[tuple[str, str]]], report: Reporter) -> None:
    """Prints the differences, and how many packages of each platform have some."""
    named = [(f"{p.parent.name}/{p.name}", differences) for p, differences in outcomes.items()]
    report.result(
        rebuilt=[
            {
                "package": name,
                "identical": not differences,
                "differences": [{"where": place, "what": text} for place, text in differences],
            }
            for name, differences in named
        ]
    )
    changed = Counter(p.parent.name for p, differences in outcomes.items() if differences)
    if changed:
        rows = [(name, *difference) for name, found in named for difference in found]
        report.table("differences", ["package", "where", "difference"], rows)
    else:
        report.line(f"{count(len(outcomes), 'package')} rebuilt, identical")
    every = Counter(p.parent.name for p in outcomes)
    columns = ["packages", "identical", "different"]
    counts = [(s, n, n - changed[s], changed[s]) for s, n in sorted(every.items())]
    report.table("rebuilt", ["subdir", *columns], counts, columns)
