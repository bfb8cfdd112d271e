"""Measures the processor time of the commands that people wait for, and of `ctk site`.

Each figure is the median of some runs, user and system time of the process and its children, and
its ratio to `python -c pass` in the same round: what else the machine does is in both. With --site
the site is made twice: first without notes of answers, then with them. Example:
.venv/bin/python benchmarks/commands.py --runs 5 --record
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import RATIO, record

from ctk.core.checkout import workspace
from ctk.core.console import Reporter
from ctk.site.answers import NOTES

CTK = Path(sys.executable).with_name("ctk")
BARE = (sys.executable, "-c", "pass")
COMMANDS = (
    "--help",
    "build --dry-run",
    "release list",
    "lint",
    "solve cuda-core --driver 13.0",
    "doctor --offline",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="of each command")
    parser.add_argument("--site", action="store_true", help="make the site twice as well")
    parser.add_argument(
        "--record", action="store_true", help="append the figures to benchmarks/history.jsonl"
    )
    options = parser.parse_args()
    # The first round writes the bytecode of our modules, as that of a user does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds, bare = measure(options.runs)
    if options.site:
        seconds |= site()
    Reporter().table(
        f"processor time; python -c pass takes {bare:.3f} s",
        ["command", "seconds", "ratio to python -c pass"],
        [(name, f"{taken:.2f}", f"{taken / bare:.0f}") for name, taken in seconds.items()],
        ["seconds", "ratio to python -c pass"],
    )
    if options.record:
        times = [(f"{name}, CPU", taken, "s") for name, taken in seconds.items()]
        ratios = [
            (f"{name} / python -c pass, CPU", taken / bare, RATIO)
            for name, taken in seconds.items()
        ]
        record(workspace(), "commands", [*times, *ratios])


def measure(runs: int) -> tuple[dict[str, float], float]:
    """The median seconds of each command, and of Python alone; a round has all of them."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    bare: list[float] = []
    for turn in range(runs + 1):
        rounds = {name: processor_time([str(CTK), *name.split()]) for name in COMMANDS}
        alone = processor_time(BARE)
        if turn == 0:  # what the first round notes, the others have
            continue
        bare.append(alone)
        for name, seconds in rounds.items():
            taken[name].append(seconds)
    return {name: statistics.median(each) for name, each in taken.items()}, statistics.median(bare)


def site() -> dict[str, float]:
    """The seconds of `ctk site` of the built channel: without notes of answers, and with them.

    The notes that were there are put back.
    """
    notes = workspace().notes / NOTES
    with tempfile.TemporaryDirectory(prefix="ctk-benchmark-", dir=workspace().notes) as scratch:
        command = [str(CTK), "site", str(Path(scratch) / "site"), "--quiet"]
        kept = Path(scratch) / NOTES
        if notes.is_dir():
            notes.rename(kept)
        try:
            first, again = processor_time(command), processor_time(command)
        finally:
            if kept.is_dir():
                notes.rename(Path(scratch) / "new")
                kept.rename(notes)
    return {"site, first": first, "site, again": again}


def processor_time(command: Sequence[str]) -> float:
    """The user and system seconds of a command that must succeed."""
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


if __name__ == "__main__":
    main()
