"""The subjects of the lint: recipes line by line, locks, and all builds of a checkout."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError
from ctk.core.files import read_plain_text
from ctk.core.platforms import PLATFORMS
from ctk.lock.components import EXCLUSIONS, Classes, Exclusions, load_exclusions, unmeasured
from ctk.lock.model import ReleaseLock, path_of
from ctk.plan.plan import Build, Request, Set, classified, plan, published_set, python_tags
from ctk.plan.recipes import Recipe
from ctk.rules import Finding

EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_BRANCH = re.compile(r"\s*(- )?(if|then|else):")


class RecipeFile:
    """A ``recipe.yaml``. Lines count from 1."""

    def __init__(self, recipe: Recipe, root: Path) -> None:
        self.recipe = recipe
        self.path = recipe.file
        self.name = recipe.file.relative_to(root).as_posix()
        self.lines = read_plain_text(recipe.file).split("\n")

    def at(self, line: int, message: str, column: int = 1) -> Finding:
        return Finding(self.name, message, line=line, column=column)

    @cached_property
    def code(self) -> list[tuple[int, str]]:
        """The lines that are not comments, with their numbers."""
        lines = enumerate(self.lines, 1)
        return [(number, line) for number, line in lines if not line.lstrip().startswith("#")]

    def lines_with(self, pattern: str) -> list[int]:
        """The numbers of the lines, without comments, that have a pattern."""
        return [number for number, line in self.code if re.search(pattern, line)]

    def output_line(self, output: str) -> int:
        """The line with the name of the output that renders to this package name."""
        for written in self.recipe.output_names:
            fixed_parts = map(re.escape, EXPRESSION.split(written))
            if re.fullmatch(".+".join(fixed_parts), output):
                lines = self.lines_with(rf"\bname: [\"']?{re.escape(written)}(?![\w-])")
                return lines[0] if lines else 1
        return 1

    def first(self, lines: Sequence[int], output: str) -> int:
        """The first of some lines that is in an output, or else in the recipe."""
        start = self.output_line(output)
        return next((n for n in lines if n >= start), next(iter(lines), 1))

    def commented(self, line: int) -> bool:
        """Whether a line has a comment: on it, right above it, or above its condition."""
        if " #" in self.lines[line - 1]:
            return True
        above = self.lines[: line - 1]
        while above and _BRANCH.match(above[-1]):
            above.pop()
        return bool(above) and above[-1].lstrip().startswith("#")


class Tree:
    """A checkout; files that cannot be read are errors of their readers."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.progress: Callable[[], None] = lambda: None
        """Is called after each lock that is planned, which takes most of the time."""
        self.unplanned: dict[str, str] = {}
        """Recipe -> why it cannot be planned, filled in by `builds`."""

    @property
    def paths(self) -> list[Path]:
        """The files that are linted."""
        recipes = sorted(self.workspace.recipes.glob("*/recipe.yaml"))
        locks = sorted(self.workspace.variants.glob("*.lock"))
        variants = sorted(self.workspace.variants.glob("*.yaml"))
        return recipes + locks + variants

    @cached_property
    def set(self) -> Set:
        """The recipes with the locks."""
        return published_set(self.workspace)

    @cached_property
    def recipes(self) -> dict[str, RecipeFile]:
        return {
            name: RecipeFile(recipe, self.workspace.root)
            for name, recipe in self.set.recipes.items()
        }

    @cached_property
    def locks(self) -> dict[str, ReleaseLock]:
        return {name: lock for name, (lock, _) in self.set.locks.items()}

    def at_lock(self, lock: ReleaseLock, message: str) -> Finding:
        """A finding on a lock; a command writes it, so the line is 1."""
        path = path_of(self.workspace, lock.name)
        return Finding(path.relative_to(self.workspace.root).as_posix(), message, line=1)

    @cached_property
    def exclusions(self) -> Exclusions:
        """The list of components that are not packaged on purpose."""
        return load_exclusions(self.workspace)

    def at_exclusion(self, name: str, message: str) -> Finding:
        """A finding on the list of exclusions, at the line of a name."""
        path = self.workspace.variants / EXCLUSIONS
        lines = enumerate(read_plain_text(path).split("\n"), 1)
        pattern = rf": {re.escape(name)}\b"
        numbers = [number for number, line in lines if re.search(pattern, line)]
        place = path.relative_to(self.workspace.root).as_posix()
        return Finding(place, message, line=numbers[0] if numbers else 1)

    @cached_property
    def python_tags(self) -> tuple[str, ...]:
        return python_tags(self.workspace.build_config)

    @cached_property
    def measured(self) -> Set:
        """The set without the locks that lack measured values.

        No recipe that needs these values can be planned.
        """
        locks = {name: pair for name, pair in self.set.locks.items() if not unmeasured(pair[0])}
        return replace(self.set, locks=locks)

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """The builds of measured releases on all platforms.

        `unplanned` has the recipes that cannot be planned.
        """
        try:
            return self._planned(tuple(self.set.recipes), self.progress)
        except CtkError:  # of which recipe is seen one by one
            return tuple(self._planned_one_by_one())

    def _planned(
        self, recipes: Sequence[str], progress: Callable[[], None] = lambda: None
    ) -> tuple[Build, ...]:
        request = Request(recipes=recipes, platforms=tuple(PLATFORMS))
        return plan(self.measured, request, self.python_tags, progress).builds

    def _planned_one_by_one(self) -> Iterator[Build]:
        for name in self.set.recipes:
            try:
                yield from self._planned([name])
            except CtkError as error:
                self.unplanned[name] = error.cause

    @cached_property
    def classes(self) -> dict[str, Classes]:
        """Measured CTK release -> its components that are packaged, excluded, or neither.

        Empty while a recipe cannot be planned: what that packages is not known.
        """
        _ = self.builds
        return {} if self.unplanned else classified(self.workspace, self.measured)
