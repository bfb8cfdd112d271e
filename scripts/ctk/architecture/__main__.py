"""Draws docs/architecture.svg and writes the table of docs/architecture.md (``scripts/architecture``)."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ctk.architecture.imports import THE_TABLE, Edges, Table, edges, modules, shortest
from ctk.architecture.picture import draw
from ctk.errors import CtkError, OutOfDate
from ctk.marked import Marked, markdown
from ctk.paths import Workspace, workspace

COMMAND = "scripts/architecture"
_TITLE = "The stations of the tooling, and the way of the data through them"
_PAGE = Marked("table of stations", COMMAND, {"docs/architecture.md": "stations"}, "what the modules import now")


def picture(found: Edges, table: Table = THE_TABLE) -> str:
    """The SVG of some imports."""
    arrows = shortest(found, [station.name for station in table.stations])
    return draw(table.stations, arrows, table.command_line, table.shared, _TITLE)


def tables(found: Edges, table: Table = THE_TABLE) -> str:
    """The same in full, as Markdown: every station with its modules and imports, and what reaches back."""
    rows: list[tuple[str, ...]] = [
        (
            f"{f'{station.step}. ' if station.step else ''}{station.name}",
            station.does,
            " ".join(f"`{name}`" for name in sorted(station.modules)),
            "every station"
            if station == table.command_line
            else ", ".join(sorted(found[station.name] - {table.shared.name})),
        )
        for station in (*sorted(table.stations, key=lambda s: (s.step or 99, s.row)), table.shared, table.command_line)
    ]
    back: list[tuple[str, ...]] = [(f"{one} uses {other}", why) for (one, other), why in table.reaches_back.items()]
    return (
        markdown(("station", "what it does", "modules in `scripts/ctk/`", "imports"), rows)
        + "\nWhat reaches further back than the step before it:\n\n"
        + markdown(("what", "why"), back)
    )


def run(here: Workspace, check: bool) -> list[str]:
    """Draws and writes, or only compares; what changed.

    Raises:
        RuleBroken: An import, the table of stations or the length of a module breaks a rule.
        OutOfDate: With `check`, the picture or the table is not what it would be.
    """
    found = edges(modules("ctk"))
    file, text = here.root / "docs" / "architecture.svg", picture(found)
    is_same = file.exists() and file.read_text(encoding="utf-8") == text
    if check:
        if not is_same:
            raise OutOfDate("docs/architecture.svg is not what the modules import now", f"run `{COMMAND}`")
        _PAGE.check(here, lambda _: tables(found))
        return []
    if not is_same:
        file.write_text(text, encoding="utf-8", newline="\n")
    written = _PAGE.write(here, lambda _: tables(found))
    return [path.relative_to(here.root).as_posix() for path in ((file,) if not is_same else ()) + written]


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when something would change.")] = False,
) -> None:
    """Draw the picture of the tooling from its imports, and hold them to the rules of its stations."""
    try:
        changed = run(workspace(), check)
    except CtkError as error:
        print(f"error: {error.cause}\nnext: {error.step}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    print(f"written: {', '.join(changed)}" if changed else "the picture is what the modules import")


if __name__ == "__main__":
    typer.run(main)
