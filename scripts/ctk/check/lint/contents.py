"""Checks of what a package holds: sources, scripts, tests, run exports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ctk.check.lint.check import ALONE, ALONE_ADVICE, EVERYWHERE, OURS, PUBLIC, PUBLISHED, RecipeCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.recipe import Block, RecipeFile
from ctk.check.lint.source import listed, mapping, text_of

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree

_SUFFIX = re.compile(r"-(dev|static)(?=$|_)")
_HASH = re.compile(r"\b[0-9a-f]{32,}\b|\b(sha256|md5)\b|\.whl\b")


class EveryOutputIsTested(RecipeCheck):
    """Every package has tests (R-005): of one that holds files they name some of them, of one that holds none they say
    so. In the base channel, which is never published, the latter needs none.
    """

    fix = 'add tests: package_contents with the files that users depend on, or with not_exists of "**"'

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            needless = recipe.home == "base" and _empty(recipe, block)
            if not _says(block.data.get("tests")) and not needless:
                yield recipe.problem((*block.place, "package"), f"{block.name or 'the package'} has no tests")


class DevHasRunExports(RecipeCheck):
    """A -dev package that brings the library of its recipe has run exports: what was linked against it must get that
    library when it is installed.
    """

    fix = "add requirements: run_exports with a pin_subpackage of the library"
    homes = PUBLIC

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        full = {block.name.removesuffix("-files") for block in recipe.outputs if not _empty(recipe, block)}
        for block in recipe.outputs:
            match = _SUFFIX.search(block.name)
            library = block.name[: match.start()] if match and match[1] == "dev" else ""
            if library in full and not any(block.requirements("run_exports")):
                yield recipe.problem((*block.place, "package", "name"), f"{block.name} has no run exports")


class StaticHasNoRunExports(RecipeCheck):
    """A -static package has no run exports: what was linked against it holds its code, and needs nothing at run."""

    fix = "take run_exports out"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            match = _SUFFIX.search(block.name)
            if match and match[1] == "static" and block.section("requirements").get("run_exports"):
                place = (*block.place, "requirements", "run_exports")
                yield recipe.problem(place, f"{block.name} has run exports")


class HalvesAreNoarch(RecipeCheck):
    """The half of a -dev or -static package that is named for a platform is noarch: generic, as on conda-forge: it is
    installed on another machine, to compile for that platform.
    """

    fix = "add build: noarch: generic"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.outputs:
            half = re.search(r"-(dev|static)_\$\{\{ target_platform \}\}(-files)?$", block.name)
            if half and recipe.inherited(block, "build").get("noarch") != "generic":
                yield recipe.problem((*block.place, "package", "name"), f"{block.name} is not noarch")


class NoHashInRecipes(RecipeCheck):
    """A recipe names no hash and no wheel: the release lock does, which fetch checks."""

    fix = "take it out; ctk release add writes it into the lock"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for number, line in enumerate(recipe.lines, 1):
            if match := _HASH.search(line):
                yield recipe.line_problem(number, f"{match[0][:16]} belongs into a lock", match.start() + 1)


class SourcesAreArtefacts(RecipeCheck):
    """A source is an artefact that fetch has checked, by its place in the cache: component, version and platform. No
    address, no git, no other folder.
    """

    fix = "write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            for entry in block.sources:
                for key in ("url", "git"):
                    if key in entry.value:
                        yield recipe.problem((*entry.place, key), f"a source is {entry.value[key]}")
                path = text_of(entry.value.get("path"))
                if path and not path.startswith("../../.cache/artefacts/"):
                    yield recipe.problem((*entry.place, "path"), f"a source is {path}")


class SourcesHaveAHash(RecipeCheck):
    """In a feedstock that stands alone every address of a source has a sha256 (R-019)."""

    fix = "add sha256"
    homes = ALONE

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            for entry in block.sources:
                digest = str(entry.value.get("sha256", ""))
                if variable := re.fullmatch(r"\$\{\{\s*(\w+)\s*\}\}", digest):
                    digest = str(recipe.context.get(variable[1], ""))
                if "url" in entry.value and not re.fullmatch("[0-9a-f]{64}", digest):
                    yield recipe.problem(entry.place, f"{entry.value['url']} has no sha256")


class SourcesAreNoWheels(RecipeCheck):
    """conda-forge's feedstocks build from source, not from wheels (R-028; R-029 for pure ones that are not for noarch
    Python). Those that are exported from here do so on purpose: there is no source of NVIDIA's binaries.
    """

    fix = "nothing, where there is no source; else name the source distribution"
    homes = ALONE_ADVICE
    severity = "hint"

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            python = block.section("build").get("noarch") == "python"
            for entry in block.sources:
                for url in map(str, listed(entry.value.get("url"))):
                    if url.endswith(".whl") and not (url.endswith("-none-any.whl") and python):
                        yield recipe.problem((*entry.place, "url"), f"a source is a wheel: {url.rpartition('/')[2]}")


class LayoutIsShared(RecipeCheck):
    """What unpacks an artefact is one of the scripts of recipes/common: they alone know what wheels look like."""

    fix = "use ../common/layout.sh for the toolkit, ../common/wheel.sh for a Python project"
    homes = PUBLISHED

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            script = block.section("build").get("script")
            file = text_of(mapping(script).get("file"))
            if block.sources and script is not None and not file.startswith("../common/"):
                place = (*block.place, "build", "script")
                yield recipe.problem(place, f"an artefact is unpacked by {file or 'the recipe itself'}")


class FolderHoldsNothingElse(RecipeCheck):
    """The folder of a recipe holds the recipe, its conda-forge.yml, and scripts and tests that it uses."""

    fix = "remove the file, or use it"
    homes = OURS

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        used = recipe.text + "".join(script.text for script in tree.scripts_of(recipe))
        for path in sorted(recipe.folder.iterdir()):
            plain = path.is_file() and (path.name in ("recipe.yaml", "conda-forge.yml") or _named(path.name, used))
            if not plain and not (path.is_dir() and path.name == "tests"):
                yield recipe.problem((), f"{path.name} is in its folder, and nothing uses it")


class ScriptsAreThere(RecipeCheck):
    """A script that a recipe names exists."""

    fix = "write the name right, or add the file"
    homes = EVERYWHERE

    def check(self, recipe: RecipeFile, tree: Tree) -> Iterator[Problem]:
        for block in recipe.blocks:
            file = text_of(mapping(block.section("build").get("script")).get("file"))
            if file and "${{" not in file and not os.path.isfile(recipe.folder / file):
                yield recipe.problem((*block.place, "build", "script", "file"), f"there is no {file}")


def _named(name: str, text: str) -> bool:
    """Whether a text says the name of a file, or its stem: ``for change in activate`` with ``$change.sh``."""
    stem = name.rpartition(".")[0] or name
    return bool(re.search(rf"(?<![\w-]){re.escape(stem)}(?![\w-])", text))


def _says(value: Any) -> bool:
    """Whether there is anything in lists and mappings but others."""
    if isinstance(value, (dict, list)):
        return any(map(_says, value.values() if isinstance(value, dict) else value))
    return value not in (None, "")


def _empty(recipe: RecipeFile, block: Block) -> bool:
    """Whether a package holds no file: none is chosen, or there is nothing to choose from."""
    files = mapping(block.section("build").get("files"))
    build = recipe.inherited(block, "build")
    holds = block.sources or recipe.shared.sources or "inherit" in block.data or "script" in build
    return ("**" in listed(files.get("exclude")) and "include" not in files) or not holds
