"""The table of the docs: which toolkit a driver and a GPU get, as a solver answers. Written between two comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.marked import Marked, markdown
from ctk.lock.lock import ReleaseLock, release_locks
from ctk.solve.solve import Pick, Scenario, solve
from ctk.verify import channels

SUBDIR = "linux-64"
REQUEST = "cuda-core"
# The pages with a table, and its form.
PAGES = {"README.md": "short", "docs/how-the-right-build-is-picked.md": "full"}
COMMAND = "ctk verify --write-table"
_TABLES = Marked("table of drivers and GPUs", COMMAND, PAGES, "what a solver picks now")


@dataclass(frozen=True)
class Answers:
    """What a solver picks for each driver and GPU.

    Attributes:
        drivers: CUDA versions that drivers support, oldest first; None is a machine without one, and comes first.
        gpus: Compute capabilities, oldest first, the last one newer than any that a toolkit knows; None, where a driver
            is there but the client detects no GPU, is the very last.
        cells: Driver and GPU -> ``13.0``, ``12.9 compat``, or ``-`` where nothing can be installed.
    """

    drivers: tuple[str | None, ...]
    gpus: tuple[str | None, ...]
    cells: Mapping[tuple[str | None, str | None], str]


def ask(folders: Sequence[Path | str], locks: Iterable[ReleaseLock], subdir: str = SUBDIR) -> Answers:
    """Solves `REQUEST` for every driver and GPU.

    Args:
        folders: Channels, the most important first; metadata is enough.
        locks: The release locks that the channels were made of. They say which drivers and GPUs there are.
        subdir: The platform.
    """
    releases = [lock for lock in locks if lock.is_ctk]
    drivers, gpus = known_drivers(releases), known_gpus(releases)
    gateway = Gateway()

    def cell(driver: str | None, gpu: str | None) -> str:
        try:
            return _cell(solve(Scenario((REQUEST,), subdir, driver, gpu), folders, gateway))
        except Unsolvable as error:
            if not error.solver:  # a channel that cannot be read is no answer
                raise
            return "-"

    return Answers(drivers, gpus, {(driver, gpu): cell(driver, gpu) for driver in drivers for gpu in gpus})


def ask_planned(workspace: Workspace) -> Answers:
    """The same of what recipes and release locks say, whatever was built. Takes a few seconds."""
    with TemporaryDirectory(prefix="ctk-table-") as folder:
        solved = channels.write(channels.planned(workspace, [SUBDIR]), Path(folder))
        return ask(solved.folders, release_locks(workspace).values())


def known_drivers(releases: Iterable[ReleaseLock]) -> tuple[str | None, ...]:
    """None, every minor from X.0 to the newest locked one of each CUDA major X, and one that is newer than all."""
    newest: dict[int, int] = {}
    for major, minor in (map(int, lock.minor.split(".")) for lock in releases):
        newest[major] = max(minor, newest.get(major, 0))
    last = max(newest)
    newest[last] += 1
    return None, *(f"{major}.{minor}" for major in sorted(newest) for minor in range(newest[major] + 1))


def known_gpus(releases: Iterable[ReleaseLock]) -> tuple[str | None, ...]:
    """Every compute capability of the releases' facts, one that is newer, and None."""
    known = {gpu for lock in releases if lock.facts for gpu in lock.facts.gpu_architectures}
    ordered = sorted(known, key=Version)
    return *ordered, f"{Version(ordered[-1]).major + 1}.0", None


def _cell(pick: Pick) -> str:
    return f"{pick.toolkit} {pick.fit}" if pick.fit == "compat" else pick.toolkit


def table(answers: Answers, form: str = "full") -> str:
    """The answers as a Markdown table; see `merged`."""
    return markdown(*merged(answers, form))


def merged(answers: Answers, form: str = "full") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The answers as headings and rows; rows, and columns, that say the same are one.

    Args:
        answers: What was asked.
        form: ``full``, or ``short`` without the GPUs that are newer than all toolkits.
    """
    columns = _columns(answers, with_newer=form == "full")
    rows = [
        (_drivers_label(list(group), answers.drivers[-1]), *cells)
        for (_, cells), group in groupby(
            answers.drivers, lambda d: (d is None, [answers.cells[d, gpu] for gpu in columns.values()])
        )
    ]
    return ("driver supports CUDA", *columns), rows


def _columns(answers: Answers, with_newer: bool) -> dict[str, str | None]:
    """Heading -> one GPU that stands for all of the column."""

    def column(gpu: str | None) -> list[str]:
        return [answers.cells[driver, gpu] for driver in answers.drivers]

    *known, newer, unknown = answers.gpus
    alike: dict[tuple[str, ...], list[list[str | None]]] = {}
    for cells, run in groupby(known, column):  # runs of GPUs that get the same; there may be others in between
        alike.setdefault(tuple(cells), []).append(list(run))
    found = {f"GPU {', '.join(map(_gpus_label, runs))}": runs[0][0] for runs in alike.values()}
    same = next((heading for heading, gpu in found.items() if column(gpu) == column(unknown)), None)
    found = {f"{heading}, or not detected" if heading == same else heading: gpu for heading, gpu in found.items()}
    found |= {} if same else {"GPU not detected": unknown}
    return found | ({"newer GPU": newer} if with_newer else {})


def _gpus_label(run: Sequence[str | None]) -> str:
    return f"{run[0]} to {run[-1]}" if run[1:] else str(run[0])


def _drivers_label(group: Sequence[str | None], newest: str | None) -> str:
    if group[0] is None:
        return "no driver"
    if group[-1] == newest:
        return f"{group[0]} or newer"
    return f"{group[0]} to {group[-1]}" if group[1:] else group[0]


def update(page: str, answers: Answers) -> str:
    """The text of a page with its tables as they should be. A page without the marker comments stays as it is."""
    return _TABLES.update(page, lambda form: table(answers, form))


def check(workspace: Workspace, answers: Answers) -> None:
    """Holds the pages against the answers.

    Raises:
        OutOfDate: Naming each page whose table a solver would answer otherwise, or that has lost its marker comments.
    """
    _TABLES.check(workspace, lambda form: table(answers, form))


def write(workspace: Workspace, answers: Answers) -> tuple[Path, ...]:
    """Writes the tables anew; the pages that changed."""
    return _TABLES.write(workspace, lambda form: table(answers, form))
