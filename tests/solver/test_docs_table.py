"""The table of drivers and GPUs in the docs is what a solver picks, and a table that is not is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import OutOfDate
from ctk.lock.lock import release_locks
from ctk.lock.support import load_support
from ctk.verify import table
from ctk.verify.channels import Channels
from ctk.verify.oracle import version
from ctk.verify.table import Answers

END = "<!-- end of the table -->\n"


@pytest.fixture(scope="module")
def answers(project: Workspace, solved: Channels) -> Answers:
    return table.ask(solved.folders, release_locks(project).values(), support=load_support(project))


@pytest.fixture
def checkout(answers: Answers, tmp_path: Path) -> Workspace:
    """A page with a right table, to be spoilt."""
    page, copy = tmp_path / table.TABLE.page, Workspace(tmp_path)
    page.parent.mkdir()
    page.write_text(f"before\n\n<!-- {table.TABLE.what}, written by `{table.COMMAND}` -->\nold\n{END}after\n")
    assert table.TABLE.write(copy, table.table(answers)) == (page,)
    return copy


def small(**changed: str) -> Answers:
    """Two drivers and none, two GPUs, a newer one, and one that is not detected."""
    cells = {
        (driver, gpu): changed.get(f"d{driver}_g{gpu}".replace(".", ""), "-" if driver is None else "1.0")
        for driver in (None, "1.0", "1.1")
        for gpu in ("5.0", "6.0", "7.0", None)
    }
    return Answers((None, "1.0", "1.1"), ("5.0", "6.0", "7.0", None), cells)


def test_the_page_says_what_a_solver_picks(project: Workspace, answers: Answers) -> None:
    table.TABLE.check(project, table.table(answers))


def test_the_table_has_the_picks_of_every_minor_of_each_major_and_one_newer(
    project: Workspace, answers: Answers
) -> None:
    cells, newest = answers.cells, max(version(lock.minor) for lock in release_locks(project).values() if lock.is_ctk)
    assert (cells["13.0", "9.0"], cells["13.0", "7.0"], cells["12.2", "9.0"]) == ("13.0", "12.9", "12.2")
    assert cells[None, None] == f"{newest[0]}.{newest[1]} compat"
    assert "-" not in cells.values()
    assert (cells["13.1", "7.0"], cells["13.1", "7.5"]) == ("", "13.1"), "no driver for 13.1 runs a GPU 7.0"
    assert answers.drivers[:3] == (None, "12.0", "12.1")
    assert answers.drivers[-2:] == tuple(f"{newest[0]}.{newest[1] + plus}" for plus in (0, 1))


def test_a_changed_cell_is_found_and_written_anew(checkout: Workspace, answers: Answers) -> None:
    page = checkout.root / table.TABLE.page
    right = page.read_text()
    page.write_text(right.replace("| 12.6 |", "| 12.9 |", 1))
    with pytest.raises(OutOfDate, match=table.TABLE.page) as error:
        table.TABLE.check(checkout, table.table(answers))
    assert table.COMMAND in error.value.step
    assert table.TABLE.write(checkout, table.table(answers)) == (page,)
    assert page.read_text() == right
    table.TABLE.check(checkout, table.table(answers))


def test_a_page_that_lost_its_markers_is_an_error_that_shows_them(checkout: Workspace, answers: Answers) -> None:
    page = checkout.root / table.TABLE.page
    page.write_text(page.read_text().replace("<!-- table of", "<!-- list of"))
    with pytest.raises(OutOfDate, match="no place for the table") as error:
        table.TABLE.write(checkout, table.table(answers))
    assert "<!-- table of drivers and GPUs, written by" in error.value.step


def test_rows_and_columns_that_say_the_same_are_one() -> None:
    assert table.table(small()).splitlines() == [
        "| driver supports CUDA | GPU 5.0 to 6.0, or not detected | newer GPU |",
        "| --- | --- | --- |",
        "| no driver | - | - |",
        "| 1.0 or newer | 1.0 | 1.0 |",
    ]


def test_gpus_that_get_the_same_are_one_column_whatever_lies_between() -> None:
    gpus = ("5.0", "6.0", "7.0", "8.0", "9.0", None)
    cells = {("1.0", gpu): "1.0 compat" if gpu in ("7.0", "9.0") else "1.0" for gpu in gpus}
    heading, *_ = table.table(Answers(("1.0",), gpus, cells)).splitlines()
    assert heading == "| driver supports CUDA | GPU 5.0 to 6.0, 8.0, or not detected | GPU 7.0 | newer GPU |"


def test_rows_and_columns_that_differ_anywhere_are_not() -> None:
    different = small(d11_g60="1.1", d11_gNone="1.1 compat")
    assert table.table(different).splitlines() == [
        "| driver supports CUDA | GPU 5.0 | GPU 6.0 | GPU not detected | newer GPU |",
        "| --- | --- | --- | --- | --- |",
        "| no driver | - | - | - | - |",
        "| 1.0 | 1.0 | 1.0 | 1.0 | 1.0 |",
        "| 1.1 or newer | 1.0 | 1.1 | 1.1 compat | 1.0 |",
    ]
