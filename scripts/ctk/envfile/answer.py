"""What each line of a file that is about CUDA is here: a row for each, solved together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ctk.envfile.model import Line, Tool
from ctk.envfile.row import Row
from ctk.envfile.rows_of_conda import RowsOfConda
from ctk.envfile.rows_of_pip import RowsOfPip
from ctk.envfile.rows_together import RowsTogether
from ctk.envfile.shelf import TOOLKIT, Shelf
from ctk.package.records import spec_name
from ctk.solve.solve import Catalogue, Scenario


def cuda_lines(lines: Iterable[Line], catalogue: Catalogue) -> list[Line]:
    """The lines that are about CUDA, of those for the platform of the channels."""
    shelf = Shelf(catalogue, Scenario((), catalogue.subdir))
    return [line for line in lines if line.is_for(catalogue.subdir) and shelf.is_about_cuda(line)]


def answers(
    lines: Sequence[Line], catalogue: Catalogue, scenario: Scenario | None = None
) -> tuple[Row, ...]:
    """The rows of the lines that are about CUDA, in the order of the file.

    Args:
        lines: The lines of one environment.
        catalogue: The channels: those with CUDA first, the base channel last.
        scenario: A machine; its specs are not looked at. By default one that can do anything.
    """
    shelf = Shelf(catalogue, scenario or Scenario((), catalogue.subdir))
    fitting = [line for line in lines if line.is_for(catalogue.subdir)]
    about = cuda_lines(fitting, catalogue)
    conda = RowsOfConda(shelf, fitting)
    chosen = {line: row for line in about if (row := conda.toolkit_row(line))}
    toolkit = _toolkit_of(chosen.values())
    if shelf.solves(*toolkit) or shelf.planned(*toolkit):  # else its lines contradict each other
        conda.toolkit = toolkit
    pip = RowsOfPip(conda)
    rows = []
    for line in about:
        by = pip if line.tool is Tool.PIP else conda
        rows.append(chosen.get(line) or by.row(line))
    together = RowsTogether(conda)
    return tuple(together.together(together.beside_elsewhere(together.beside_hidden(rows))))


def _toolkit_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The specs that choose the toolkit of a file."""
    specs = [spec for row in rows for spec in row.asked if spec_name(spec) == TOOLKIT]
    return tuple(dict.fromkeys(spec for spec in specs if spec != TOOLKIT))
