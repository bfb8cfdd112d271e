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

PAGE = "docs/how-the-right-build-is-picked.md"


@pytest.fixture(scope="module")
def answers(project: Workspace, solved: Channels) -> Answers:
    return table.ask(solved.folders, release_locks(project).values(), support=load_support(project))


@pytest.fixture
def checkout(answers: Answers, tmp_path: Path) -> Workspace:
    """Pages with right tables, to be spoilt."""
    for name, form in table.PAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(table.TABLES.update(marked(form), table.table(answers)))
    return Workspace(tmp_path)


def marked(form: str) -> str:
    return f"before\n\n<!-- {form} table, written by `{table.COMMAND}` -->\nold\n<!-- end of the table -->\nafter\n"


def small(**changed: str) -> Answers:
    """Two drivers and none, two GPUs, a newer one, and one that is not detected."""
    cells = {
        (driver, gpu): changed.get(f"d{driver}_g{gpu}".replace(".", ""), "-" if driver is None else "1.0")
        for driver in (None, "1.0", "1.1")
        for gpu in ("5.0", "6.0", "7.0", None)
    }
    return Answers((None, "1.0", "1.1"), ("5.0", "6.0", "7.0", None), cells)


def test_the_page_and_the_readme_say_what_a_solver_picks(project: Workspace, answers: Answers) -> None:
    table.TABLES.check(project, table.table(answers))


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


@pytest.mark.parametrize("name", table.PAGES)
def test_a_changed_cell_is_found_and_written_anew(checkout: Workspace, answers: Answers, name: str) -> None:
    page = checkout.root / name
    right = page.read_text()
    page.write_text(right.replace("| 12.6 |", "| 12.9 |", 1))
    with pytest.raises(OutOfDate, match=name) as error:
        table.TABLES.check(checkout, table.table(answers))
    assert table.COMMAND in error.value.step
    assert table.TABLES.write(checkout, table.table(answers)) == (page,)
    assert page.read_text() == right
    table.TABLES.check(checkout, table.table(answers))


def test_a_page_that_lost_its_markers_is_an_error_that_shows_them(checkout: Workspace, answers: Answers) -> None:
    page = checkout.root / PAGE
    page.write_text(page.read_text().replace("<!-- full table", "<!-- table"))
    with pytest.raises(OutOfDate, match="no place for the table") as error:
        table.TABLES.write(checkout, table.table(answers))
    assert "<!-- full table, written by" in error.value.step


def test_rows_and_columns_that_say_the_same_are_one() -> None:
    assert table.table(small())("full").splitlines() == [
        "| driver supports CUDA | GPU 5.0 to 6.0, or not detected | newer GPU |",
        "| --- | --- | --- |",
        "| no driver | - | - |",
        "| 1.0 or newer | 1.0 | 1.0 |",
    ]


def test_gpus_that_get_the_same_are_one_column_whatever_lies_between() -> None:
    gpus = ("5.0", "6.0", "7.0", "8.0", "9.0", None)
    cells = {("1.0", gpu): "1.0 compat" if gpu in ("7.0", "9.0") else "1.0" for gpu in gpus}
    heading, *_ = table.table(Answers(("1.0",), gpus, cells))("full").splitlines()
    assert heading == "| driver supports CUDA | GPU 5.0 to 6.0, 8.0, or not detected | GPU 7.0 | newer GPU |"


def test_rows_and_columns_that_differ_anywhere_are_not() -> None:
    different = small(d11_g60="1.1", d11_gNone="1.1 compat")
    assert table.table(different)("short").splitlines() == [
        "| driver supports CUDA | GPU 5.0 | GPU 6.0 | GPU not detected |",
        "| --- | --- | --- | --- |",
        "| no driver | - | - | - |",
        "| 1.0 | 1.0 | 1.0 | 1.0 |",
        "| 1.1 or newer | 1.0 | 1.1 | 1.1 compat |",
    ]
