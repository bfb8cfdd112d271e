"""This checkout keeps every rule: what blocks, and what advises."""

from __future__ import annotations

from ctk.check.lint import CHECKS, lint, tree_of
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS

# It compares with what may be published, and advises until a tag says so: a branch that changes packages has hints.
OF_HISTORY = {"BuildNumberIsRaised"}


def test_this_checkout_is_clean(project: Workspace) -> None:
    tree = tree_of(project)
    report = lint(tree)
    assert [str(f) for f in report.findings if f.severity == "error" or f.check not in OF_HISTORY] == []
    assert len(report.checks) == len(CHECKS) > 80
    assert tree.unplanned == {}


def test_the_checks_saw_all_of_it(project: Workspace) -> None:
    tree = tree_of(project)
    assert {r.folder.name for r in tree.recipes} == {p.parent.name for p in project.recipes.glob("*/recipe.yaml")}
    assert len(tree.base) > 10
    assert {lock.path.stem for lock in tree.locks} >= {"base", "downstream", "python-13", "libraries-13", "cuda-12.0"}
    assert {script.path.name for script in tree.scripts if script.builds} == {
        "activation.sh",
        "compiled-wheel.sh",
        "edit.sh",
        "install.sh",
        "layout.sh",
        "library.sh",
        "wheel.sh",
    }
    assert {build.subdir for build in tree.builds} == set(PLATFORMS)
    assert not [recipe.name for recipe in tree.every_recipe if recipe.broken]
