"""Prints what the tests of this folder said, as a Markdown table: a row for each test, a column for each environment.

    CTK_GPU_ENVIRONMENTS=DIR python3 -m pytest --confcutdir tests/gpu tests/gpu -v | tee LOG
    python3 tests/gpu/tools/table.py LOG

Exit code 1 when a test failed; 2 for a file that is no such output. Standard library only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

_LINE = re.compile(r"^tests/gpu/\w+\.py::test_(\w+)(?:\[([^\]]*)\])? (PASSED|FAILED|ERROR|SKIPPED)\b")
_ENVIRONMENT = re.compile(r"^(none|\d+\.\d+)(?:-|$)(.*)")
_MACHINE = "no environment"


def outcomes(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Test, with its parameter -> environment -> outcome; a test that has an error as well as an outcome failed."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        test, parameters, outcome = match.groups()
        environment = _ENVIRONMENT.match(parameters or "")
        column, rest = environment.groups() if environment else (_MACHINE, parameters or "")
        row = found.setdefault(test.replace("_", " ") + (f": {rest}" if rest else ""), {})
        if row.get(column) not in ("FAILED", "ERROR"):
            row[column] = outcome
    return found


def table(found: dict[str, dict[str, str]]) -> str:
    """A Markdown table of them."""
    columns = list(dict.fromkeys(column for row in found.values() for column in row))
    rows = [["test", *columns], ["---"] * (len(columns) + 1)]
    rows += [[test, *(row.get(column, "").lower() for column in columns)] for test, row in found.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = outcomes(Path(arguments[0]).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        found, why = {}, f": {error}"
    else:
        why = " and has no line of a test"
    if not found:
        print(
            f"error: {arguments[0]} is no output of `pytest -v`{why}\nnext: keep what `pytest -v tests/gpu` prints",
            file=sys.stderr,
        )
        return 2
    print(table(found))
    return int(any(outcome in ("FAILED", "ERROR") for row in found.values() for outcome in row.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
