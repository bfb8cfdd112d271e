"""Checks of variables and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from ctk.check.lint.check import OURS, PUBLISHED, Mending, RecipeCheck, TreeCheck
from ctk.check.lint.conditions import names_of, platform_names, truth
from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import EXPRESSION, RecipeFile
from ctk.check.lint.source import SourceFile
from ctk.core.platforms import PLATFORMS

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

# What an expression is made of: text, a name, and what says that a name is none of ours.
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAME = re.compile(r"(?<![\w.])([a-zA-Z_]\w*)(\s*[(=](?!=))?")
_FILTER = re.compile(r"\|\s*[a-z_]\w*|\bis\s+(not\s+)?[a-z_]\w*")
_COMPILER = re.compile(r"\b(compiler|stdlib)\(\s*[\"'](\w+)")
_ASKED = re.compile(r"\b([a-z_]\w*)\s+is\s+defined")
_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "defined",
        "undefined",
        "for",
    ]
)
_GIVEN = frozenset(
    [
        "build_platform",
        "target_platform",
        "host_platform",
        "hash",
        "build_number",
        "linux",
        "win",
        "osx",
        "unix",
        "x86_64",
        "x86",
        "aarch64",
        "arm64",
        "ppc64le",
        "s390x",
        "riscv64",
        "wasm",
        "emscripten",
        "env",
        "git",
        "cdt",
        "PYTHON",
        "PREFIX",
        "SRC_DIR",
        "RECIPE_DIR",
    ]
)


class NamesAreDefined(RecipeCheck):
    """Every variable of an expression is one of the context, a key of some variant file, or given by rattler-build.
    A key that no variant file has is a slip, or a recipe that is never built.
    """

    fix = "define it in context, or add it to conda_build_config.yaml"
    homes = PUBLISHED  # the base channel has keys that are measured when it is made

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        keys = tree.variant_keys(recipe.home)
        optional = set(_ASKED.findall(recipe.text))
        seen: set[str] = set()
        for line, name in _names(recipe):
            known = name in recipe.context or name in keys or name in _GIVEN or name in optional
            if not known and name not in seen:
                seen.add(name)
                yield recipe.line_problem(line, f"{name} is neither in context nor a variant key")


class ContextIsUsed(RecipeCheck):
    """Every variable of the context is used."""

    fix = "take it out of context"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for key in recipe.context:
            own = recipe.line(("context", key))
            used = any(name == key and line != own for line, name in _names(recipe))
            if not used:
                yield recipe.problem(("context", key), f"{key} is used nowhere")


class ExpressionsAreSpaced(RecipeCheck, Mending):
    """An expression has a space inside of each brace: ${{ version }}, as conda-smithy hints."""

    fix = "ctk lint --fix --write"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for number, line in recipe.code():
            for match in re.finditer(r"\$\{\{.*?\}\}", line):
                if not re.fullmatch(r"\$\{\{\s.*\s\}\}", match[0]):
                    yield recipe.line_problem(number, f"{match[0]} lacks a space", match.start() + 1)

    def mend(self, file: SourceFile) -> str:
        if not isinstance(file, RecipeFile):
            return file.text
        return re.sub(r"\$\{\{[ \t]*(\S(?:[^\n]*?\S)?)[ \t]*\}\}", r"${{ \1 }}", file.text)


class ConditionsCanHold(RecipeCheck):
    """Every condition holds for some platform and release that the recipe is built for, together with the conditions
    and the `skip` around it. What can never be true is a slip in a name, or for a release that is gone.
    """

    fix = "mend the condition, or take what depends on it out"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        worlds = _worlds(recipe, tree)
        for condition, place, around in recipe.conditions:
            if worlds and not any(_holds((condition, *around), world) for world in worlds):
                where = " where it stands" if around else ""
                yield recipe.problem(place, f"{condition!r} is never true{where}")


class ConditionsSaySomething(RecipeCheck):
    """No condition always holds where it stands, with the conditions and the `skip` around it."""

    fix = "take the condition out, and keep what depends on it"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        worlds = _worlds(recipe, tree)
        for condition, place, around in recipe.conditions:
            here = [world for world in worlds if _holds(around, world)]
            if here and all(truth(condition, world) is True for world in here):
                yield recipe.problem(place, f"{condition!r} always holds where it stands")


class VariantKeysAreUsed(TreeCheck):
    """Every key of a variant file is used by a recipe: a version that nobody reads is a component that nobody packages,
    and a key of the matrix that nobody reads makes builds that do not differ.
    """

    fix = "use it in a recipe, write the component into variants/exclusions.yaml, or take the key out"

    def check(self, tree: Tree) -> Iterator[Problem]:
        for recipes, files in (
            (tree.recipes, (*tree.published_variants, *tree.config)),
            (tree.base, tree.base_variants),
        ):
            used = {name for recipe in recipes for name in _used(recipe)}
            for file in files if recipes else ():
                excluded = tree.excluded(file.release) if file.release else frozenset()
                for key in file.top:
                    if key not in used and key != "zip_keys" and key not in excluded:
                        yield file.problem((key,), f"no recipe uses the key {key}")


def _used(recipe: RecipeFile) -> Iterator[str]:
    """The keys that a recipe reads: in expressions, as versions of what it builds with, and for compilers."""
    yield from (name for _, name in _names(recipe))
    for block in recipe.blocks:
        for section in ("build", "host"):
            for entry in block.requirements(section):
                yield entry.value.split(" ")[0].replace("-", "_")
                for kind, language in _COMPILER.findall(entry.value):
                    yield from (f"{language}_{kind}", f"{language}_{kind}_version")


def _names(recipe: RecipeFile) -> Iterator[tuple[int, str]]:
    """The variables of a recipe's expressions and conditions, with their lines. Comments are not expressions."""
    text = "\n".join("" if line.lstrip().startswith("#") else line for line in recipe.lines)
    for match in EXPRESSION.finditer(text):
        for start, name in _names_in(match[0][3:-2]):
            yield text.count("\n", 0, match.start() + 3 + start) + 1, name
    for condition, place, _ in recipe.conditions:
        yield from ((recipe.line(place), name) for _, name in _names_in(condition))


def _names_in(code: str) -> Iterator[tuple[int, str]]:
    """The variables of one expression, and where each begins."""
    blank = _STRING.sub(lambda m: " " * len(m[0]), code)
    blank = _FILTER.sub(lambda m: "|" * len(m[0]), blank)
    for name in _NAME.finditer(blank):
        if name[1] not in _WORDS and not name[2]:
            yield name.start(), name[1]


def _worlds(recipe: RecipeFile, tree: Tree) -> list[dict[str, Any]]:
    """The values that conditions can see, one for each platform, release and row of the matrix that they tell apart."""
    used = frozenset(name for condition, _, _ in recipe.conditions for name in names_of(condition))
    releases = tree.variants_for(recipe)
    found: list[dict[str, Any]] = []
    for values in releases:
        keys = sorted(key for key in used if key in values)
        for row in product(*(values[key] for key in keys)):
            found += [{**platform_names(subdir), **dict(zip(keys, row, strict=True))} for subdir in PLATFORMS]
    return found


def _holds(conditions: tuple[str, ...], world: dict[str, Any]) -> bool:
    """Whether they may all hold; what is not known may."""
    return all(truth(condition, world) is not False for condition in conditions)


class RecipesRender(TreeCheck):
    """Every recipe renders for every release and platform that it is for, and reads artefacts that a lock has."""

    fix = "mend what rattler-build names"

    def check(self, tree: Tree) -> Iterator[Problem]:
        _ = tree.builds
        for name, cause in tree.unplanned.items():
            recipe = tree.recipe(name)
            if recipe is not None:
                yield recipe.problem((), " ".join(cause.split())[:300])
