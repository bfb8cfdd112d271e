"""Rules on the variables and conditions of recipes, and the evaluation of conditions without rendering."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from rattler import Version, VersionSpec
from rattler.exceptions import InvalidVersionError, InvalidVersionSpecError

from ctk.check import Finding, check
from ctk.check.lint.tree import EXPRESSION, OURS, PUBLISHED, RecipeFile, Tree, one_line, recipe_rule
from ctk.core.platforms import PLATFORMS

_JINJA = Environment(autoescape=True)  # only parses; rattler-build renders
_COMPILER = re.compile(r"\b(compiler|stdlib)\(\s*[\"'](\w+)")
_ASKED = re.compile(r"\b([a-z_]\w*)\s+is\s+defined")
# The variables of rattler-build.
_GIVEN = re.compile(
    r"(build|target|host)_platform|hash|build_number|linux|win|osx|unix|x86(_64)?|aarch64|arm64|ppc64le|s390x|riscv64"
    r"|wasm|emscripten|env|git|cdt|PYTHON|PREFIX|SRC_DIR|RECIPE_DIR"
)


@recipe_rule("define it in context, or add it to conda_build_config.yaml", PUBLISHED)
def NamesAreDefined(recipe: RecipeFile) -> Iterator[Finding]:
    """Every variable of an expression is in context, a variant key, or given by rattler-build; others are slips."""
    # Not in the base channel, which has keys that are measured when it is made.
    keys = {key for file in recipe.tree.published_variants for key in file.top}
    known = {*recipe.context, *keys, *_ASKED.findall(recipe.text)}
    first = {name: line for line, name in reversed(list(_names(recipe)))}
    for name in first.keys() - known:
        if not _GIVEN.fullmatch(name):
            yield recipe.at_line(first[name], f"{name} is neither in context nor a variant key")


@recipe_rule("take it out of context")
def ContextIsUsed(recipe: RecipeFile) -> Iterator[Finding]:
    """Every variable of the context is used."""
    for key in recipe.context:
        own = recipe.line(("context", key))
        if not any(name == key and line != own for line, name in _names(recipe)):
            yield recipe.at(("context", key), f"{key} is used nowhere")


def _spaced(recipe: RecipeFile) -> str:
    return re.sub(r"\$\{\{[ \t]*(\S(?:[^\n]*?\S)?)[ \t]*\}\}", r"${{ \1 }}", recipe.text)


@recipe_rule("ctk lint --fix --write", autofix=_spaced)
def ExpressionsAreSpaced(recipe: RecipeFile) -> Iterator[Finding]:
    """An expression has a space inside of each brace: ${{ version }}, as conda-smithy hints."""
    for number, line in recipe.code():
        for match in re.finditer(r"\$\{\{.*?\}\}", line):
            if not re.fullmatch(r"\$\{\{\s.*\s\}\}", match[0]):
                yield recipe.at_line(number, f"{match[0]} lacks a space", match.start() + 1)


@recipe_rule("mend the condition, or take what depends on it out", OURS)
def ConditionsCanHold(recipe: RecipeFile) -> Iterator[Finding]:
    """Every condition can hold for some platform and release, together with the conditions and the `skip` around it."""
    worlds = _worlds(recipe)
    for condition, place, around in recipe.conditions:
        if worlds and not any(_may_hold((condition, *around), world) for world in worlds):
            where = " where it stands" if around else ""
            yield recipe.at(place, f"{condition!r} is never true{where}")


@recipe_rule("take the condition out, and keep what depends on it", OURS)
def ConditionsSaySomething(recipe: RecipeFile) -> Iterator[Finding]:
    """No condition always holds where it stands, with the conditions and the `skip` around it."""
    worlds = _worlds(recipe)
    for condition, place, around in recipe.conditions:
        here = [world for world in worlds if _may_hold(around, world)]
        if here and all(truth(condition, world) for world in here):
            yield recipe.at(place, f"{condition!r} always holds where it stands")


@check(Tree, fix="mend what rattler-build names")
def RecipesRender(tree: Tree) -> Iterator[Finding]:
    """Every recipe renders for every release and platform that it is for, and reads artefacts that a lock has."""
    _ = tree.builds
    for name, cause in tree.unplanned.items():
        if recipe := tree.recipe(name):
            yield recipe.at((), one_line(cause))


@check(Tree, fix="use it in a recipe, write the component into variants/exclusions.yaml, or take the key out")
def VariantKeysAreUsed(tree: Tree) -> Iterator[Finding]:
    """Every key of a variant file is used by a recipe; others are components nobody packages, or change no build."""
    excluded = tree.excluded.excluded if tree.excluded else ()
    for recipes, files in ((tree.recipes, tree.published_variants), (tree.base, tree.of_home(tree.variants, "base"))):
        used = {"zip_keys"} | {name for recipe in recipes for name in _used(recipe)}
        for file in files if recipes else ():
            lock = file.release if file.release and file.release.is_ctk else None
            left_out = (
                {lock.components[e.component].variant_key for e in excluded if e.applies_to(lock)} if lock else ()
            )
            for key in file.top:
                if key not in used and key not in left_out:
                    yield file.at((key,), f"no recipe uses the key {key}")


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
        first = text.count("\n", 0, match.start())
        yield from ((first + line, name) for line, name in _variables(match[0][3:-2]))
    for condition, place, _ in recipe.conditions:
        yield from ((recipe.line(place), name) for _, name in _variables(condition))


@lru_cache(maxsize=4096)
def _variables(expression: str) -> tuple[tuple[int, str], ...]:
    """The variables of an expression, with their lines from 1; functions are none."""
    tree = _parsed(expression)
    if tree is None:
        return ()
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    return tuple((name.lineno, name.name) for name in tree.find_all(nodes.Name) if id(name) not in called)


@lru_cache(maxsize=4096)
def _parsed(expression: str) -> nodes.Output | None:
    try:
        (output,) = _JINJA.parse(f"{{{{{expression}}}}}").body
    except (TemplateSyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return output if isinstance(output, nodes.Output) else None


def _worlds(recipe: RecipeFile) -> list[dict[str, Any]]:
    """The values that conditions can see, one for each platform, release and row of the matrix that they tell apart."""
    used = frozenset(name for condition, _, _ in recipe.conditions for _, name in _variables(condition))
    worlds: list[dict[str, Any]] = []
    for values in recipe.tree.variants_for(recipe):
        keys = sorted(key for key in used if key in values)
        for row in product(*(values[key] for key in keys)):
            worlds += [platform_names(subdir) | dict(zip(keys, row, strict=True)) for subdir in PLATFORMS]
    return worlds


def _may_hold(conditions: tuple[str, ...], world: Mapping[str, Any]) -> bool:
    return all(truth(condition, world) is not False for condition in conditions)


def platform_names(subdir: str) -> dict[str, Any]:
    """What a condition can say of the platform that a package is for, such as ``win-arm64``."""
    system, _, machine = subdir.partition("-")
    machine = "x86_64" if machine == "64" else machine
    systems = {name: name == system for name in ("linux", "win", "osx")}
    machines = {name: name == machine for name in ("x86_64", "aarch64", "arm64", "ppc64le")}
    return {"target_platform": subdir, "unix": system != "win", **systems, **machines}


def truth(condition: str, names: Mapping[str, Any]) -> bool | None:
    """Whether a condition holds, given the values of names that are known; None where that is unknown."""
    tree = _parsed(condition)
    value = _value(tree.nodes[0], names) if tree else None
    return None if value is None else bool(value)


def _value(node: nodes.Node, names: Mapping[str, Any]) -> Any:
    """The value of an expression, None for unknown."""
    match node:
        case nodes.Const():
            return node.value
        case nodes.Name():
            return names.get(node.name)
        case nodes.Not():
            value = _value(node.node, names)
            return None if value is None else not value
        case nodes.And() | nodes.Or():
            values = [_value(node.left, names), _value(node.right, names)]
            decides = isinstance(node, nodes.Or)
            if any(value is not None and bool(value) is decides for value in values):
                return decides
            return None if None in values else not decides
        case nodes.List() | nodes.Tuple():
            values = [_value(item, names) for item in node.items]
            return None if None in values else values
        case nodes.Compare(ops=[operand]):
            return _compared(_value(node.expr, names), operand.op, _value(operand.expr, names))
        case nodes.Call(node=nodes.Name(name="match"), args=[version, spec], kwargs=[]):
            return _matched(_value(version, names), _value(spec, names))
    return None


def _compared(left: Any, operator: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if operator in ("eq", "ne"):
        return bool(left == right) is (operator == "eq")
    if operator in ("in", "notin") and (isinstance(right, list) or (isinstance(left, str) and isinstance(right, str))):
        return (left in right) is (operator == "in")
    return None


@lru_cache(maxsize=4096)
def _matched(version: Any, spec: Any) -> bool | None:
    if not isinstance(version, str) or not isinstance(spec, str):
        return None
    try:
        return VersionSpec(spec).matches(Version(version))
    except (InvalidVersionError, InvalidVersionSpecError):
        return None
