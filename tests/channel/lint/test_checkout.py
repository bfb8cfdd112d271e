"""What `ctk lint` finds in this checkout: nothing."""

from __future__ import annotations

from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.lint import lint
from ctk.lint.tree import Tree


def test_this_checkout_is_clean(project: Workspace) -> None:
    tree = Tree(project)
    assert [str(f) for f in lint(tree).findings] == []
    assert tree.unplanned == {}
    assert {build.subdir for build in tree.builds} == set(PLATFORMS)
