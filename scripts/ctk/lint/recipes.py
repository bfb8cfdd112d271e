"""Checks of recipes for the rules of this set.

Conda-smithy's linter has the rules of all feedstocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rattler import Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.core.console import listing
from ctk.core.similar import nearest
from ctk.lint.tree import EXPRESSION, RecipeFile, Tree
from ctk.lock.model import Component, ReleaseLock
from ctk.package.records import match_spec
from ctk.plan.plan import Build
from ctk.plan.rendered import Rendered
from ctk.rules import Finding, check
from ctk.solve.channels import universe_names

# Specs of packages that are built from components of a lock, with a version in them.
_TYPED = re.compile(
    r"\b(?:lib(?:nv|cu)|cuda-(?!arch|core|bindings|pathfinder|python))\S*"
    r" (?=[<>=!~*\d])[^\"'\]}#]*\d"
)
_EXPORTS = ("weak", "strong", "noarch")
_PROPRIETARY = re.compile(r"nvidia|propriet", re.I)
# sha256 of open licence texts in wheels that declare LicenseRef-NVIDIA-Proprietary.
_OPEN = {
    "0f0174a6b4e0b33ac26375bf729533075b32f4c51a5b6802a3d742d7dcdc9a76": "BSD-3-Clause, of NCCL"
}


@check(Tree, fix="fix the line that rattler-build names")
def RecipesRender(tree: Tree) -> Iterator[Finding]:
    """Every recipe renders for its releases and platforms, from artefacts that are in a lock."""
    _ = tree.builds
    for name, cause in tree.unplanned.items():
        recipe = tree.recipes[name]
        yield recipe.at(_line_at_fault(recipe, cause), " ".join(cause.split())[:300])


def _line_at_fault(recipe: RecipeFile, cause: str) -> int:
    """The line of a recipe that the cause of an error names, by number or by a version in it."""
    place = re.search(r"recipe\.yaml:(\d+)| reads \S+ (\S+),", cause)
    if not place:
        return 1
    number, version = place.groups()
    for of_line, line in recipe.code:
        if str(of_line) == number or (version and version in line):
            return of_line
    return 1


def _outputs(tree: Tree) -> Iterator[tuple[Build, RecipeFile, Rendered]]:
    """The outputs of all builds, each name of a recipe once, with a build and the recipe."""
    seen: set[tuple[str, str]] = set()
    for build in tree.builds:
        for output in build.outputs:
            key = (build.recipe.name, output.name)
            if key not in seen:
                seen.add(key)
                yield build, tree.recipes[build.recipe.name], output


@check(
    Tree,
    fix=(
        "write run_exports: ${{ pin_subpackage('NAME', upper_bound='x') }}, the NAME of the"
        " library's package"
    ),
)
def DevHasRunExports(tree: Tree) -> Iterator[Finding]:
    """A -dev package of a library has run exports.

    So packages that are linked against the library depend on it.
    """
    for build, recipe, output in _outputs(tree):
        dev = re.search(r"-dev(?=$|_)", output.name)
        if not dev or any(map(output.run_exports.get, _EXPORTS)):
            continue
        library = output.name[: dev.start()]
        if library in _with_files(build):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has no run exports")


def _with_files(build: Build) -> set[str]:
    """The packages of a build that have files, by the names without -files."""
    full = [o.name for o in build.outputs if o.files or "**" not in o.left_files]
    return {name.removesuffix("-files") for name in full}


@check(Tree, fix="remove run_exports")
def StaticHasNoRunExports(tree: Tree) -> Iterator[Finding]:
    """A -static package has no run exports.

    Packages that are linked against it contain its code, and need nothing to run.
    """
    for _, recipe, output in _outputs(tree):
        if any(output.run_exports.values()) and re.search(r"-static(?=$|_)", output.name):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has run exports")


@check(Tree, fix="write build: {noarch: generic}")
def PlatformNamesAreNoarch(tree: Tree) -> Iterator[Finding]:
    """A -dev or -static package with a platform in its name is noarch: generic.

    So compilers on other platforms can use it.
    """
    for build, recipe, output in _outputs(tree):
        has_platform = re.search(rf"-(dev|static)_{build.subdir}(-files)?$", output.name)
        if has_platform and output.noarch != "generic":
            yield recipe.at(recipe.output_line(output.name), f"{output.name} is not noarch")


@check(
    RecipeFile,
    fix="write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip",
)
def SourcesAreArtefacts(recipe: RecipeFile) -> Iterator[Finding]:
    """A source is an artefact in the cache, by component, version and platform.

    It is not a URL, no git repository and no hash. The recipe of the tool has the tool itself.
    """
    known = r"\.cache/artefacts/|scripts/ctk$|pyproject\.toml$|LICENSE$"
    other_source = re.compile(rf"\b(url|git|sha256|md5|path): +(?![\"']?\.\./\.\./(?:{known}))\S+")
    for number, line in recipe.code:
        if match := other_source.search(line):
            yield recipe.at(number, f"a source is {match[0]}", match.start() + 1)


@check(
    Tree,
    fix=(
        "write the variant key, such as ${{ cudart }} or ${{ cuda_version }}, or the reason in a"
        " comment"
    ),
)
def NoVersionIsTyped(tree: Tree) -> Iterator[Finding]:
    """A recipe has no version of a component as text; bounds such as <0a0 are allowed."""
    locked = {
        component.version: f"{component.name} in {lock.name}"
        for lock in tree.locks.values()
        for component in lock.components.values()
    }
    for recipe in tree.recipes.values():
        for number, line in recipe.code:
            if recipe.commented(number):
                continue
            for version in re.findall(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])", line):
                if version in locked:
                    yield recipe.at(number, f"{version} is the locked version of {locked[version]}")
            if typed := _typed_spec(recipe, line):
                yield recipe.at(number, f"{typed!r} types a version of the toolkit")


def _typed_spec(recipe: RecipeFile, line: str) -> str:
    """The spec of a component in a line, with a version as text; "" if there is none.

    A recipe without builds for each toolkit may bound components of others, but not cuda-version.
    """
    text = re.sub(r"<0a0|\.0a0", "", EXPRESSION.sub("", line))
    found = _TYPED.search(text)
    if not found:
        return ""
    is_cuda_version = found[0].startswith("cuda-version ")
    is_of_toolkit = "cuda_version" in recipe.recipe.names_used
    return found[0] if is_cuda_version or is_of_toolkit else ""


@check(
    Tree,
    fix=(
        "write >=${{ cuda_major }},<${{ next_major }}, or pin_subpackage('NAME', upper_bound='x'),"
        " or the reason"
    ),
)
def PinsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """A dependency of a package for a CUDA major, and each run export, spans that major.

    It allows every later minor of the major. A run export also has a lower bound, since older
    libraries lack symbols. A comment above the line allows exceptions. Each bound is a number.
    """
    ctk_builds = [build for build in tree.builds if build.lock.startswith("cuda-")]
    toolkit = {output.name for build in ctk_builds for output in build.outputs}
    seen: set[tuple[str, str, str]] = set()
    for build in tree.builds:
        recipe = tree.recipes[build.recipe.name]
        is_for_major = "cuda_major" in build.recipe.names_used
        for output in build.outputs:
            exports = [spec for kind in _EXPORTS for spec in output.run_exports.get(kind, ())]
            depends = output.depends if is_for_major else ()
            for spec in (*exports, *depends):
                key = (recipe.name, output.name, spec)
                if key in seen:
                    continue
                seen.add(key)
                bound = _bound_without_number(spec)
                if not bound and spec.split()[0] not in toolkit:
                    continue
                problem = _problem_of_pin(spec, output, is_export=spec in exports)
                lines = _lines_of_pin(recipe, spec, bound) if problem else []
                if problem and not any(map(recipe.commented, lines)):
                    place = recipe.first(lines, output.name)
                    yield recipe.at(place, f"{output.name} takes {spec}, {problem}")


def _bound_without_number(spec: str) -> str:
    """The first bound of a requirement that begins with no digit; "" if all do."""
    bound = re.search(r"[<>](?!=?\d)=?([^, ]+)", spec)
    return bound[1] if bound else ""


def _problem_of_pin(spec: str, output: Rendered, *, is_export: bool) -> str:
    """What is wrong with the bounds of a requirement or run export; "" if nothing is."""
    if bound := _bound_without_number(spec):
        return f"and the bound {bound} is not a number"
    # A noarch package that exports itself has no library, and so no SONAME.
    exports_itself = output.noarch and spec.split()[0] == output.name
    if is_export and not exports_itself and not _is_bounded(spec):
        return "without bounds on both sides"
    if not _spans(spec):
        return "and no later minor of that major"
    return ""


def _lines_of_pin(recipe: RecipeFile, spec: str, bound: str) -> list[int]:
    """The lines of a recipe that may be a requirement: they have its name and its bound."""
    pattern = re.compile(rf"(- |[\"'\[]){re.escape(spec.split()[0])}[ \"']")
    return [number for number, line in recipe.code if pattern.search(line) and bound in line]


@check(
    Tree,
    fix="write cuda-version ${{ cuda_range }} ${{ cuda_fit }}_* in run, or the reason in a comment",
)
def BuildsAreNativeAndCompat(tree: Tree) -> Iterator[Finding]:
    """A package that depends on cuda-version has a native and a compat build.

    So clients pick one for the driver. A package that ends in -files serves both.
    """
    for _, recipe, output in _outputs(tree):
        ties = [spec for spec in output.depends if spec.split()[0] == "cuda-version"]
        has_fit = any(re.search(r" (native|compat)_\*$", tie) for tie in ties)
        if not ties or has_fit or output.name.endswith("-files"):
            continue
        lines = recipe.lines_with("cuda-version ")
        if not any(map(recipe.commented, lines)):
            message = f"{output.name} takes {ties[0]}, so it has one build for all drivers"
            yield recipe.at(recipe.first(lines, output.name), message)


@check(
    Tree,
    fix=("write NAME * ${{ twins }} in run_constraints, the NAME of the package without -files"),
)
def FilesHaveOneOwner(tree: Tree) -> Iterator[Finding]:
    """A -files package constrains the builds of the package that its files are for.

    A build of another channel has the same files. With flexible priority, a later command may
    put it in the place of ours, and keep our files.
    """
    for _, recipe, output in _outputs(tree):
        owner = output.name.removesuffix("-files")
        if owner == output.name:
            continue
        specs = [spec.split() for spec in output.constrains]
        has_build = (spec[0] == owner and len(spec) == 3 for spec in specs)
        if not any(has_build):
            message = f"{output.name} can be installed with every build of {owner}"
            yield recipe.at(recipe.output_line(output.name), message)


@check(
    Tree,
    fix=(
        "correct the name; or write the package, of conda-forge, into"
        " scripts/ctk/solve/universe.yaml"
    ),
)
def DependenciesExist(tree: Tree) -> Iterator[Finding]:
    """A dependency is a package of this set, or one of conda-forge that `ctk verify` knows.

    These are in its stand-in for conda-forge.
    """
    if tree.unplanned:
        return  # what does not render makes packages, too
    made = {output.name for build in tree.builds for output in build.outputs}
    known = made | universe_names()
    for _, recipe, output in _outputs(tree):
        for name in {spec.split()[0] for spec in output.depends} - known:
            if name.startswith("__"):
                continue
            meant = nearest(name, known)
            advice = ", which nobody makes that is known here"
            if meant:
                advice = f"; did you mean {listing(meant, 'or')}?"
            lines = recipe.lines_with(rf"- {re.escape(name)}\b")
            place = recipe.first(lines, output.name)
            yield recipe.at(place, f"{output.name} takes {name}{advice}")


def _is_bounded(spec: str) -> bool:
    """Whether a requirement has a lower and an upper bound, as a version, ``=`` and ``==`` have."""
    versions = str(match_spec(spec).version or "*")
    if versions[0] not in "<>*":
        return True
    return ">" in versions and "<" in versions


def _spans(spec: str) -> bool:
    """Whether a requirement that allows a version of a major allows every later one of it."""
    try:
        versions = match_spec(spec).version
    except InvalidMatchSpecError:
        return True  # the audit finds invalid requirements
    if versions is None:
        return True
    takes = VersionSpec(versions).matches
    named = re.findall(r"\d+(?:\.\d+)*", str(versions))
    first_of_majors = [f"{number.split('.')[0]}.0" for number in named]
    numbers = named + first_of_majors
    taken = [number for number in numbers if takes(Version(number))]
    majors = {number.split(".")[0] for number in taken}
    return all(takes(Version(f"{major}.9999")) for major in majors)


@check(
    Tree,
    fix=(
        "write about: {license: NAME}, as the artefact, with a condition on cuda_version if it"
        " changed"
    ),
)
def LicenceIsTheArtefacts(tree: Tree) -> Iterator[Finding]:
    """The licence of a package is that of its artefact.

    It is not proprietary for an open artefact, and not the reverse.
    """
    # A text that some wheel declares as open is open, since NVIDIA's declarations of the same text
    # changed.
    known = [component for lock in tree.locks.values() for component in lock.components.values()]
    declared_open = [c for c in known if "nvidia" not in c.license.lower()]
    is_open = {text for c in declared_open for text in c.license_texts} | _OPEN.keys()
    wrong: dict[tuple[str, str, str, str], str] = {}
    for build in tree.builds:
        for component in _components_of(build, tree.locks[build.lock]):
            open_texts = [text in is_open for text in component.license_texts]
            for output in build.outputs:
                if not _fits(output.license, component.license, open_texts):
                    key = (build.recipe.name, output.license, component.name, component.license)
                    wrong.setdefault(key, f"{output.name} of {build.lock}")
    for (name, stated, component_name, declared), package in wrong.items():
        recipe = tree.recipes[name]
        lines = recipe.lines_with(r"\blicense: ")
        message = (
            f"{package} is under {stated or 'no licence'}, and {component_name} declares {declared}"
        )
        yield recipe.at(lines[0] if lines else 1, message)


def _components_of(build: Build, lock: ReleaseLock) -> list[Component]:
    """The components of a release that a build has files of, each once.

    Of some it has only what is made of their names.
    """
    read = {
        (source.component, source.target)
        for output in build.outputs
        for source in output.sources
        if not source.made
    }
    found = {}
    for artefact in build.artefacts:
        if (artefact.component, artefact.target) not in read:
            continue
        component = lock.component_of(artefact.component, artefact.version)
        if component:
            found[component.name] = component
    return list(found.values())


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether the licence of a package fits that of its artefact.

    `open_texts` has a value for each licence text.
    """
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)
