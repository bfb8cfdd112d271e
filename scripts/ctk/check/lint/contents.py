"""Rules on what packages hold: sources, files, tests, run exports, and the scripts that build or activate them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from ctk.check.framework import Finding, check
from ctk.check.lint.tree import (
    ALONE,
    OURS,
    PUBLIC,
    PUBLISHED,
    RecipeBlock,
    RecipeFile,
    ScriptFile,
    listed,
    mapping,
    recipe_rule,
    text_of,
)

_HASH = re.compile(r"\b[0-9a-f]{32,}\b|\b(sha256|md5)\b|\.whl\b")
_NETWORK = re.compile(r"\b(curl|wget|git (?:clone|fetch|pull)|pip3? (?:install|download)|conda install|apt-get)\b")
_OFFLINE = ("--no-deps", "--no-build-isolation")  # with both, pip installs what lies there
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# The words of a command that removes, up to the next command or a comment.
_REMOVED = re.compile(rf"\brm\s((?:{_QUOTED.pattern}|(?<!\s)#|[^\"'#;&|])*)")
_VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")


@recipe_rule('add tests: package_contents with the files that users depend on, or with not_exists of "**"')
def EveryOutputIsTested(recipe: RecipeFile) -> Iterator[Finding]:
    """Every package has tests (R-005): of one that holds files they name some of them, of one that holds none they say
    so. In the base channel, which is never published, the latter needs none.
    """
    for block in recipe.outputs:
        needless = recipe.home == "base" and _empty(recipe, block)
        if not _says(block.data.get("tests")) and not needless:
            yield recipe.at((*block.place, "package"), f"{block.name or 'the package'} has no tests")


@recipe_rule("add requirements: run_exports with a pin_subpackage of the library", PUBLIC)
def DevHasRunExports(recipe: RecipeFile) -> Iterator[Finding]:
    """A -dev package that brings the library of its recipe has run exports: what was linked against it must get that
    library when it is installed.
    """
    full = {block.name.removesuffix("-files") for block in recipe.outputs if not _empty(recipe, block)}
    for block in recipe.outputs:
        match = re.search(r"-dev(?=$|_)", block.name)
        if match and block.name[: match.start()] in full and not any(block.requirements("run_exports")):
            yield recipe.at((*block.place, "package", "name"), f"{block.name} has no run exports")


@recipe_rule("take run_exports out")
def StaticHasNoRunExports(recipe: RecipeFile) -> Iterator[Finding]:
    """A -static package has no run exports: what was linked against it holds its code, and needs nothing at run."""
    for block in recipe.outputs:
        exports = block.section("requirements").get("run_exports")
        if exports and re.search(r"-static(?=$|_)", block.name):
            yield recipe.at((*block.place, "requirements", "run_exports"), f"{block.name} has run exports")


@recipe_rule("add build: noarch: generic")
def HalvesAreNoarch(recipe: RecipeFile) -> Iterator[Finding]:
    """The half of a -dev or -static package that is named for a platform is noarch: generic, as on conda-forge: it is
    installed on another machine, to compile for that platform.
    """
    for block in recipe.outputs:
        half = re.search(r"-(dev|static)_\$\{\{ target_platform \}\}(-files)?$", block.name)
        if half and recipe.inherited(block, "build").get("noarch") != "generic":
            yield recipe.at((*block.place, "package", "name"), f"{block.name} is not noarch")


@recipe_rule("take it out; ctk release add writes it into the lock", OURS)
def NoHashInRecipes(recipe: RecipeFile) -> Iterator[Finding]:
    """A recipe names no hash and no wheel: the release lock does, which fetch checks."""
    for number, line in enumerate(recipe.lines, 1):
        if match := _HASH.search(line):
            yield recipe.at_line(number, f"{match[0][:16]} belongs into a lock", match.start() + 1)


@recipe_rule("write path: ../../.cache/artefacts/COMPONENT/${{ version }}/${{ target_platform }}.zip", OURS)
def SourcesAreArtefacts(recipe: RecipeFile) -> Iterator[Finding]:
    """A source is an artefact that fetch has checked, by its place in the cache: component, version and platform. No
    address, no git, no other folder.
    """
    for source in (source for block in recipe.blocks for source in block.sources):
        for key in ("url", "git"):
            if key in source.value:
                yield recipe.at((*source.place, key), f"a source is {source.value[key]}")
        path = text_of(source.value.get("path"))
        if path and not path.startswith("../../.cache/artefacts/"):
            yield recipe.at((*source.place, "path"), f"a source is {path}")


@recipe_rule("add sha256", ALONE)
def SourcesHaveAHash(recipe: RecipeFile) -> Iterator[Finding]:
    """In a feedstock that stands alone every address of a source has a sha256 (R-019)."""
    for source in (source for block in recipe.blocks for source in block.sources):
        digest = str(source.value.get("sha256", ""))
        if variable := re.fullmatch(r"\$\{\{\s*(\w+)\s*\}\}", digest):
            digest = str(recipe.context.get(variable[1], ""))
        if "url" in source.value and not re.fullmatch("[0-9a-f]{64}", digest):
            yield recipe.at(source.place, f"{source.value['url']} has no sha256")


@recipe_rule("nothing, where there is no source; else name the source distribution", {"feedstock": "hint"})
def SourcesAreNoWheels(recipe: RecipeFile) -> Iterator[Finding]:
    """conda-forge's feedstocks build from source, not from wheels (R-028; R-029 for pure ones that are not for noarch
    Python). Those that are exported from here do so on purpose: there is no source of NVIDIA's binaries.
    """
    for block in recipe.blocks:
        python = block.section("build").get("noarch") == "python"
        for entry in block.sources:
            for url in map(str, listed(entry.value.get("url"))):
                if url.endswith(".whl") and not (url.endswith("-none-any.whl") and python):
                    yield recipe.at((*entry.place, "url"), f"a source is a wheel: {url.rpartition('/')[2]}")


@recipe_rule("use ../common/layout.sh for the toolkit, ../common/wheel.sh for a Python project", PUBLISHED)
def LayoutIsShared(recipe: RecipeFile) -> Iterator[Finding]:
    """What unpacks an artefact is one of the scripts of recipes/common: they alone know what wheels look like."""
    for block in recipe.blocks:
        script, file = block.script
        if block.sources and script is not None and not file.startswith("../common/"):
            said = f"an artefact is unpacked by {file or 'the recipe itself'}"
            yield recipe.at((*block.place, "build", "script"), said)


@recipe_rule("remove the file, or use it", OURS)
def FolderHoldsNothingElse(recipe: RecipeFile) -> Iterator[Finding]:
    """The folder of a recipe holds the recipe, its conda-forge.yml, and scripts and tests that it uses."""
    used = recipe.text + "".join(script.text for script in recipe.scripts)
    for path in sorted(recipe.folder.iterdir()):
        plain = path.is_file() and (path.name in ("recipe.yaml", "conda-forge.yml") or _named(path.name, used))
        if not plain and not (path.is_dir() and path.name == "tests"):
            yield recipe.at((), f"{path.name} is in its folder, and nothing uses it")


@recipe_rule("write the name right, or add the file")
def ScriptsAreThere(recipe: RecipeFile) -> Iterator[Finding]:
    """A script that a recipe names exists."""
    for block in recipe.blocks:
        _, file = block.script
        if file and "${{" not in file and not os.path.isfile(recipe.folder / file):
            yield recipe.at((*block.place, "build", "script", "file"), f"there is no {file}")


def _named(name: str, text: str) -> bool:
    """Whether a text says the name of a file, or its stem: ``for change in activate`` with ``$change.sh``."""
    stem = name.rpartition(".")[0] or name
    return bool(re.search(rf"(?<![\w-]){re.escape(stem)}(?![\w-])", text))


def _says(value: Any) -> bool:
    """Whether there is anything in lists and mappings but others."""
    if isinstance(value, (dict, list)):
        return any(map(_says, value.values() if isinstance(value, dict) else value))
    return value not in (None, "")


def _empty(recipe: RecipeFile, block: RecipeBlock) -> bool:
    """Whether a package holds no file: none is chosen, or there is nothing to choose from."""
    files = mapping(block.section("build").get("files"))
    build = recipe.inherited(block, "build")
    holds = block.sources or recipe.shared.sources or "inherit" in block.data or "script" in build
    return ("**" in listed(files.get("exclude")) and "include" not in files) or not holds


@check(ScriptFile, fix="write set -euo pipefail below the first comment")
def ScriptIsStrict(script: ScriptFile) -> Iterator[Finding]:
    """A script that builds begins with `#!` and stops at the first command that fails, with an unset variable, and
    within a pipe: set -euo pipefail. Otherwise half a package is built, and nobody sees it.
    """
    if not script.builds or not script.is_shell:
        return
    if not script.text.startswith("#!"):
        yield script.at_line(1, "it does not say what runs it", fix="begin with #!/bin/bash")
    first = next((line for _, line in script.code() if line.strip()), "")
    if not re.match(r"set -euo pipefail\b", first):
        yield script.at_line(1, "it goes on after a command that failed")


@check(ScriptFile, fix="use return, and undo what is set")
def ActivationLeavesTheShell(script: ScriptFile) -> Iterator[Finding]:
    """A script that is sourced when an environment is activated neither ends the user's shell nor changes its options:
    no exit, no set -e.
    """
    if script.builds or not script.is_shell:
        return
    for number, line in script.code():
        if match := re.search(r"(?:^|[;&|]\s*|\bthen\s+)(exit\b|set\s+-[a-z]*[eu])", line.strip()):
            yield script.at_line(number, f"{match[1]} changes the shell of whoever activates")


@check(ScriptFile, fix="mend the line that bash names")
def ScriptParses(script: ScriptFile) -> Iterator[Finding]:
    """bash reads the script without a syntax error."""
    bash = shutil.which("bash")
    if not script.is_shell or script.unreadable or bash is None:
        return
    done = subprocess.run([bash, "-n"], input=script.text, capture_output=True, text=True, check=False)
    for found in re.findall(r"line (\d+): (.*)", done.stderr)[:1] if done.returncode else ():
        yield script.at_line(int(found[0]), found[1])


@check(ScriptFile, fix="lock what it needs, and name it as a source")
def ScriptIsOffline(script: ScriptFile) -> Iterator[Finding]:
    """A script of a recipe takes nothing from a network: what it needs is an artefact that a lock names."""
    for number, line in script.code():
        match = _NETWORK.search(line)
        if match and not all(option in line for option in _OFFLINE):
            yield script.at_line(number, f"{match[1]} asks a network", match.start() + 1)


@check(ScriptFile, fix='write rm -rf "$variable"')
def RemovedPathsAreQuoted(script: ScriptFile) -> Iterator[Finding]:
    """What a script removes is quoted: a variable with a space in it would name two other things, an empty one could
    name everything.
    """
    for number, line in script.code():
        for removed in _REMOVED.finditer(line) if script.is_shell else ():
            plain = _QUOTED.sub(lambda m: " " * len(m[0]), removed[1])
            if match := _VARIABLE.search(plain):
                column = removed.start(1) + match.start() + 1
                yield script.at_line(number, f"{match[0]} is removed without quotes", column)


@check(ScriptFile, fix="write $(command)")
def SubstitutionIsNested(script: ScriptFile) -> Iterator[Finding]:
    """A command's output is taken with $( ), not with backticks, which do not nest and eat backslashes."""
    for number, line in script.code():
        plain = re.sub(r"'[^']*'|\s#.*$", lambda m: " " * len(m[0]), line)
        if script.is_shell and (match := re.search(r"(?<!\\)`[^`]+`", plain)):
            yield script.at_line(number, "a command is in backticks", match.start() + 1)
