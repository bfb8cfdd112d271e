"""Checks of recipes for the rules of this set.

Conda-smithy's linter has the rules of all feedstocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rattler import Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.core.console import listing
from ctk.core.errors import nearest
from ctk.lint.tree import EXPRESSION, RecipeFile, Tree
from ctk.package.records import match_spec
from ctk.plan.plan import Build
from ctk.plan.recipes import Rendered
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
    """Every recipe renders for each of its releases and platforms, and its artefacts are in
    a lock.
    """
    _ = tree.builds
    for name, cause in tree.unplanned.items():
        recipe, place = (
            tree.recipes[name],
            re.search(r"recipe\.yaml:(\d+)| reads \S+ (\S+),", cause),
        )
        lines = [
            n
            for n, line in recipe.code()
            if place and (place[1] == str(n) or (place[2] and place[2] in line))
        ]
        yield recipe.at(next(iter(lines), 1), " ".join(cause.split())[:300])


def _outputs(tree: Tree) -> Iterator[tuple[Build, RecipeFile, Rendered]]:
    """The outputs of all builds, each name of a recipe once, with a build and the recipe."""
    seen: set[tuple[str, str]] = set()
    for build in tree.builds:
        for output in build.outputs:
            if (key := (build.recipe.name, output.name)) not in seen:
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
    """A -dev package of a library has run exports, so that packages linked against the library
    depend on it.
    """
    for build, recipe, output in _outputs(tree):
        full = {
            o.name.removesuffix("-files")
            for o in build.outputs
            if o.files or "**" not in o.left_files
        }
        match = re.search(r"-dev(?=$|_)", output.name)
        if (
            match
            and output.name[: match.start()] in full
            and not any(map(output.run_exports.get, _EXPORTS))
        ):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has no run exports")


@check(Tree, fix="remove run_exports")
def StaticHasNoRunExports(tree: Tree) -> Iterator[Finding]:
    """A -static package has no run exports: packages linked against it contain its code, and need
    nothing to run.
    """
    for _, recipe, output in _outputs(tree):
        if any(output.run_exports.values()) and re.search(r"-static(?=$|_)", output.name):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} has run exports")


@check(Tree, fix="write build: {noarch: generic}")
def HalvesAreNoarch(tree: Tree) -> Iterator[Finding]:
    """A -dev or -static package with a platform in its name is noarch: generic, for compilers on
    other platforms.
    """
    for build, recipe, output in _outputs(tree):
        if (
            re.search(rf"-(dev|static)_{build.subdir}(-files)?$", output.name)
            and output.noarch != "generic"
        ):
            yield recipe.at(recipe.output_line(output.name), f"{output.name} is not noarch")


@check(
    RecipeFile,
    fix="write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip",
)
def SourcesAreArtefacts(recipe: RecipeFile) -> Iterator[Finding]:
    """A source is an artefact in the cache, by component, version and platform, and not a URL, git
    or a hash.
    """
    for number, line in recipe.code():
        if match := re.search(
            r"\b(url|git|sha256|md5|path): +(?![\"']?\.\./\.\./\.cache/artefacts/)\S+", line
        ):
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
        c.version: f"{c.name} in {lock.name}"
        for lock in tree.locks.values()
        for c in lock.components.values()
    }
    for recipe in tree.recipes.values():
        for number, line in recipe.code():
            for version in re.findall(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])", line):
                if version in locked and not recipe.commented(number):
                    yield recipe.at(number, f"{version} is the locked version of {locked[version]}")
            typed = _TYPED.search(re.sub(r"<0a0|\.0a0", "", EXPRESSION.sub("", line)))
            ours = typed and (
                typed[0].startswith("cuda-version ") or "cuda_version" in recipe.recipe.names_used
            )
            if typed and ours and not recipe.commented(number):
                yield recipe.at(number, f"{typed[0]!r} types a version of the toolkit")


@check(
    Tree,
    fix=(
        "write >=${{ cuda_major }},<${{ next_major }}, or pin_subpackage('NAME', upper_bound='x'),"
        " or the reason"
    ),
)
def PinsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """A dependency of a package for a CUDA major, and each run export, allows every later minor of
    that major.

    A run export also has a lower bound, since older libraries lack symbols. A comment above the
    line allows exceptions. Each bound is a number.
    """
    toolkit = {
        o.name for build in tree.builds if build.lock.startswith("cuda-") for o in build.outputs
    }
    seen: set[tuple[str, str, str]] = set()
    for build in tree.builds:
        recipe = tree.recipes[build.recipe.name]
        for output in build.outputs:
            exports = [s for kind in _EXPORTS for s in output.run_exports.get(kind, ())]
            for spec in (
                *exports,
                *(output.depends if "cuda_major" in build.recipe.names_used else ()),
            ):
                name = spec.split()[0]
                key = (recipe.name, output.name, spec)
                no_number = re.search(r"[<>](?!=?\d)=?([^, ]+)", spec)
                if not (name in toolkit or no_number) or key in seen:
                    continue
                seen.add(key)
                # A noarch package that exports itself has no library, and so no SONAME.
                is_open = (
                    spec in exports
                    and not (output.noarch and name == output.name)
                    and not _is_bounded(spec)
                )
                if no_number or is_open or not _spans(spec):
                    pattern = re.compile(rf"(- |[\"'\[]){re.escape(name)}[ \"']")
                    bound = no_number[1] if no_number else ""
                    lines = [
                        n for n, line in recipe.code() if pattern.search(line) and bound in line
                    ]
                    if not any(map(recipe.commented, lines)):
                        problem = (
                            "without bounds on both sides"
                            if is_open
                            else "and no later minor of that major"
                        )
                        problem = f"and the bound {bound} is no number" if bound else problem
                        yield recipe.at(
                            recipe.first(lines, output.name),
                            f"{output.name} takes {spec}, {problem}",
                        )


@check(
    Tree,
    fix="write cuda-version ${{ cuda_range }} ${{ cuda_fit }}_* in run, or the reason in a comment",
)
def TieHasAFit(tree: Tree) -> Iterator[Finding]:
    """What depends on cuda-version has a native and a compat build, so that clients pick one for
    the driver.

    A package that ends in -files serves both.
    """
    for _, recipe, output in _outputs(tree):
        ties = [spec for spec in output.depends if spec.split()[0] == "cuda-version"]
        if (
            ties
            and not output.name.endswith("-files")
            and not re.search(r" (native|compat)_\*(\n|$)", "\n".join(ties))
        ):
            lines = [number for number, line in recipe.code() if "cuda-version " in line]
            if not any(map(recipe.commented, lines)):
                message = f"{output.name} takes {ties[0]}, so it has one build for all drivers"
                yield recipe.at(recipe.first(lines, output.name), message)


@check(
    Tree,
    fix=(
        "correct the name; or write the package, of conda-forge, into"
        " scripts/ctk/solve/universe.yaml"
    ),
)
def DependenciesExist(tree: Tree) -> Iterator[Finding]:
    """A dependency is a package of this set, or one of conda-forge that `ctk verify` has in its
    stand-in for it.
    """
    known = {output.name for build in tree.builds for output in build.outputs} | universe_names()
    for _, recipe, output in (
        () if tree.unplanned else _outputs(tree)
    ):  # what does not render makes packages, too
        for name in {spec.split()[0] for spec in output.depends} - known:
            if not name.startswith("__"):
                lines = [
                    n for n, line in recipe.code() if re.search(rf"- {re.escape(name)}\b", line)
                ]
                meant = listing(nearest(name, known, cutoff=0.75), "or")
                what = (
                    f"; did you mean {meant}?"
                    if meant != "none"
                    else ", which nobody makes that is known here"
                )
                yield recipe.at(
                    recipe.first(lines, output.name), f"{output.name} takes {name}{what}"
                )


def _is_bounded(spec: str) -> bool:
    """Whether a requirement has a lower and an upper bound, as a version alone, ``=`` and ``==``
    have.
    """
    versions = str(match_spec(spec).version or "*")
    return versions[0] not in "<>*" or (">" in versions and "<" in versions)


def _spans(spec: str) -> bool:
    """Whether a requirement that allows a version of a major allows every later version of that
    major.
    """
    try:
        versions = match_spec(spec).version
    except InvalidMatchSpecError:
        return True  # the audit finds invalid requirements
    if versions is None:
        return True
    takes = VersionSpec(versions).matches
    named = re.findall(r"\d+(?:\.\d+)*", str(versions))
    taken = {
        number.split(".")[0]
        for number in (*named, *(f"{n.split('.')[0]}.0" for n in named))
        if takes(Version(number))
    }
    return all(takes(Version(f"{major}.9999")) for major in taken)


@check(
    Tree,
    fix=(
        "write about: {license: NAME}, as the artefact, with a condition on cuda_version if it"
        " changed"
    ),
)
def LicenceIsTheArtefacts(tree: Tree) -> Iterator[Finding]:
    """The licence of a package is that of its artefact: not proprietary for an open artefact, and
    not the reverse.
    """
    # A text that some wheel declares as open is open, since NVIDIA's declarations of the same text
    # changed.
    known = [component for lock in tree.locks.values() for component in lock.components.values()]
    is_open = {
        text for c in known if "nvidia" not in c.license.lower() for text in c.license_texts
    } | _OPEN.keys()
    wrong: dict[tuple[str, str, str, str], str] = {}
    for build in tree.builds:
        lock = tree.locks[build.lock]
        made = {
            c.name: c for a in build.artefacts if (c := lock.component_of(a.component, a.version))
        }
        for component in made.values():
            declared, texts = (
                component.license,
                [text in is_open for text in component.license_texts],
            )
            for output in build.outputs:
                if not _fits(output.license, declared, texts):
                    key = (build.recipe.name, output.license, component.name, declared)
                    wrong.setdefault(key, f"{output.name} of {build.lock}")
    for (name, stated, component_name, declared), package in wrong.items():
        recipe = tree.recipes[name]
        line = next((n for n, text in recipe.code() if re.search(r"\blicense: ", text)), 1)
        message = (
            f"{package} is under {stated or 'no licence'}, and {component_name} declares {declared}"
        )
        yield recipe.at(line, message)


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether the licence of a package fits that of its artefact.

    `open_texts` has a value for each licence text.
    """
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)
