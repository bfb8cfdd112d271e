"""Figures of benchmarks: each with the commit that it was measured on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ctk.core.paths import Workspace
from ctk.site import benchmarks as figures


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    if shutil.which("git") is None:
        pytest.skip("no git on this machine: a figure then has no commit, as below")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "README.md").write_text("one\n")
    figures.path(Workspace(tmp_path)).write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return Workspace(tmp_path)


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()


def test_two_benchmarks_in_a_row_are_of_the_same_commit(checkout: Workspace) -> None:
    commit = git(checkout.root, "rev-parse", "--short=9", "HEAD")
    figures.record(checkout, "build", [("a row", 1.0, "s")])
    figures.record(checkout, "verify", [("a row", 2.0, "s"), ("another", 3.14159, figures.RATIO)])
    found, wrong = figures.load(checkout)
    assert [(f.benchmark, f.commit, f.value) for f in found] == [
        ("build", commit, 1.0),
        ("verify", commit, 2.0),
        ("verify", commit, 3.142),
    ]
    assert not wrong


def test_a_changed_checkout_is_marked(checkout: Workspace) -> None:
    (checkout.root / "README.md").write_text("two\n")
    figures.record(checkout, "build", [("a row", 1.0, "s")])
    assert figures.load(checkout)[0][0].commit.endswith("+")


def test_a_folder_without_git_has_figures_without_a_commit(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    figures.record(Workspace(tmp_path), "build", [("a row", 1.0, "s")])
    assert figures.load(Workspace(tmp_path))[0][0].commit == ""


def test_lines_that_are_no_figures_are_counted(checkout: Workspace) -> None:
    figures.record(checkout, "build", [("a row", 1.0, "s")])
    with figures.path(checkout).open("a") as file:
        file.write('{"date": "yesterday"}\nnot json\n\n')
    found, wrong = figures.load(checkout)
    assert (len(found), wrong) == (1, 2)
