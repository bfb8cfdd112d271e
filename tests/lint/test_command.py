"""`ctk lint`, run as a process: what a user reads, and what a script gets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from case_tree import CONFIG

from conftest import ctk
from ctk.check import Finding
from ctk.check.lint import CHECKS
from ctk.core.checkout import Workspace

RECIPE = """schema_version: 1

context:
  version: 1.10

package:
  name: thing
  version: ${{ version }}

build:
  number: 0

about:
  summary: Things.
  license: MIT
  homepage: https://example.org
"""
BOTH = ("--check", "VersionIsText", "--check", "SummaryIsOneLine")


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    """A checkout with one recipe: one error that can be mended, and one hint."""
    (tmp_path / "recipes" / "thing").mkdir(parents=True)
    (tmp_path / "recipes" / "thing" / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "conda_build_config.yaml").write_text(CONFIG)
    return Workspace(tmp_path)


def test_a_finding_says_place_rule_and_fix_and_blocks(checkout: Workspace) -> None:
    done = ctk(checkout, "lint", str(checkout.recipes), *BOTH)
    assert done.returncode == 31
    error, hint = done.stdout.splitlines()
    assert error == (
        "recipes/thing/recipe.yaml:4: error[VersionIsText]: the version 1.10 is a number, not text;"
        " fix: put it in quotes: ctk lint --fix --write"
    )
    assert hint.startswith("recipes/thing/recipe.yaml:14: hint[SummaryIsOneLine]: the summary ends with a full stop")
    assert "1 file, 2 checks: 1 error, 1 hint" in done.stderr
    assert "error: the lint found 1 error\nnext: " in done.stderr


def test_a_recipe_may_be_named_or_its_path(checkout: Workspace) -> None:
    (checkout.recipes / "other").mkdir()
    (checkout.recipes / "other" / "recipe.yaml").write_text(RECIPE)
    named = [ctk(checkout, "lint", word, *BOTH).stdout for word in ("thing", str(checkout.recipes / "thing"))]
    assert named[0] == named[1] != ctk(checkout, "lint", *BOTH).stdout
    assert len(named[0].splitlines()) == 2
    done = ctk(checkout, "lint", "thin")
    assert (done.returncode, done.stderr) == (3, "error: unknown recipe 'thin'\nnext: did you mean thing?\n")


def test_a_hint_does_not_block(checkout: Workspace) -> None:
    done = ctk(checkout, "lint", "--check", "SummaryIsOneLine")
    assert done.returncode == 0
    assert "hint[SummaryIsOneLine]" in done.stdout


def test_json_has_every_finding(checkout: Workspace) -> None:
    done = ctk(checkout, "lint", "--json", "--check", "VersionIsText")
    assert done.returncode == 31
    report = json.loads(done.stdout)
    assert (report["ok"], report["checks"], report["error"]["exit_code"]) == (False, 1, 31)
    (finding,) = report["findings"]
    assert (finding["file"], finding["line"], finding["column"]) == ("recipes/thing/recipe.yaml", 4, 3)
    assert (finding["check"], finding["severity"]) == ("VersionIsText", "error")


def test_github_shows_findings_at_their_lines(checkout: Workspace) -> None:
    error, hint = ctk(checkout, "lint", "--format", "github", *BOTH).stdout.splitlines()
    assert error.startswith("::error file=recipes/thing/recipe.yaml,line=4,col=3,title=VersionIsText::the version 1.10")
    assert hint.startswith("::notice file=recipes/thing/recipe.yaml,line=14,")


def test_an_annotation_cannot_be_left_by_what_a_file_says() -> None:
    finding = Finding("a,b:c.yaml", "100%\n::error::gotcha", line=1, column=1, check="X", fix="mend", severity="error")
    shown = "::error file=a%2Cb%3Ac.yaml,line=1,col=1,title=X::100%25%0A::error::gotcha; fix: mend"
    assert finding.as_annotation() == shown


def test_a_fix_is_shown_and_written_on_request(checkout: Workspace) -> None:
    shown = ctk(checkout, "lint", "--fix", "--check", "VersionIsText")
    assert shown.returncode == 0
    assert '-  version: 1.10\n+  version: "1.10"\n' in shown.stdout
    assert "1 file would change; --write writes it" in shown.stderr
    file = checkout.recipes / "thing" / "recipe.yaml"
    assert file.read_text() == RECIPE
    done = ctk(checkout, "lint", "--fix", "--write", "--check", "VersionIsText")
    assert done.returncode == 0, done.stdout + done.stderr
    assert file.read_text() == RECIPE.replace("1.10", '"1.10"')
    assert "nothing can be mended" in ctk(checkout, "lint", "--fix", "--check", "VersionIsText").stderr


def test_the_list_has_every_check_with_its_help(checkout: Workspace) -> None:
    shown = ctk(checkout, "lint", "--list").stdout
    assert re.findall(r"^(\w+) \[", shown, re.M) == [check.name for check in CHECKS]
    assert "conda-smithy's R-002" in " ".join(shown.split())
    explained = ctk(checkout, "lint", "--explain", "VersionIsText").stdout
    assert "1.10 would be 1.1" in explained
    assert "fix: put it in quotes" in explained


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--check", "VersionIsTxt"], 3, "did you mean VersionIsText"),
        (["--explain", "VersionIsTxt"], 3, "did you mean VersionIsText"),
        (["nowhere"], 3, "unknown recipe 'nowhere'"),
        (["--base", "nowhere"], 2, "git knows no revision 'nowhere'"),
        (["--base=--output=x"], 2, "git knows no revision '--output=x'"),
        (["--write"], 2, "--write says nothing without --fix"),
        (["--format", "xml"], 2, "xml"),
    ],
)
def test_what_cannot_be_done_is_said_in_two_lines(checkout: Workspace, words: list[str], code: int, said: str) -> None:
    done = ctk(checkout, "lint", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_where_nothing_is_linted_is_an_error(checkout: Workspace) -> None:
    (checkout.root / "README.md").write_text("words\n")
    done = ctk(checkout, "lint", str(checkout.root / "README.md"))
    assert done.returncode == 2
    assert "nothing in" in done.stderr


def test_a_feedstock_elsewhere_is_linted_as_one(checkout: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("feedstock") / "recipe"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE)
    done = ctk(checkout, "lint", str(folder.parent))
    assert done.returncode == 31
    assert f"{folder}/recipe.yaml" in done.stdout
    assert "error[MaintainersAreNamed]" in done.stdout
    assert "recipes/thing" not in done.stdout


def test_a_folder_without_anything_to_lint_is_an_error(tmp_path: Path) -> None:
    """It would be green for ever."""
    done = ctk(Workspace(tmp_path), "lint")
    assert (done.returncode, "is no checkout" in done.stderr) == (2, True)
    (tmp_path / "recipes").mkdir()
    for words in ((), ("--fix",)):
        done = ctk(Workspace(tmp_path), "lint", *words)
        assert done.returncode == 3
        assert f"error: there is nothing to lint in {tmp_path}\nnext: name recipes" in done.stderr
