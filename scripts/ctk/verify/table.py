"""The table of the docs: the toolkit that a solver picks for a driver and a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from ctk.core.checkout import Marked, Workspace, markdown_table
from ctk.lock.model import ReleaseLock, release_locks
from ctk.solve import channels
from ctk.solve.fit import LimitedBy, fit_of
from ctk.solve.machine import impossible
from ctk.solve.solve import Catalogue, Scenario
from ctk.verify.scenarios import facts, matrix

SUBDIR = "linux-64"
REQUEST = "cuda-core"
COMMAND = "ctk verify --write-table"
TABLE = Marked("table of drivers and GPUs", COMMAND, "docs/how-the-right-build-is-picked.md")


@dataclass(frozen=True)
class Answers:
    """A solver's picks for each driver and GPU."""

    drivers: tuple[str | None, ...]  # None, then CUDA versions, oldest first
    # Compute capabilities, oldest first, the last for newer GPUs; None: not detected.
    gpus: tuple[str | None, ...]
    # 13.0; 12.9 compat; 13.5 PTX only, or 12.9 no code, if its compiler does not know the GPU; -
    # without a solution; "" if no such driver runs such a GPU
    cells: Mapping[tuple[str | None, str | None], str]


def ask(
    folders: Sequence[Path | str], locks: Iterable[ReleaseLock], subdir: str = SUBDIR
) -> Answers:
    """Solves `REQUEST` for every driver and GPU in the release locks.

    Pairs that cannot exist are left out.
    """
    known = matrix(facts(locks), ())
    drivers = (None, *known.drivers[2:])  # without the driver that is too old
    gpus = (*known.gpus[1:], None)
    catalogue = Catalogue(folders, subdir).grouped([REQUEST])

    def cell(driver: str | None, gpu: str | None) -> str:
        if impossible(driver, gpu):
            return ""
        pick = catalogue.pick(Scenario((REQUEST,), subdir, driver, gpu))
        if pick is None:
            return "-"
        fit = fit_of(pick, pick.scenario, catalogue.toolkit(pick.toolkit))
        if driver and fit and fit.limit and fit.limit.is_gpu:
            code = "no code" if fit.limit is LimitedBy.DRIVER_AND_GPU else "PTX only"
            return f"{pick.toolkit} {code}"
        is_compat = pick.fit == "compat"
        return f"{pick.toolkit} compat" if is_compat else pick.toolkit

    return Answers(
        drivers, gpus, {(driver, gpu): cell(driver, gpu) for driver in drivers for gpu in gpus}
    )


def ask_planned(workspace: Workspace) -> Answers:
    """As `ask`, for the planned channel on `SUBDIR`. Takes a few seconds."""
    with TemporaryDirectory(prefix="ctk-table-") as folder:
        solved = channels.write(channels.planned(workspace, [SUBDIR]), Path(folder))
        return ask(solved.folders, release_locks(workspace).values())


def table(answers: Answers) -> str:
    """The answers as a Markdown table."""
    return markdown_table(*merged(answers))


def merged(answers: Answers) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The answers as headings and rows; equal rows are merged, and so are equal columns."""
    columns = _columns(answers)
    rows = [
        (drivers_label(list(group), answers.drivers[-1]), *cells)
        for (_, cells), group in groupby(
            answers.drivers,
            lambda d: (d is None, [answers.cells[d, gpu] for gpu in columns.values()]),
        )
    ]
    return ("driver supports CUDA", *columns), rows


def _columns(answers: Answers) -> dict[str, str | None]:
    """Heading -> a GPU of the column."""

    def column(gpu: str | None) -> tuple[str, ...]:
        return tuple(answers.cells[driver, gpu] for driver in answers.drivers)

    *known, newer, unknown = answers.gpus
    alike: dict[tuple[str, ...], list[list[str | None]]] = {}
    for cells, run in groupby(
        known, column
    ):  # runs of GPUs with the same picks; a column can have several runs
        alike.setdefault(cells, []).append(list(run))
    columns: dict[str, str | None] = {}
    for cells, runs in alike.items():
        either = ", or not detected" if cells == column(unknown) else ""
        columns[f"GPU {', '.join(map(_gpus_label, runs))}{either}"] = runs[0][0]
    if column(unknown) not in alike:
        columns["GPU not detected"] = unknown
    return columns | {"newer GPU": newer}


def _gpus_label(run: Sequence[str | None]) -> str:
    return f"{run[0]} to {run[-1]}" if run[1:] else str(run[0])


def drivers_label(group: Sequence[str | None], newest: str | None) -> str:
    if group[0] is None:
        return "no driver"
    if group[-1] == newest:
        return f"{group[0]} or newer"
    return f"{group[0]} to {group[-1]}" if group[1:] else group[0]
