"""Rules on requirements: how they are written, and how tight they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rattler import MatchSpec, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.check.framework import Finding, check
from ctk.check.lint.tree import EXPRESSION, OURS, PUBLISHED, Place, RecipeFile, Tree, recipe_rule
from ctk.plan.plan import Build
from ctk.plan.recipes import Rendered

_OURS = re.compile(r"(lib(nv|cu|npp)|cuda-|numba-cuda|cccl-python)[a-z0-9_-]*")
# Names of packages that are made of a lock's components: no version of these is typed.
_TYPED = re.compile(r"(?:lib(?:nv|cu)|cuda-(?:cudart|nvrtc|nvvm|nvcc|crt|cccl))\S* [^#\n]*\d")
_EXACT = re.compile(r"(?:==?|^)\s*\d+(\.\d+)+(\.\*)?$")


@recipe_rule("write it as: name >=1.2,<2.0a0")
def SpecsAreSpaced(recipe: RecipeFile) -> Iterator[Finding]:
    """A requirement is a name, one space, and a version without spaces around its operators (R-021, R-022)."""
    for entry in recipe.requirements():
        plain = EXPRESSION.sub("1", entry.value)
        if re.search(r"[<>=!]\s|^[\w.-]+[<>=!]|^\S+\s\s", plain):
            yield recipe.at(entry.place, f"{entry.value!r} is not written as a requirement is")


@recipe_rule("write the output's name right, or state a range of versions")
def PinsNameOutputs(recipe: RecipeFile) -> Iterator[Finding]:
    """pin_subpackage is for outputs of the recipe (R-027); a requirement on another package states its versions."""
    names = {block.name for block in recipe.outputs}
    for number, line in recipe.code():
        for name, more, end in re.findall(
            r"pin_subpackage\(\s*\"([^\"]+)\"(\s*~\s*target_platform)?(?:\s*~\s*\"([^\"]*)\")?", line
        ):
            written = f"{name}${{{{ target_platform }}}}{end}" if more else name
            if written not in names:
                yield recipe.at_line(number, f"{written} is no output of this recipe")


@recipe_rule("write python >=3.11 into requirements: run")
def NoarchPythonHasAFloor(recipe: RecipeFile) -> Iterator[Finding]:
    """A noarch Python package states the oldest Python that it is for (R-026)."""
    for block in recipe.outputs:
        if recipe.inherited(block, "build").get("noarch") == "python":
            run = [e.value for e in block.requirements("run")]
            if not any(re.match(r"python >=", value) for value in run):
                yield recipe.at((*block.place, "requirements"), f"{block.name} states no oldest Python")


@recipe_rule('add ${{ stdlib("c") }}')
def CompilersHaveTheirLibrary(recipe: RecipeFile) -> Iterator[Finding]:
    """Who uses a compiler states the C library to compile for (R-033)."""
    for block in recipe.blocks:
        build = [e.value for e in block.requirements("build")]
        if any("compiler(" in v for v in build) and not any("stdlib(" in v for v in build):
            yield recipe.at((*block.place, "requirements", "build"), "a compiler is used without stdlib")


@recipe_rule("use the variant key of the component, such as ${{ cudart }}", OURS)
def NoVersionIsTyped(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe types no version that a release lock provides: it would be wrong with the next release. What is made of
    a toolkit's component names no version of the others either, but for bounds below everything (<0a0).
    """
    locks = [file.lock for file in recipe.tree.locks_of(recipe.home) if file.lock]
    locked = {c.version: f"{c.name} in {lock.name}" for lock in locks for c in lock.components.values()}
    for number, line in enumerate(recipe.lines, 1):
        for match in re.finditer(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])", line):
            if match[0] in locked:
                yield recipe.at_line(number, f"{match[0]} is the locked version of {locked[match[0]]}")
    for entry in recipe.requirements() if "cuda_version" in recipe.text else ():
        plain = EXPRESSION.sub("", entry.value)
        if _TYPED.match(plain) and "<0a0" not in plain:
            yield recipe.at(entry.place, f"{entry.value!r} types a version of a component")


@recipe_rule("write cuda-version >=${{ cuda_version }}, or ${{ cuda_major }} for what spans the major", OURS)
def CudaVersionIsAVariant(recipe: RecipeFile) -> Iterator[Finding]:
    """No recipe types a version of cuda-version: which toolkit a build is for is a variant, with all that follows.
    Where one does, a comment says why.
    """
    for entry in recipe.requirements():
        plain = EXPRESSION.sub("", entry.value)
        typed = re.match(r"cuda-version\s.*\d", re.sub(r"\.0a0|<0a0", "", plain))
        if typed and not recipe.commented(entry.place):
            yield recipe.at(entry.place, f"{entry.value!r} types a version of cuda-version")


@recipe_rule("write a range such as >=1.2,<2.0a0, or the reason as a comment above")
def ExactPinsAreExplained(recipe: RecipeFile) -> Iterator[Finding]:
    """A requirement on one version of a package of somebody else, typed, says in a comment why a range would not do."""
    for entry in recipe.requirements("host", "run", "run_exports"):
        name, _, rest = entry.value.partition(" ")
        if _EXACT.match(rest.split(" ")[0]) and not name.startswith("__") and not recipe.commented(entry.place):
            yield recipe.at(entry.place, f"{entry.value!r} takes one version and does not say why")


@check(Tree, fix="write >=${{ cuda_major }},<${{ next_major }}, or the reason as a comment above")
def PinsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """A package for a CUDA major takes every toolkit of that major: minor-version compatibility is what CUDA promises.
    A requirement of it on the toolkit that leaves out later minors says in a comment why.
    """
    specs = [
        (b, o, s) for b in tree.builds if "cuda_major" in b.recipe.names_used for o in b.outputs for s in o.depends
    ]
    yield from _tight(specs, "run", tree)


@check(Tree, fix='write pin_subpackage("NAME", upper_bound="x"), or the reason as a comment above')
def RunExportsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """What a package adds to those that are built with it lets later minors of its major in: a program that was linked
    against one toolkit runs with the next. Where it does not, a comment says why.
    """
    kinds = ("weak", "strong", "noarch")
    specs = [(b, o, s) for b in tree.builds for o in b.outputs for k in kinds for s in o.run_exports.get(k, ())]
    yield from _tight(specs, "run_exports", tree)


def _tight(specs: list[tuple[Build, Rendered, str]], section: str, tree: Tree) -> Iterator[Finding]:
    """Of these requirements, those on packages of the toolkit that leave out later versions of the major they name."""
    toolkit = {o.name for build in tree.builds if build.lock.startswith("cuda-") for o in build.outputs}
    seen: set[tuple[str, str, str]] = set()
    for build, output, spec in specs:
        name = spec.split()[0]
        key = (build.recipe.name, output.name, name)
        if name not in toolkit or key in seen or _spans(spec):
            continue
        seen.add(key)
        recipe = tree.recipe(build.recipe.name)
        entry = _entry(recipe, output.name, name, section) if recipe is not None else None
        if recipe is not None and (entry is None or not recipe.commented(entry)):
            yield recipe.at(entry or (), f"{output.name} takes {spec}, and no later minor of that major")


def _spans(spec: str) -> bool:
    """Whether a requirement takes every later version of each major of which it takes one."""
    try:
        versions = MatchSpec(spec).version
    except InvalidMatchSpecError:
        return True  # the audit reads requirements
    if versions is None:
        return True
    takes = VersionSpec(versions).matches
    named = re.findall(r"\d+(?:\.\d+)*", str(versions))
    taken = {
        number.split(".")[0] for number in (*named, *(f"{n.split('.')[0]}.0" for n in named)) if takes(Version(number))
    }
    return all(takes(Version(f"{major}.9999")) for major in taken)


def _entry(recipe: RecipeFile, output: str, name: str, section: str) -> Place | None:
    """Where a rendered requirement is written: in the output of that name, by the name that it begins with."""
    for block in recipe.outputs:
        for entry in block.requirements(section) if re.fullmatch(EXPRESSION.sub(".+", block.name), output) else ():
            pinned = re.search(r"pin_subpackage\(\s*\"([^\"]+)\"", entry.value)
            if entry.value.split(" ")[0] == name or (pinned and name.startswith(pinned[1])):
                return entry.place
    return None


@recipe_rule('write pin_subpackage("NAME", upper_bound="x")', PUBLISHED)
def ExportsAreBounded(recipe: RecipeFile) -> Iterator[Finding]:
    """A run export has a lower bound and an upper one: without the first, what was linked against a newer library gets
    an older one; without the second, it gets the next major, whose SONAME is another.
    """
    for block in recipe.outputs:
        for entry in block.requirements("run_exports"):
            value = entry.value
            bare = re.fullmatch(r"[\w.-]+|[\w.-]*\$\{\{ target_platform \}\}[\w.-]*", value)
            if bare and _OURS.match(value):
                yield recipe.at(entry.place, f"{value!r} is exported without bounds")
            pinned, (name, _, spec) = "pin_subpackage" in value, value.partition(" ")
            # A noarch package that exports itself has no library, and so no SONAME.
            itself = name == block.name and "noarch" in recipe.inherited(block, "build")
            # A version alone, = and == are bounds on both sides.
            range_ = not bare and not itself and _OURS.fullmatch(name) and spec[:1] in ("<", ">", "*")
            for side, sign in (("a lower", ">"), ("an upper", "<")):
                unbounded = f"{side.split()[1]}_bound=None" in value.replace(" ", "")
                if unbounded if pinned else (range_ and sign not in spec):
                    yield recipe.at(entry.place, f"{value!r} is exported without {side} bound")
