"""The table of drivers and GPUs in the docs has a solver's picks, and a wrong table is found."""

from __future__ import annotations

import pytest

from ctk.core.checkout import Workspace
from ctk.lock.model import release_locks
from ctk.solve.channels import Channels
from ctk.solve.solve import Catalogue, Scenario
from ctk.solve.why import fit_in_words
from ctk.verify import table
from ctk.verify.oracle import version
from ctk.verify.table import Answers


@pytest.fixture(scope="module")
def answers(project: Workspace, solved: Channels) -> Answers:
    return table.ask(solved.folders, release_locks(project).values())


def small(**changed: str) -> Answers:
    """Two drivers and no driver; two GPUs, a newer GPU, and a GPU that is not detected."""
    cells = {
        (driver, gpu): changed.get(
            f"d{driver}_g{gpu}".replace(".", ""), "-" if driver is None else "1.0"
        )
        for driver in (None, "1.0", "1.1")
        for gpu in ("5.0", "6.0", "7.0", None)
    }
    return Answers((None, "1.0", "1.1"), ("5.0", "6.0", "7.0", None), cells)


def test_the_page_says_what_a_solver_picks(project: Workspace, answers: Answers) -> None:
    page = (project.root / table.TABLE.page).read_text(encoding="utf-8")
    assert table.table(answers) in page, f"run {table.COMMAND}"


def test_the_table_has_the_picks_of_every_minor_of_each_major_and_one_newer(
    project: Workspace, answers: Answers
) -> None:
    cells, newest = (
        answers.cells,
        max(version(lock.minor) for lock in release_locks(project).values() if lock.is_ctk),
    )
    assert (cells["13.0", "9.0"], cells["13.0", "7.0"], cells["12.2", "9.0"]) == (
        "13.0",
        "12.9",
        "12.2",
    )
    assert cells[None, None] == f"{newest[0]}.{newest[1]} compat"
    assert "-" not in cells.values()
    assert (cells["13.1", "7.0"], cells["13.1", "7.5"]) == (
        "",
        "13.1",
    ), "no driver for 13.1 runs a GPU 7.0"
    assert answers.drivers[:3] == (None, "12.0", "12.1")
    assert answers.drivers[-2:] == tuple(f"{newest[0]}.{newest[1] + plus}" for plus in (0, 1))


@pytest.mark.parametrize(
    ("driver", "gpu", "cell", "said"),
    [
        ("12.4", "10.0", "", ""),
        (
            "12.8",
            "10.3",
            "12.9 compat",
            "machine code and nvJitLink work, but the driver refuses its PTX with error 222",
        ),
        ("12.9", "12.1", "12.9", "native: "),
        (
            "12.8",
            "10.7",
            "12.9 no code",
            "the driver does not load its PTX, and its compiler does not know the GPU",
        ),
        (
            "12.9",
            "10.7",
            "12.9 PTX only",
            "its compiler knows 10.3 and 12.0 but not this GPU; PTX for 10.3 works",
        ),
        (
            "12.9",
            "14.0",
            "12.9 PTX only",
            "its compiler knows GPUs up to 12.1, whose PTX the driver compiles",
        ),
    ],
)
def test_a_cell_says_of_a_gpu_that_the_compiler_does_not_know_what_solve_says(
    answers: Answers, solved: Channels, driver: str, gpu: str, cell: str, said: str
) -> None:
    assert answers.cells[driver, gpu if gpu != "14.0" else answers.gpus[-2]] == cell
    catalogue = Catalogue(solved.folders, table.SUBDIR)
    pick = catalogue.pick(Scenario((table.REQUEST,), table.SUBDIR, driver, gpu)) if said else None
    assert not pick or said in fit_in_words(pick, catalogue)


def test_rows_and_columns_that_say_the_same_are_one() -> None:
    assert table.table(small()).splitlines() == [
        "| driver supports CUDA | GPU 5.0 to 6.0, or not detected | newer GPU |",
        "| --- | --- | --- |",
        "| no driver | - | - |",
        "| 1.0 or newer | 1.0 | 1.0 |",
    ]
