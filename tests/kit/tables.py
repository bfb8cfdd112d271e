"""Reads the tables that commands print."""

from __future__ import annotations

import re

RULE = "─"


def tables(printed: str) -> list[list[tuple[str, ...]]]:
    """The rows of each table in an output, without their headings.

    A row is as long as the rule below the heading, and columns are where all rows have two blanks.
    """
    lines = printed.splitlines()
    found = []
    for number, rule in enumerate(lines):
        if not rule or set(rule) != {RULE}:
            continue
        table = [lines[number - 1]]
        for line in lines[number + 1 :]:
            if len(line) != len(rule):
                break
            table.append(line)
        found.append(_split(table, len(rule))[1:])
    return found


def cells(printed: str) -> list[tuple[str, ...]]:
    """The rows of all tables in an output."""
    return [row for table in tables(printed) for row in table]


def _split(table: list[str], width: int) -> list[tuple[str, ...]]:
    filled = "".join(
        "x" if any(line[place] != " " for line in table) else " " for place in range(width)
    )
    spans = [match.span() for match in re.finditer(r"x+(?: x+)*", filled)]
    return [tuple(line[start:end].strip() for start, end in spans) for line in table]
