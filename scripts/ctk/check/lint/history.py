"""The packages of a checkout beside those that an earlier revision planned, as far as they can differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from ctk.check.lint.published import Made, Revision, changes, checkout, packages, revision
from ctk.core.checkout import Workspace
from ctk.plan.recipes import Recipe


class History:
    """What is planned now and what was planned then.

    Args:
        workspace: The checkout.
        asked: The git revision that was published, where the user names it.
        recipes: The folders of the recipes that can be read.
    """

    def __init__(self, workspace: Workspace, asked: str | None, recipes: Sequence[Path]) -> None:
        self._workspace, self._asked, self._recipes = workspace, asked, recipes

    @cached_property
    def _revision(self) -> Revision | None:
        return revision(self._workspace.root, self._asked)

    @property
    def compared(self) -> str:
        """The revision that is compared with, for a person."""
        return self._revision.said if self._revision else ""

    @property
    def certain(self) -> bool:
        """Whether that revision is known to be published."""
        return self._revision is not None and self._revision.certain

    @cached_property
    def _changed(self) -> frozenset[str]:
        """The recipes whose packages can differ from those of that revision."""
        if self._revision is None:
            return frozenset()
        root = self._workspace.root
        files = changes(root, self._revision.commit)
        if any(not file.startswith("recipes/") for file in files):
            return frozenset(folder.name for folder in self._recipes)
        # By folder: a file that was removed is in no list of a recipe's files any more.
        touched = {root.resolve() / "recipes" / Path(file).parts[1] for file in files}
        found = (folder.resolve() for folder in self._recipes)
        return frozenset(f.name for f in found if touched & {f, *Recipe(f.name, f).shared_folders()})

    @cached_property
    def _gone(self) -> frozenset[str]:
        """The folders of that revision that are no recipe here: another one may make their packages now."""
        if self._revision is None:
            return frozenset()
        files = changes(self._workspace.root, self._revision.commit)
        names = {Path(file).parts[1] for file in files if file.startswith("recipes/")}
        return frozenset(name for name in names if not (self._workspace.recipes / name / "recipe.yaml").exists())

    @cached_property
    def planned(self) -> dict[str, Made]:
        """The packages of the recipes that changed since that revision, as they would be made now."""
        return packages(self._workspace, self._changed)[0] if self._changed else {}

    @property
    def published(self) -> dict[str, Made]:
        """The same as they were planned there, with those of folders that have another name now."""
        return self._then[0]

    @property
    def unplanned(self) -> dict[str, str]:
        """Recipe -> why this revision of the tools cannot plan what that revision has of it; "" for all of them."""
        return self._then[1]

    @cached_property
    def _then(self) -> tuple[dict[str, Made], dict[str, str]]:
        if self._revision is None or not self._changed:
            return {}, {}
        with checkout(self._workspace.root, self._revision.commit) as there:
            return packages(there, self._changed | self._gone)
