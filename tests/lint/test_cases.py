"""Every check passes a file that keeps its rule and finds the slip in one that breaks it, at the line of the slip."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tree import Case, read, write

from ctk.check.lint import CHECKS, lint
from ctk.check.lint.tree import Tree
from ctk.core.checkout import Workspace

FOLDER = Path(__file__).parent / "cases"
CASES = [read(path) for path in sorted(FOLDER.glob("*/*")) if path.is_file()]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.path.stem}")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout, with its own caches."""
    monkeypatch.setenv("CTK_ROOT", str(tmp_path / "checkout"))
    (tmp_path / "checkout").mkdir()
    return tmp_path / "checkout"


def test_every_check_has_a_passing_and_a_failing_case() -> None:
    has = {(case.check, case.fails) for case in CASES}
    assert has == {(check.name, fails) for check in CHECKS for fails in (True, False)}


@EACH
def test_a_case_gets_what_it_says(case: Case, root: Path) -> None:
    write(case, root)
    found = lint(Tree(Workspace(root)), [case.check]).findings
    if not case.fails:
        assert found == ()
        return
    assert case.message, "a failing case says what it expects"
    said = [(finding.line, finding.message) for finding in found]
    assert [f for f in found if f.where == case.file and f.line == case.line and case.message in f.message], said
