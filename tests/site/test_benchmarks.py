"""The page of benchmarks, and the figures that it shows, each with the commit that it was measured on."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from reading import Read

from ctk.core.checkout import Workspace
from ctk.site import Site, benchmarks
from ctk.site.benchmarks import Figure

pytest_plugins = ["site_fixtures"]

FIGURE = Figure("2026-01-02", "abc123def", "verify", "CPU time", 2.5, "ms", "2 cores")


def line(**more: object) -> str:
    return json.dumps({**FIGURE.__dict__, **more})


def page(small: Site, root: Path, *lines: str) -> str:
    """The page of a checkout with this history."""
    benchmarks.path(Workspace(root)).parent.mkdir(exist_ok=True)
    benchmarks.path(Workspace(root)).write_text("".join(f"{line}\n" for line in lines))
    return next(benchmarks.pages(replace(small, workspace=Workspace(root)))).content.decode()


def test_figures_become_lines_and_one_alone_says_so(small: Site, tmp_path: Path) -> None:
    assert "No figure was recorded yet" in page(small, tmp_path)
    assert "Measured once, on 2026-01-02: a line needs two." in page(small, tmp_path, line())
    several = page(small, tmp_path, line(), line(value=5, date="2026-02-03"), line(machine="64 cores"))
    assert several.count("<polyline") == 1 and several.count("<circle") == 2, "machines are not mixed"
    assert "from 2.5 on 2026-01-02 to 5 on 2026-02-03, 2 figures" in several


def test_lines_that_are_no_figures_are_counted(small: Site, tmp_path: Path) -> None:
    bad = ["nonsense", "[]", line(value="fast"), line(value=None), line(more=1), line(date="now")]
    words = " ".join(Read(page(small, tmp_path, *bad, "", line()).encode()).text.split())
    assert "6 lines of benchmarks/history.jsonl cannot be read" in words and "Measured once" in words


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [0.0, 0.0], [-1.0, 1.0], [7.0]])
def test_a_line_stays_in_its_picture(values: list[float]) -> None:
    places = benchmarks.line(values)
    assert len(places) == len(values)
    for x, y in places:
        assert 0 <= x <= benchmarks.WIDTH and 0 <= y <= benchmarks.HEIGHT
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True) or values == [0.0, 0.0]


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    if shutil.which("git") is None:
        pytest.skip("no git on this machine: a figure then has no commit, as below")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "README.md").write_text("one\n")
    benchmarks.path(Workspace(tmp_path)).write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return Workspace(tmp_path)


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_two_benchmarks_in_a_row_are_of_the_same_commit(checkout: Workspace) -> None:
    commit = git(checkout.root, "rev-parse", "--short=9", "HEAD")
    benchmarks.record(checkout, "build", [("a row", 1.0, "s")])
    benchmarks.record(checkout, "verify", [("a row", 2.0, "s"), ("another", 3.14159, benchmarks.RATIO)])
    found, wrong = benchmarks.load(checkout)
    assert [(f.benchmark, f.commit, f.value) for f in found] == [
        ("build", commit, 1.0),
        ("verify", commit, 2.0),
        ("verify", commit, 3.142),
    ]
    assert not wrong


def test_a_changed_checkout_is_marked(checkout: Workspace) -> None:
    (checkout.root / "README.md").write_text("two\n")
    benchmarks.record(checkout, "build", [("a row", 1.0, "s")])
    assert benchmarks.load(checkout)[0][0].commit.endswith("+")


def test_a_folder_without_git_has_figures_without_a_commit(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    benchmarks.record(Workspace(tmp_path), "build", [("a row", 1.0, "s")])
    assert benchmarks.load(Workspace(tmp_path))[0][0].commit == ""
