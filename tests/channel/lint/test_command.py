"""`ctk lint`, run as a process: its output for people and for scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.lint import CHECKS
from kit.case_tree import Case, write

RECIPE = """schema_version: 1

package:
  name: thing-static
  version: ${{ cuda_core }}

requirements:
  run_exports:
    - cuda-version >=13.4
"""
BOTH = ("--check", "StaticHasNoRunExports", "--check", "NoVersionIsTyped")


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A checkout with a recipe that has two errors."""
    write(Case(tmp_path, {"files": {"recipes/thing/recipe.yaml": RECIPE}}, {}), tmp_path)
    return Workspace(tmp_path)


def test_a_finding_says_place_rule_and_fix_and_blocks(checkout: Workspace) -> None:
    done = ctk(checkout, "lint", *BOTH)
    assert done.returncode == 31
    exports, version = done.stdout.splitlines()
    assert (
        exports == "recipes/thing/recipe.yaml:4: error[StaticHasNoRunExports]: thing-static has run"
        " exports;"
        " fix: remove run_exports"
    )
    assert version.startswith(
        "recipes/thing/recipe.yaml:9: error[NoVersionIsTyped]: 'cuda-version >=13.4' types"
    )
    assert "2 checks: 2 errors" in done.stderr
    assert "error: the lint found 2 errors\nnext: " in done.stderr


def test_github_shows_findings_at_their_lines(checkout: Workspace) -> None:
    exports, _ = ctk(checkout, "lint", "--format", "github", *BOTH).stdout.splitlines()
    place = "file=recipes/thing/recipe.yaml,line=4,col=1,title=StaticHasNoRunExports"
    assert exports.startswith(f"::error {place}::thing-static has run exports")


def test_the_list_has_every_check_with_its_help(checkout: Workspace) -> None:
    shown = ctk(checkout, "lint", "--list").stdout
    assert re.findall(r"^(\w+) \[", shown, re.M) == [check.name for check in CHECKS]
    assert "A -static package has no run exports" in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    assert "fix: remove run_exports" in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--check", "RecipesRendr"], 3, "did you mean RecipesRender"),
        (["--format", "xml"], 2, "xml"),
    ],
)
def test_a_mistake_of_the_user_is_an_error_in_two_lines(
    checkout: Workspace, words: list[str], code: int, said: str
) -> None:
    done = ctk(checkout, "lint", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_anything_to_lint_is_an_error(tmp_path: Path) -> None:
    """A gate with a wrong folder would always pass."""
    (tmp_path / "recipes").mkdir()
    done = ctk(Workspace(tmp_path), "lint")
    assert done.returncode == 3
    assert f"error: there is nothing to lint in {tmp_path}\nnext: set CTK_ROOT" in done.stderr
