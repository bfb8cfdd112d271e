"""Rules on recipes: what can be wrong in this set alone. conda-smithy's linter has the rules of all feedstocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rattler import MatchSpec, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.lint.tree import EXPRESSION, RecipeFile, Tree
from ctk.plan.plan import Build
from ctk.plan.recipes import Rendered
from ctk.rules import Finding, check

# Names of packages that are made of a lock's components: no version of these is typed.
_TYPED = re.compile(
    r"\b(?:lib(?:nv|cu)|cuda-(?:version|cudart|nvrtc|nvvm|nvcc|crt|cccl))\S* (?=[<>=!~*\d])[^\"'\]}#]*\d"
)
_EXPORTS = ("weak", "strong", "noarch")
_PROPRIETARY = re.compile(r"nvidia|propriet", re.I)
# Open texts of wheels that declare LicenseRef-NVIDIA-Proprietary.
_OPEN = {"0f0174a6b4e0b33ac26375bf729533075b32f4c51a5b6802a3d742d7dcdc9a76": "BSD-3-Clause, of NCCL"}


@check(Tree, fix="mend what rattler-build names")
def RecipesRender(tree: Tree) -> Iterator[Finding]:
    """Every recipe renders for every release and platform that it is for, and reads artefacts that a lock has."""
    _ = tree.builds
    for name, cause in tree.unplanned.items():
        yield tree.recipes[name].at(1, " ".join(cause.split())[:300])


def _outputs(tree: Tree) -> Iterator[tuple[Build, RecipeFile, Rendered]]:
    """Every output of every build, once for each recipe and name, beside its recipe."""
    seen: set[tuple[str, str]] = set()
    for build in tree.builds:
        for output in build.outputs:
            if (key := (build.recipe.name, output.name)) not in seen:
                seen.add(key)
                yield build, tree.recipes[build.recipe.name], output


@check(Tree, fix="add requirements: run_exports with a pin_subpackage of the library")
def DevHasRunExports(tree: Tree) -> Iterator[Finding]:
    """A -dev package that brings its recipe's library has run exports: what is linked to it must get that library."""
    for build, recipe, output in _outputs(tree):
        full = {o.name.removesuffix("-files") for o in build.outputs if o.files or "**" not in o.left_files}
        match = re.search(r"-dev(?=$|_)", output.name)
        if match and output.name[: match.start()] in full and not any(map(output.run_exports.get, _EXPORTS)):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has no run exports")


@check(Tree, fix="take run_exports out")
def StaticHasNoRunExports(tree: Tree) -> Iterator[Finding]:
    """A -static package has no run exports: what was linked against it holds its code, and needs nothing at run."""
    for _, recipe, output in _outputs(tree):
        if any(output.run_exports.values()) and re.search(r"-static(?=$|_)", output.name):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has run exports")


@check(Tree, fix="add build: noarch: generic")
def HalvesAreNoarch(tree: Tree) -> Iterator[Finding]:
    """The half of a -dev or -static package named for a platform is noarch: generic: other machines compile with it."""
    for build, recipe, output in _outputs(tree):
        if re.search(rf"-(dev|static)_{build.subdir}(-files)?$", output.name) and output.noarch != "generic":
            yield recipe.at(recipe.output_line(output.name), f"{output.name} is not noarch")


@check(RecipeFile, fix="write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip")
def SourcesAreArtefacts(recipe: RecipeFile) -> Iterator[Finding]:
    """A source is an artefact that fetch has checked, by component, version and platform: no address, git or hash."""
    for number, line in recipe.code():
        if match := re.search(r"\b(url|git|sha256|md5|path): +(?![\"']?\.\./\.\./\.cache/artefacts/)\S+", line):
            yield recipe.at(number, f"a source is {match[0]}", match.start() + 1)


@check(Tree, fix="use the variant key, such as ${{ cudart }} or ${{ cuda_version }}, or give the reason in a comment")
def NoVersionIsTyped(tree: Tree) -> Iterator[Finding]:
    """A recipe types no version that a lock provides, nor one of a toolkit's component, but bounds such as <0a0."""
    locked = {c.version: f"{c.name} in {lock.name}" for lock in tree.locks.values() for c in lock.components.values()}
    for recipe in tree.recipes.values():
        for number, line in recipe.code():
            for version in re.findall(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])", line):
                if version in locked:
                    yield recipe.at(number, f"{version} is the locked version of {locked[version]}")
            typed = _TYPED.search(re.sub(r"<0a0|\.0a0", "", EXPRESSION.sub("", line)))
            ours = typed and (typed[0].startswith("cuda-version ") or "cuda_version" in recipe.recipe.names_used)
            if typed and ours and not recipe.commented(number):
                yield recipe.at(number, f"{typed[0]!r} types a version of the toolkit")


@check(
    Tree, fix="write >=${{ cuda_major }},<${{ next_major }}, or pin_subpackage(NAME, upper_bound='x'), or the reason"
)
def PinsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """What is for a CUDA major, or was linked against a toolkit, takes every later minor of that major.

    A run export also has a lower bound, since older libraries lack symbols. A comment above says why it is not so.
    """
    toolkit = {o.name for build in tree.builds if build.lock.startswith("cuda-") for o in build.outputs}
    seen: set[tuple[str, str, str]] = set()
    for build in tree.builds:
        recipe = tree.recipes[build.recipe.name]
        for output in build.outputs:
            exports = [s for kind in _EXPORTS for s in output.run_exports.get(kind, ())]
            for spec in (*exports, *(output.depends if "cuda_major" in build.recipe.names_used else ())):
                name = spec.split()[0]
                key = (recipe.name, output.name, spec)
                if name not in toolkit or key in seen:
                    continue
                seen.add(key)
                # A noarch package that exports itself has no library, and so no SONAME.
                is_open = spec in exports and not (output.noarch and name == output.name) and not _is_bounded(spec)
                if is_open or not _spans(spec):
                    lines = [n for n, line in recipe.code() if re.search(rf"(- |[\"'\[]){re.escape(name)}[ \"']", line)]
                    if not any(map(recipe.commented, lines)):
                        problem = "without bounds on both sides" if is_open else "and no later minor of that major"
                        yield recipe.at(next(iter(lines), 1), f"{output.name} takes {spec}, {problem}")


def _is_bounded(spec: str) -> bool:
    """Whether a requirement has a lower and an upper bound; a version alone, = and == are both."""
    versions = str(MatchSpec(spec).version or "*")
    return versions[0] not in "<>*" or (">" in versions and "<" in versions)


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


@check(Tree, fix="state the licence of the artefact, with a condition on cuda_version where it changed")
def LicenceIsTheArtefacts(tree: Tree) -> Iterator[Finding]:
    """The licence of a package is what its artefact declares: not proprietary when that is open, nor the reverse."""
    # A text that is declared open somewhere counts for more than NVIDIA's declaration, which changed while it stayed.
    known = [component for lock in tree.locks.values() for component in lock.components.values()]
    is_open = {text for c in known if "nvidia" not in c.license.lower() for text in c.license_texts} | _OPEN.keys()
    said: dict[tuple[str, str, str, str], str] = {}
    for build in tree.builds:
        lock = tree.locks[build.lock]
        made = {c.name: c for a in build.artefacts if (c := lock.component_of(a.component, a.version))}
        for component in made.values():
            declared, texts = component.license, [text in is_open for text in component.license_texts]
            for output in build.outputs:
                if not _fits(output.license, declared, texts):
                    key = (build.recipe.name, output.license, component.name, declared)
                    said.setdefault(key, f"{output.name} of {build.lock}")
    for (name, stated, component_name, declared), package in said.items():
        recipe = tree.recipes[name]
        line = next((n for n, text in recipe.code() if re.search(r"\blicense: ", text)), 1)
        message = f"{package} is under {stated or 'no licence'}, and {component_name} declares {declared}"
        yield recipe.at(line, message)


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether a package's licence can be that of its artefact, for each of whose texts it is known if it is open."""
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)
