"""Checks of a recipe's form: sections, names, numbers. Those of conda-smithy's linter say its identifier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import rattler_build

from ctk.check.lint.check import ADVICE, OURS, PUBLISHED, Mending, RecipeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import EXPRESSION, REQUIREMENTS, RecipeFile, entries
from ctk.check.lint.source import SourceFile, mapping

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_SINGLE = ("schema_version", "context", "package", "source", "build", "requirements", "tests", "about", "extra")
_SEVERAL = ("schema_version", "context", "recipe", "source", "build", "outputs", "about", "extra")
_LONGEST = 60  # lines of an output
_SHARED = 40  # and of what all of them share
_NUMBER = re.compile(r"[0-9][0-9._]*")


class RecipeParses(RecipeCheck):
    """rattler-build reads the recipe: it follows the schema of the v1 format."""

    fix = "mend what rattler-build names; https://rattler-build.prefix.dev has the format"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        try:
            rattler_build.Stage0Recipe.from_file(recipe.path)
        except Exception as error:  # whatever its parser says
            text = " ".join(str(error).split())
            # It names keys, not lines.
            named = [word for word in re.findall(r"'([^']+)'", text) if word in recipe.text]
            line = recipe.text.count("\n", 0, recipe.text.index(named[-1])) + 1 if named else 1
            yield recipe.line_problem(line, f"rattler-build does not read it: {text[:300]}")


class ContextComesFirst(RecipeCheck):
    """A recipe opens with schema_version and context: a reader finds first what is a variable."""

    fix = "move schema_version and context to the top"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        first = list(recipe.top)[:2]
        needed = recipe.home == "recipes" or "context" in recipe.top
        if recipe.top and needed and first != ["schema_version", "context"]:
            yield recipe.problem((first[0],), f"it opens with {' and '.join(map(str, first))}")


class SectionsAreKnown(RecipeCheck):
    """Every section at the top is one of the format (conda-smithy's R-000)."""

    fix = "take the section out, or write its name right"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        yield from (recipe.problem((k,), f"there is no section {k}") for k in recipe.top if k not in _order(recipe))


class SectionsAreInOrder(RecipeCheck):
    """Sections are in the order that conda-forge has them in: context, package, source, build, requirements, tests,
    outputs, about, extra (R-001).
    """

    fix = "move the section"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        known = [key for key in recipe.top if key in _order(recipe)]
        wanted = sorted(known, key=_order(recipe).index)
        for key, other in zip(known, wanted, strict=True):
            if key != other:
                yield recipe.problem((key,), f"{key} comes before {other}")
                return


class RequirementsAreInOrder(RecipeCheck):
    """Requirements are in the order build, host, run, run_constraints, run_exports (R-009)."""

    fix = "move the section"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            keys = [key for key in block.section("requirements") if key in REQUIREMENTS]
            for key, other in zip(keys, sorted(keys, key=REQUIREMENTS.index), strict=True):
                if key != other:
                    yield recipe.problem((*block.place, "requirements", key), f"{key} comes before {other}")
                    break


class NamesArePlain(RecipeCheck):
    """Names of packages are in small letters, digits, and the signs - _ . (R-014)."""

    fix = "write it in small letters"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            if not re.fullmatch(r"[a-z0-9_.-]+", EXPRESSION.sub("x", block.name)):
                yield recipe.problem((*block.place, "package", "name"), f"{block.name!r} is no name of a package")


class FolderHasTheName(RecipeCheck):
    """The folder of a recipe has the name that the recipe gives itself: commands, logs and reports say the folder."""

    fix = "rename the folder or the recipe"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        if recipe.package and recipe.package != recipe.folder.name:
            place = ("recipe" if "recipe" in recipe.top else "package", "name")
            yield recipe.problem(place, f"the recipe is {recipe.package}, its folder {recipe.folder.name}")


class NamesAreCondaForges(RecipeCheck):
    """What is made of the toolkit is named as on conda-forge: cuda-<part>, lib<part> or cuda, then -dev, -static, -impl
    or -tools, then the platform of a half for cross compiling, then -files. A package here replaces theirs.
    """

    fix = "give it the name that conda-forge's feedstock has"
    homes = PUBLISHED

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        if "cuda_version" not in recipe.text:
            return
        for block in recipe.outputs:
            name = EXPRESSION.sub("PLATFORM", block.name)
            if not re.fullmatch(r"cuda|(cuda-|lib)[a-z0-9-]+(_(PLATFORM|[a-z0-9-]+))?(-files)?", name):
                yield recipe.problem((*block.place, "package", "name"), f"{block.name!r} is no name of conda-forge's")


class BuildNumberIsStated(RecipeCheck):
    """Every package has a build number (R-008): without one, a changed package would replace a published one."""

    fix = "add build: number: 0"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            if "number" not in recipe.inherited(block, "build"):
                yield recipe.problem((*block.place, "build"), f"{block.name or 'the package'} has no build number")


class NoarchIsKnown(RecipeCheck):
    """noarch is python or generic (R-020)."""

    fix = "write python or generic"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            kind = block.section("build").get("noarch")
            if kind not in (None, "python", "generic"):
                yield recipe.problem((*block.place, "build", "noarch"), f"noarch is {kind!r}")


class NoarchHasNoConditions(RecipeCheck):
    """A noarch recipe has no conditions among its requirements: it is built once, on one machine (R1-002). Where it has
    a build for each variant instead, its conda-forge.yml skips conda-smithy's rule, and so this one.
    """

    fix = "take the condition out, or write linter: skip: [lint_noarch_selectors] into the recipe's conda-forge.yml"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        skipped = mapping(tree.settings_of(recipe).get("linter")).get("skip") or ()
        if not recipe.shared.section("build").get("noarch") or "lint_noarch_selectors" in skipped:
            return
        for section in REQUIREMENTS:
            for entry in recipe.shared.requirements(section):
                if entry.conditions:
                    yield recipe.problem(entry.place, f"{entry.value} is asked for under a condition")


class NoarchSkipIsNeeded(RecipeCheck):
    """A recipe whose conda-forge.yml skips conda-smithy's rule about conditions breaks that rule."""

    fix = "take linter: skip out of the recipe's conda-forge.yml"
    homes = PUBLISHED

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        skipped = mapping(tree.settings_of(recipe).get("linter")).get("skip") or ()
        conditions = [e for s in REQUIREMENTS for e in recipe.shared.requirements(s) if e.conditions]
        noarch = recipe.shared.section("build").get("noarch")
        if "lint_noarch_selectors" in skipped and not (noarch and conditions):
            yield recipe.problem((), "its conda-forge.yml skips lint_noarch_selectors, and it has no such conditions")


class OutputIsShort(RecipeCheck):
    """An output takes about sixty lines, comments aside: what is longer says something twice, or belongs elsewhere."""

    fix = "share what outputs have in common, or make two recipes of it"
    homes = ADVICE
    severity = "hint"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        lines = sum(1 for _, line in recipe.code() if line.strip())
        allowed = _LONGEST * max(len(recipe.outputs), 1) + _SHARED
        if lines >= allowed and recipe.home != "feedstock":
            yield recipe.problem((), f"{lines} lines for {len(recipe.outputs)} outputs; {allowed} would be many")


class VersionIsText(RecipeCheck, Mending):
    """A version in a recipe is in quotes, or it is a number: 1.10 would be 1.1 (R-040)."""

    fix = "put it in quotes: ctk lint --fix --write"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for place, value in _numbers(recipe):
            yield recipe.problem(place, f"the version {value} is a number, not text")

    def mend(self, file: SourceFile) -> str:
        if not isinstance(file, RecipeFile):
            return file.text
        lines = list(file.lines)
        # From the end, so that the columns of what comes before stay right.
        for place, value in reversed(list(_numbers(file))):
            mark = file.scalars[place].start_mark
            line = lines[mark.line]
            lines[mark.line] = f'{line[: mark.column]}"{value}"{line[mark.column + len(value) :]}'
        return "\n".join(lines)


def _numbers(recipe: RecipeFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Versions that YAML reads as numbers, and how they are written."""
    for place, node in recipe.scalars.items():
        version = place[-1:] == ("version",) or (place[:1] == ("context",) and "version" in str(place[-1]))
        bound = place[-1:] in (("lower_bound",), ("upper_bound",))
        if (version or bound) and node.style is None and _NUMBER.fullmatch(node.value):
            value = recipe.data
            for key in place:
                value = value[key]
            if not isinstance(value, str):
                yield place, node.value


def _order(recipe: RecipeFile) -> tuple[str, ...]:
    return _SEVERAL if "outputs" in recipe.top else _SINGLE


class TextIsNotTwice(RecipeCheck):
    """No requirement and no file is listed twice in one list."""

    fix = "take one of them out"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            lists = [((*block.place, "requirements", s), block.section("requirements").get(s)) for s in REQUIREMENTS]
            lists.append(((*block.place, "build", "files"), block.section("build").get("files")))
            for place, values in lists:
                seen: set[tuple[str, tuple[str, ...]]] = set()
                for entry in entries(values, place):
                    if isinstance(entry.value, str):
                        if (entry.value, entry.conditions) in seen or (entry.value, ()) in seen:
                            yield recipe.problem(entry.place, f"{entry.value} is listed twice")
                        seen.add((entry.value, entry.conditions))
