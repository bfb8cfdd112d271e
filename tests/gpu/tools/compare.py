"""Puts two results of `upstream.py` side by side: an environment of this channel and one that pip made.

    python3 tests/gpu/tools/compare.py ours.json pips.json [--markdown FILE] [--show 2]

Exit code 1 when a test fails in ours and does not fail in pip's, or was run there and not here; 2 for files that cannot
be compared. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "failed", "error", "crashed", "timeout", "skipped", "xfailed", "xpassed", "not run")
BAD = ("failed", "error", "crashed", "timeout")


@dataclass(frozen=True)
class Comparison:
    """Both sides of every test.

    Attributes:
        counts: Outcome -> how many tests of ours have it, and how many of pip's.
        worse: Tests that fail in ours only, or that only pip's ran.
        better: Tests that fail in pip's only.
        both: Tests that fail in both.
    """

    counts: Mapping[str, tuple[int, int]]
    worse: tuple[str, ...]
    better: tuple[str, ...]
    both: tuple[str, ...]


def compare(ours: Mapping[str, Any], pips: Mapping[str, Any]) -> Comparison:
    """Compares what `upstream.py` wrote."""
    left, right = ours["tests"], pips["tests"]
    counts = {
        outcome: tuple(sum(test["outcome"] == outcome for test in side.values()) for side in (left, right))
        for outcome in OUTCOMES
    }
    worse, better, both = [], [], []
    for name in sorted(left.keys() | right.keys()):
        here, there = (side.get(name, {"outcome": "not run"})["outcome"] for side in (left, right))
        lost = here in ("not run", "skipped") and there in ("passed", "xfailed")
        if here in BAD and there in BAD:
            both.append(name)
        elif here in BAD or lost:
            worse.append(name)
        elif there in BAD:
            better.append(name)
    return Comparison(counts, tuple(worse), tuple(better), tuple(both))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=Path)
    parser.add_argument("pips", type=Path)
    parser.add_argument("--markdown", type=Path, help="write the table there too")
    parser.add_argument("--show", type=int, default=3, help="lines of the reason of each test that is worse")
    options = parser.parse_args(arguments)
    try:
        ours, pips = (_read(file) for file in (options.ours, options.pips))
    except ValueError as error:
        print(f"error: {error}\nnext: write it with upstream.py run", file=sys.stderr)
        return 2
    found = compare(ours, pips)
    rows = [("", "ours", "pip's"), ("", "---", "---")]
    for name in sorted(ours["projects"].keys() | pips["projects"].keys()):
        rows.append((name, *(_project(side, name) for side in (ours, pips))))
    rows.append(("Python", ours["python"], pips["python"]))
    rows += [(outcome, *map(str, found.counts[outcome])) for outcome in OUTCOMES if any(found.counts[outcome])]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows).replace("|  | ---", "| --- | ---")
    print(table)
    lists = {"worse in ours": found.worse, "fails in pip's only": found.better, "fails in both": found.both}
    for title, names in lists.items():
        print(f"\n{title}: {len(names)}")
        for name in names:
            here, there = (side["tests"].get(name, {"outcome": "not run"})["outcome"] for side in (ours, pips))
            print(f"  {name}: {here}, pip's {there}")
            if title == "worse in ours":
                why = str(ours["tests"].get(name, {}).get("why", "")).strip().splitlines()
                print("".join(f"    {line}\n" for line in why[-options.show :]), end="")
    if options.markdown:
        options.markdown.write_text(table + "\n")
    return 1 if found.worse else 0


def _project(side: Mapping[str, Any], name: str) -> str:
    project = side["projects"].get(name)
    return f"{project['version']}, {project['modules'] or 'no'} test modules" if project else "not there"


def _read(file: Path) -> dict[str, Any]:
    """What `upstream.py` wrote.

    Raises:
        ValueError: The file cannot be read, is something else, or holds no test.
    """
    try:
        found = json.loads(file.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("tests"), dict) or "projects" not in found:
        raise ValueError(f"{file} is no result of upstream.py")
    if not found["tests"]:
        raise ValueError(f"{file} holds no test")
    return found


if __name__ == "__main__":
    sys.exit(main())
