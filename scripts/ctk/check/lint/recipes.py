"""Rules on recipes: what can be wrong in this set alone. conda-smithy's linter has the rules of all feedstocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rattler import MatchSpec, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.check import Finding, check
from ctk.check.lint.tree import (
    EXPRESSION,
    LockFile,
    RecipeBlock,
    RecipeFile,
    Tree,
    YamlFile,
    listed,
    mapping,
    one_line,
    text_of,
)
from ctk.core.document import Place
from ctk.plan.plan import Build
from ctk.plan.recipes import Rendered

_HASH = re.compile(r"\b[0-9a-f]{32,}\b|\b(sha256|md5)\b|\.whl\b")
_OURS = re.compile(r"(lib(nv|cu|npp)|cuda-|numba-cuda|cccl-python)[a-z0-9_-]*")
# Names of packages that are made of a lock's components: no version of these is typed.
_TYPED = re.compile(r"(?:lib(?:nv|cu)|cuda-(?:cudart|nvrtc|nvvm|nvcc|crt|cccl))\S* [^#\n]*\d")
_PROPRIETARY = re.compile(r"nvidia|propriet", re.I)
# Open texts of wheels that declare LicenseRef-NVIDIA-Proprietary.
_OPEN = {"0f0174a6b4e0b33ac26375bf729533075b32f4c51a5b6802a3d742d7dcdc9a76": "BSD-3-Clause, of NCCL"}


@check(YamlFile, fix="mend the line that is named")
def FileIsYaml(file: YamlFile) -> Iterator[Finding]:
    """A file is UTF-8 and YAML with a mapping at its top: no key twice, no anchors, no tags, not nested without end."""
    if file.unreadable:
        yield file.at_line(1, file.unreadable)
    yield from file.at_lines(file.broken)
    if not (file.broken or file.unreadable or isinstance(file.data, dict) or isinstance(file, LockFile)):
        yield file.at_line(1, "the file is no mapping of keys to values")


@check(Tree, fix="mend what rattler-build names")
def RecipesRender(tree: Tree) -> Iterator[Finding]:
    """Every recipe renders for every release and platform that it is for, and reads artefacts that a lock has."""
    _ = tree.builds
    for name, cause in tree.unplanned.items():
        if recipe := tree.recipe(name):
            yield recipe.at((), one_line(cause))


@check(RecipeFile, fix="give it the name that conda-forge's feedstock has")
def NamesAreCondaForges(recipe: RecipeFile) -> Iterator[Finding]:
    """What is made of the toolkit is named as on conda-forge, cuda-<part> or lib<part>-dev: it replaces theirs."""
    for block in recipe.outputs if "cuda_version" in recipe.text else ():
        name = EXPRESSION.sub("PLATFORM", block.name)
        if not re.fullmatch(r"cuda|(cuda-|lib)[a-z0-9-]+(_(PLATFORM|[a-z0-9-]+))?(-files)?", name):
            yield recipe.at((*block.place, "package", "name"), f"{block.name!r} is no name of conda-forge's")


@check(Tree, fix="use it in a recipe, write the component into variants/exclusions.yaml, or take the key out")
def VariantKeysAreUsed(tree: Tree) -> Iterator[Finding]:
    """Each key of a variant file is in an expression or condition of a recipe: else nobody packages the component."""
    excluded = tree.excluded.excluded if tree.excluded else ()
    in_base = [file for file in tree.variants if file.path.parent == tree.workspace.base_recipes]
    for recipes, files in ((tree.recipes, tree.published_variants), (tree.base, in_base)):
        used = {"zip_keys"} | {name for file in recipes if not file.unreadable for name in file.recipe.names_used}
        for file in files if recipes else ():
            lock = file.release if file.release and file.release.is_ctk else None
            left_out = (
                {lock.components[e.component].variant_key for e in excluded if e.applies_to(lock)} if lock else ()
            )
            for key in file.top:
                if key not in used and key not in left_out:
                    yield file.at((key,), f"no recipe uses the key {key}")


@check(RecipeFile, fix="add requirements: run_exports with a pin_subpackage of the library")
def DevHasRunExports(recipe: RecipeFile) -> Iterator[Finding]:
    """A -dev package that brings its recipe's library has run exports: what is linked to it must get that library."""
    full = {block.name.removesuffix("-files") for block in recipe.outputs if not _empty(recipe, block)}
    for block in recipe.outputs:
        match = re.search(r"-dev(?=$|_)", block.name)
        if match and block.name[: match.start()] in full and not any(block.requirements("run_exports")):
            yield recipe.at((*block.place, "package", "name"), f"{block.name} has no run exports")


@check(RecipeFile, fix="take run_exports out")
def StaticHasNoRunExports(recipe: RecipeFile) -> Iterator[Finding]:
    """A -static package has no run exports: what was linked against it holds its code, and needs nothing at run."""
    for block in recipe.outputs:
        exports = block.section("requirements").get("run_exports")
        if exports and re.search(r"-static(?=$|_)", block.name):
            yield recipe.at((*block.place, "requirements", "run_exports"), f"{block.name} has run exports")


@check(RecipeFile, fix="add build: noarch: generic")
def HalvesAreNoarch(recipe: RecipeFile) -> Iterator[Finding]:
    """The half of a -dev or -static package named for a platform is noarch: generic: other machines compile with it."""
    for block in recipe.outputs:
        half = re.search(r"-(dev|static)_\$\{\{ target_platform \}\}(-files)?$", block.name)
        if half and recipe.inherited(block, "build").get("noarch") != "generic":
            yield recipe.at((*block.place, "package", "name"), f"{block.name} is not noarch")


def _empty(recipe: RecipeFile, block: RecipeBlock) -> bool:
    """Whether a package holds no file: none is chosen, or there is nothing to choose from."""
    files = mapping(block.section("build").get("files"))
    build = recipe.inherited(block, "build")
    holds = block.sources or recipe.shared.sources or "inherit" in block.data or "script" in build
    return ("**" in listed(files.get("exclude")) and "include" not in files) or not holds


@check(RecipeFile, fix="take it out; ctk release add writes it into the lock")
def NoHashInRecipes(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe names no hash and no wheel: the release lock does, which fetch checks."""
    for number, line in enumerate(recipe.lines, 1):
        if match := _HASH.search(line):
            yield recipe.at_line(number, f"{match[0][:16]} belongs into a lock", match.start() + 1)


@check(RecipeFile, fix="write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip")
def SourcesAreArtefacts(recipe: RecipeFile) -> Iterator[Finding]:
    """A source is an artefact that fetch has checked, by component, version and platform: no address, no git."""
    for source in (source for block in recipe.blocks for source in block.sources):
        for key in ("url", "git"):
            if key in source.value:
                yield recipe.at((*source.place, key), f"a source is {source.value[key]}")
        path = text_of(source.value.get("path"))
        if path and not path.startswith("../../.cache/artefacts/"):
            yield recipe.at((*source.place, "path"), f"a source is {path}")


@check(Tree, fix="use ../common/layout.sh for the toolkit, ../common/wheel.sh for a Python project")
def LayoutIsShared(tree: Tree) -> Iterator[Finding]:
    """What unpacks an artefact is one of the scripts of recipes/common: they alone know what wheels look like."""
    for recipe in tree.recipes:
        for block in recipe.blocks:
            script, file = block.script
            if block.sources and script is not None and not file.startswith("../common/"):
                said = f"an artefact is unpacked by {file or 'the recipe itself'}"
                yield recipe.at((*block.place, "build", "script"), said)


@check(RecipeFile, fix="use the variant key of the component, such as ${{ cudart }}")
def NoVersionIsTyped(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe types no version that a lock provides, nor one of a toolkit's component, but bounds such as <0a0."""
    locks = [file.lock for file in recipe.tree.locks if file.lock]
    locked = {c.version: f"{c.name} in {lock.name}" for lock in locks for c in lock.components.values()}
    for number, line in enumerate(recipe.lines, 1):
        for match in re.finditer(r"(?<![\w.])\d+(?:\.\d+){2,}(?![\w.])", line):
            if match[0] in locked:
                yield recipe.at_line(number, f"{match[0]} is the locked version of {locked[match[0]]}")
    for entry in recipe.requirements() if "cuda_version" in recipe.text else ():
        plain = EXPRESSION.sub("", entry.value)
        if _TYPED.match(plain) and "<0a0" not in plain:
            yield recipe.at(entry.place, f"{entry.value!r} types a version of a component")


@check(RecipeFile, fix="write cuda-version >=${{ cuda_version }}, or ${{ cuda_major }} for what spans the major")
def CudaVersionIsAVariant(recipe: RecipeFile) -> Iterator[Finding]:
    """No recipe types a version of cuda-version, which is a variant, unless a comment says why."""
    for entry in recipe.requirements():
        plain = EXPRESSION.sub("", entry.value)
        typed = re.match(r"cuda-version\s.*\d", re.sub(r"\.0a0|<0a0", "", plain))
        if typed and not recipe.commented(entry.place):
            yield recipe.at(entry.place, f"{entry.value!r} types a version of cuda-version")


@check(Tree, fix="write >=${{ cuda_major }},<${{ next_major }}, or the reason as a comment above")
def PinsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """A package for a CUDA major takes every toolkit of that major, as CUDA promises, unless a comment says why not."""
    specs = [
        (b, o, s) for b in tree.builds if "cuda_major" in b.recipe.names_used for o in b.outputs for s in o.depends
    ]
    yield from _tight(specs, "run", tree)


@check(Tree, fix='write pin_subpackage("NAME", upper_bound="x"), or the reason as a comment above')
def RunExportsSpanTheMajor(tree: Tree) -> Iterator[Finding]:
    """What is linked against a toolkit runs with later minors of its major, unless a comment says why not."""
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


@check(RecipeFile, fix='write pin_subpackage("NAME", upper_bound="x")')
def ExportsAreBounded(recipe: RecipeFile) -> Iterator[Finding]:
    """A run export has a lower bound, since older libraries lack symbols, and an upper one, as the SONAME changes."""
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


@check(Tree, fix="state the licence of the artefact, with a condition on cuda_version where it changed")
def LicenceIsTheArtefacts(tree: Tree) -> Iterator[Finding]:
    """The licence of a package is what its artefact declares: not proprietary when that is open, nor the reverse."""
    # A text that is declared open somewhere counts for more than NVIDIA's declaration, which changed while it stayed.
    known = [component for lock in tree.locks_by_name.values() for component in lock.components.values()]
    is_open = {text for c in known if "nvidia" not in c.license.lower() for text in c.license_texts} | _OPEN.keys()
    found: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for build in tree.builds:
        lock = tree.locks_by_name[build.lock]
        for component in {
            c.name: c for a in build.artefacts if (c := lock.component_of(a.component, a.version))
        }.values():
            declared, texts = component.license, [text in is_open for text in component.license_texts]
            for output in build.outputs:
                if not _fits(output.license, declared, texts):
                    key = (build.recipe.name, output.license, component.name, declared)
                    found.setdefault(key, {})[f"{output.name} of {build.lock}"] = None
    for (recipe, stated, name, declared), packages in found.items():
        file, first = tree.recipe(recipe), next(iter(packages))
        more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
        said = f"{first}{more} is under {stated or 'no licence'}, and {name} declares {declared}"
        if _PROPRIETARY.search(declared) and _PROPRIETARY.search(stated):
            said += " with a text that others declare open"
        if file is not None:
            yield file.at(("about", "license"), said)


def _fits(stated: str, declared: str, open_texts: list[bool]) -> bool:
    """Whether a package's licence can be that of its artefact, for each of whose texts it is known if it is open."""
    if _PROPRIETARY.search(stated):
        return bool(_PROPRIETARY.search(declared)) and not (open_texts and all(open_texts))
    return not _PROPRIETARY.search(declared) or any(open_texts)
