"""Tables that fit where they are printed: whole if there is room, else closer, else one record below the other.

A cell is folded between its words and never inside one, so nothing has to be put together again by the reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_PLACE = 24  # columns: where a record's values begin at most


def fitting(
    columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str], width: int
) -> RenderableType:
    """A table of plain cells.

    Args:
        columns: Their headings.
        rows: Cells of each row.
        right: Headings of the columns that are numbers.
        width: Characters in a line.
    """
    cells = [["\n".join(map(str.strip, str(cell).splitlines())) for cell in row] for row in rows]
    folded = [_folded(name) for name in columns]
    whole = [max(_longest(name), *(_longest(row[i]) for row in cells), 0) for i, name in enumerate(columns)]
    words = [max(_word(name), *(_word(row[i]) for row in cells), 0) for i, name in enumerate(folded)]
    framed, between = 3 * len(columns) + 1, len(columns) - 1
    numbers = [name in right for name in columns]
    if sum(whole) + framed <= width:
        return _table(columns, cells, numbers, Table())
    if sum(words) + framed <= width and max(whole) > width // 2:
        # Sentences are folded in any case.
        return _table(columns, cells, numbers, Table(), _shared_out(width - framed, words, whole))
    for gap in (2, 1):
        plain = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
        if sum(whole) + gap * between <= width:
            return _table(columns, cells, numbers, plain)
        if sum(words) + gap * between <= width:
            return _table(folded, cells, numbers, plain, _shared_out(width - gap * between, words, whole))
    return _records(columns, cells)


def _table(
    headings: Sequence[str],
    cells: list[list[str]],
    numbers: Sequence[bool],
    table: Table,
    widths: Sequence[int] = (),
) -> Table:
    for i, name in enumerate(headings):
        side: JustifyMethod = "right" if numbers[i] else "left"
        table.add_column(Text(name), justify=side, width=widths[i] if widths else None, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _shared_out(room: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """The width of each column: what its longest word needs, and a share of the rest by what it lacks to be whole."""
    lacking = [large - small for small, large in zip(least, most, strict=True)]
    rest, all_ = room - sum(least), sum(lacking) or 1
    return [small + min(lack, rest * lack // all_) for small, lack in zip(least, lacking, strict=True)]


def _records(columns: Sequence[str], cells: list[list[str]]) -> Group:
    place = min(max(map(len, columns), default=0), _PLACE)
    shown: list[RenderableType] = []
    for row in cells:
        record = Table.grid(padding=(0, 2))
        record.add_column(min_width=place, style="bold")
        record.add_column(overflow="fold", ratio=1)
        for name, cell in zip(columns, row, strict=True):
            if cell:
                record.add_row(Text(name), Text(cell))
        shown.append(Padding(record, (0, 0, 1, 0)))
    return Group(*shown)


def _longest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _folded(heading: str) -> str:
    """A heading of several words, or of parts between hyphens, one below the other."""
    return re.sub(r"(?<=-)(?=.)|(?<=\w) +(?=\w)", "\n", heading)
