"""The coverage-guided run behind ``scripts/fuzz``: atheris changes what it has, and keeps what executes something new.

Each target is a process of its own, so that one that crashes or hangs ends nothing else; all are forks of this one,
where the modules are instrumented once. What is kept, the corpus, is below ``.cache/fuzz``, and the next run starts
from it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import atheris

if TYPE_CHECKING:
    from targets import Target

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "fuzz"
MEMORY = 2048
"""Megabytes that a process may take, the instrumented interpreter and its corpus included."""
SLOWEST = 20
"""Seconds that one input may take."""
LARGEST = 1 << 16
"""Bytes of an input."""
_SHOWN = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_COUNT = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


@dataclass(frozen=True)
class Outcome:
    """What became of a target.

    Attributes:
        executions: Inputs that were tried.
        corpus: Inputs that are kept.
        edges: Places in the parser that they executed.
        features: The same, with how often.
        crashes: Files with an input that broke a promise.
    """

    target: str
    executions: int
    corpus: int
    edges: int
    features: int
    crashes: tuple[Path, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """The program: a table at the end, and 1 when something crashed."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Feeds the parsers of what others wrote, led by what they execute."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them, unless some are named")
    parser.add_argument("--seconds", type=int, default=600, help="how long in all (600)")
    options = parser.parse_args(arguments)
    with atheris.instrument_imports(include=["ctk", "ruamel", "packaging", "elftools"]):
        from targets import TARGETS
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown or options.seconds < 1:
        print(f"error: {' '.join(unknown) or options.seconds} is no target or time", file=sys.stderr)
        print(f"next: targets are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    names = options.targets or list(TARGETS)
    outcomes = [run(name, TARGETS[name], max(1, options.seconds // len(names))) for name in names]
    show(outcomes)
    return int(any(outcome.crashes for outcome in outcomes))


def run(name: str, target: Target, seconds: int) -> Outcome:
    """Fuzzes one target in a process of its own."""
    corpus, crashes, log = CACHE / name / "corpus", CACHE / name / "crashes", CACHE / name / "log.txt"
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    before = set(crashes.iterdir())
    print(f"{name}: {seconds} s ...", flush=True)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/", f"-rss_limit_mb={MEMORY}"]
    options += [f"-timeout={SLOWEST}", f"-max_len={LARGEST}", "-print_final_stats=1", str(corpus)]
    process = os.fork()
    if not process:
        fuzz(target, options, log)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    text = log.read_text(encoding="utf-8", errors="replace")
    edges, features, kept = (int(n) for n in ([("0", "0", "0"), *_SHOWN.findall(text)])[-1])
    count = _COUNT.search(text)
    found = sorted(set(crashes.iterdir()) - before)
    if code and not found:  # it ended without an input to blame
        found = [log]
    return Outcome(name, int(count[1]) if count else 0, kept, edges, features, tuple(found))


def fuzz(target: Target, options: Sequence[str], log: Path) -> NoReturn:
    """What the process of a target does: libFuzzer's loop, which ends it."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        atheris.Setup([sys.argv[0], *options], target)
        atheris.Fuzz()
    finally:
        os._exit(1)  # libFuzzer never comes back


def show(outcomes: Sequence[Outcome]) -> None:
    """The table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="fuzzing")
    table.add_column("target")
    for title in ("executions", "corpus", "edges", "features", "crashes"):
        table.add_column(title, justify="right")
    rows = [(o.executions, o.corpus, o.edges, o.features, len(o.crashes)) for o in outcomes]
    for outcome, cells in zip(outcomes, rows, strict=True):
        table.add_row(outcome.target, *(f"{cell:,}" for cell in cells))
    table.add_section()
    table.add_row("all", *(f"{sum(column):,}" for column in zip(*rows, strict=True)))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for outcome in outcomes:
        for crash in outcome.crashes:
            console.print(f"{outcome.target}: {crash.relative_to(ROOT)}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
