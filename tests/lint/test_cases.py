"""Every check passes a file that keeps its rule and finds the slip in one that breaks it, at the line of the slip."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tree import Case, read, write

from ctk.check.lint import CHECKS, fixed, lint, tree_of
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
    paths = write(case, root)
    base = "HEAD" if "before" in case.folder else None
    report = lint(tree_of(Workspace(root), paths, base), [case.check, *case.also], paths)
    found = [finding for finding in report.findings if finding.check == case.check]
    if not case.fails:
        assert found == []
        return
    assert case.message, "a failing case says what it expects"
    said = [(finding.line, finding.message) for finding in found]
    file = str(root.parent / "apart" / "recipe.yaml") if case.file == "feedstock" else case.file
    assert [f for f in found if f.where == file and f.line == case.line and case.message in f.message], said


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.fails and any(k.autofix and k.name == c.check for k in CHECKS)],
    ids=lambda case: f"{case.check}-{case.path.stem}",
)
def test_what_can_be_mended_is_clean_afterwards_and_mended_once(case: Case, root: Path) -> None:
    paths = write(case, root)
    files = fixed(tree_of(Workspace(root), paths), [case.check], paths)
    if case.path.stem == "fail-by-hand":
        assert files == []
        return
    assert files
    for file in files:
        assert file.diff()
        file.write()
    # A text that is no YAML any more would have no findings of the check itself.
    assert lint(tree_of(Workspace(root), paths), [case.check, "FileIsYaml"], paths).findings == ()
    assert fixed(tree_of(Workspace(root), paths), [case.check], paths) == []
