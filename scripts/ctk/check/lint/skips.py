"""Checks that a recipe asks to be spared of, and checks of that.

```
extra:
  lint-skip:
    OutputIsShort: five libraries in one wheel, and each has its own files
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ctk.check.lint.check import RecipeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import RecipeFile
from ctk.check.lint.source import Place, mapping, text_of

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

KEY: Place = ("extra", "lint-skip")


def skipped(recipe: RecipeFile) -> dict[str, str]:
    """Check -> the reason that the recipe gives; "" where it gives none that could be read."""
    stated = mapping(recipe.shared.section("extra").get("lint-skip"))
    return {str(check): text_of(reason) for check, reason in stated.items()}


class SkipsHaveReasons(RecipeCheck):
    """A check that a recipe skips (extra: lint-skip:) is one that exists, and the reason is a sentence."""

    fix = "write it as extra: lint-skip: {CheckName: the reason, in a few words}; ctk lint --list has the names"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        stated = recipe.shared.section("extra").get("lint-skip")
        if stated is not None and not isinstance(stated, dict):
            yield recipe.problem(KEY, "lint-skip is no mapping of checks to reasons")
        for check, reason in skipped(recipe).items():
            if check not in tree.check_names:
                yield recipe.problem((*KEY, check), f"there is no check {check}")
            if len(reason.split()) < 3:
                yield recipe.problem((*KEY, check), f"{check} is skipped without a reason")


class SkipsAreNeeded(RecipeCheck):
    """A check that a recipe skips would find something there: otherwise it would hide the next slip."""

    fix = "take it out of extra: lint-skip"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        return iter(())  # `unneeded` is asked once it is known what every other check found

    @staticmethod
    def unneeded(recipe: RecipeFile, ran: Collection[str], found: Collection[str]) -> Iterator[Problem]:
        """The skipped checks that found nothing.

        Args:
            recipe: The recipe.
            ran: The checks that were run.
            found: Those of them that found something in the recipe.
        """
        for check in skipped(recipe):
            if check in ran and check not in found:
                yield recipe.problem((*KEY, check), f"{check} is skipped and would find nothing")
