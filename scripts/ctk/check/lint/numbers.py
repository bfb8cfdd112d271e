"""Checks of build numbers against an earlier revision: a published file name is never given to other content."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ctk.check.lint.check import TreeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.published import Made
from ctk.core.console import count

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_FIX = "raise the first term of build: number by one"


class BuildNumberIsRaised(TreeCheck):
    """A package that changes gets another file name. What decides its bytes (the recipe and its scripts down to a
    comment, the artefacts, the variant keys that it reads) is compared with what was published: the revision of --base,
    else the newest tag published/*. Without both it is compared with the main branch, and only a hint, since what is
    there need not be published. `ctk publish` would refuse such a package.
    """

    fix = _FIX

    def check(self, tree: Tree) -> Iterator[Problem]:
        found: dict[str, list[tuple[str, Made, Made]]] = defaultdict(list)
        before, now = tree.history.published, tree.history.planned
        for recipe, cause in tree.history.unplanned.items():
            said = f"{tree.history.compared} cannot be compared with: {' '.join(cause.split())[:300]}"
            yield _at_number(tree, recipe, said)
        for file in sorted(before.keys() & now.keys()):
            if now[file].changed(before[file]):
                found[now[file].recipe].append((file, before[file], now[file]))
        for recipe, files in sorted(found.items()):
            what = list(dict.fromkeys(w for _, old, new in files for w in new.changed(old)))
            said = (
                f"since {tree.history.compared} {' and '.join(what)} changed, and {count(len(files), 'package')} would"
            )
            said += f" keep the file name, such as {files[0][0]}"
            yield _at_number(tree, recipe, said)


class BuildNumberNeverFalls(TreeCheck):
    """The build number of a version never falls: a solver takes the highest, which would be the older package."""

    fix = "give it the number that it had, and one more where the package changes"

    def check(self, tree: Tree) -> Iterator[Problem]:
        before: dict[tuple[object, ...], int] = {}
        for made in tree.history.published.values():
            before[_same(made)] = max(made.number, before.get(_same(made), 0))
        fallen: dict[str, Made] = {}
        for made in tree.history.planned.values():
            if made.number < before.get(_same(made), 0):
                fallen.setdefault(made.recipe, made)
        for recipe, made in sorted(fallen.items()):
            said = (
                f"since {tree.history.compared} {made.name} {made.version} fell from build number {before[_same(made)]}"
            )
            yield _at_number(tree, recipe, f"{said} to {made.number}")


def _same(made: Made) -> tuple[object, ...]:
    """What two builds have in common of which one replaces the other."""
    return made.subdir, made.name, made.version, frozenset(made.variant.items())


def _at_number(tree: Tree, recipe: str, message: str) -> Problem:
    file = tree.recipe(recipe)
    if file is None:
        problem = Problem(f"recipes/{recipe}/recipe.yaml" if recipe else "recipes", 1, 1, message)
    else:
        block = next((b for b in file.blocks if "number" in b.section("build")), file.shared)
        problem = file.problem((*block.place, "build", "number"), message)
    return problem if tree.history.certain else replace(problem, severity="hint")
