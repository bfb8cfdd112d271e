"""Every check finds the mistake in a failing case, at its line, and allows the exceptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.lint import CHECKS, annotation, lint
from ctk.lint.tree import Tree
from ctk.rules import Finding
from kit.case_tree import Case, read, write

CASES = [read(path) for path in sorted((Path(__file__).parent / "cases").glob("*/*.yaml"))]


def test_every_check_has_a_failing_case() -> None:
    assert {case.check for case in CASES if case.expect} == {check.name for check in CHECKS}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.path.stem}")
def test_a_case_gets_what_it_says(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))  # its own caches
    write(case, tmp_path)
    tree = Tree(Workspace(tmp_path))
    found = lint(tree, [case.check]).findings
    if not case.expect:
        assert found == ()
        assert tree.builds, tree.unplanned
        return
    expect = {"line": 1, **case.expect}
    said = [(f.where, f.line, f.message) for f in found]
    fits = [
        s for s in said if s[:2] == (expect["file"], expect["line"]) and expect["message"] in s[2]
    ]
    assert fits, (
        f"{case.path} expects {expect}, and the check finds {said or tree.unplanned or 'nothing'}"
    )


RECIPE = """
schema_version: 1
package:
  name: thing
  version: ${{ cuda_version }}
build:
  noarch: generic
requirements:
  run_constraints:
    - __cuda_arch >=${{ cuda_arch }}
"""


def test_a_lock_that_is_not_measured_is_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its facts are not known, and no recipe that reads facts can be planned with it."""
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    parts = {name: f"13.4.{number}" for number, name in enumerate(["cublas", "cudart", "nvrtc"])}
    state = {
        "files": {"recipes/thing/recipe.yaml": RECIPE},
        "locks": {"13.4.3": parts},
        "unmeasured": ["13.4.3"],
    }
    write(Case(Path("case"), state, {}), tmp_path)
    found = [f for f in lint(Tree(Workspace(tmp_path))).findings if "measure" in f.message + f.fix]
    assert [(f.where, f.message) for f in found] == [
        ("variants/cuda-13.4.lock", "not measured: its facts")
    ]
    assert found[0].fix == "ctk release measure 13.4 --write"


def test_what_cannot_be_planned_does_not_stop_the_other_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that was typed stopped the lint, without the line where it is."""
    monkeypatch.setenv("CTK_ROOT", str(tmp_path))
    text = "schema_version: 1\npackage:\n  name: thing\n  version: 13.4.2\nsource:\n  path: "
    text += "../../.cache/artefacts/nvrtc/13.4.2/${{ target_platform }}.zip\n"
    state = {
        "files": {"recipes/thing/recipe.yaml": text},
        "locks": {"13.4.3": {"nvrtc": "13.4.3", "cudart": "13.4.2"}},
    }
    write(Case(Path("case"), state, {}), tmp_path)
    found = {(f.check, f.line) for f in lint(Tree(Workspace(tmp_path))).findings}
    assert found >= {("RecipesRender", 4), ("NoVersionIsTyped", 4)}


def test_github_shows_an_error_as_an_error_and_a_hint_as_a_notice() -> None:
    finding = Finding("recipes/a/recipe.yaml", "m", line=4, check="C", fix="f", severity="error")
    place = "file=recipes/a/recipe.yaml,line=4,col=0,title=C"
    assert annotation(finding) == f"::error {place}::m; fix: f"
    assert annotation(replace(finding, severity="hint")) == f"::notice {place}::m; fix: f"
