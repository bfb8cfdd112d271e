"""Reads the tables that commands print."""

from __future__ import annotations

import re

RULE = "─"


def tables(printed: str) -> list[list[tuple[str, ...]]]:
    """The rows of each table in an output, without their headings.

    A row is as long as the rule below the heading, and columns are where all rows have two blanks.
    A line below the table may be as long by chance: it has no such blanks.
    """
    lines = printed.splitlines()
    found = []
    for number, rule in enumerate(lines):
        if not rule or set(rule) != {RULE}:
            continue
        table = [lines[number - 1]]
        columns = len(_spans(table, len(rule)))
        for line in lines[number + 1 :]:
            if len(line) != len(rule) or len(_spans([*table, line], len(rule))) < columns:
                break
            table.append(line)
        spans = _spans(table, len(rule))
        found.append([tuple(line[a:b].strip() for a, b in spans) for line in table[1:]])
    return found


def cells(printed: str) -> list[tuple[str, ...]]:
    """The rows of all tables in an output."""
    return [row for table in tables(printed) for row in table]


def _spans(table: list[str], width: int) -> list[tuple[int, int]]:
    """Where each column of a table begins and ends."""
    filled = "".join(
        "x" if any(line[place : place + 1].strip() for line in table) else " "
        for place in range(width)
    )
    return [match.span() for match in re.finditer(r"x+(?: x+)*", filled)]
