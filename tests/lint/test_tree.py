"""This checkout keeps every rule."""

from __future__ import annotations

from ctk.check.lint import lint
from ctk.check.lint.tree import Tree
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS


def test_this_checkout_is_clean(project: Workspace) -> None:
    tree = Tree(project)
    assert [str(f) for f in lint(tree).findings] == []
    assert tree.unplanned == {}


def test_the_checks_saw_all_of_it(project: Workspace) -> None:
    tree = Tree(project)
    assert {r.path.parent.name for r in tree.recipes} == {p.parent.name for p in project.recipes.glob("*/recipe.yaml")}
    assert len(tree.base) > 10
    assert {lock.path.stem for lock in tree.locks} >= {"base", "downstream", "python-13", "libraries-13", "cuda-12.0"}
    assert {build.subdir for build in tree.builds} == set(PLATFORMS)
