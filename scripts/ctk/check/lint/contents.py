"""Rules on what packages hold and require, and on the scripts that build or activate them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

from rattler import MatchSpec, Version, VersionSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.check import Finding, check
from ctk.check.lint.tree import (
    ALONE,
    EXPRESSION,
    OURS,
    PUBLIC,
    PUBLISHED,
    RecipeBlock,
    RecipeFile,
    ScriptFile,
    Tree,
    listed,
    mapping,
    recipe_rule,
    text_of,
)
from ctk.core.document import Place
from ctk.plan.plan import Build
from ctk.plan.recipes import Rendered

_HASH = re.compile(r"\b[0-9a-f]{32,}\b|\b(sha256|md5)\b|\.whl\b")
_NETWORK = re.compile(r"\b(curl|wget|git (?:clone|fetch|pull)|pip3? (?:install|download)|conda install|apt-get)\b")
_OFFLINE = ("--no-deps", "--no-build-isolation")  # with both, pip installs what lies there
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
# The words of a command that removes, up to the next command or a comment.
_REMOVED = re.compile(rf"\brm\s((?:{_QUOTED.pattern}|(?<!\s)#|[^\"'#;&|])*)")
_VARIABLE = re.compile(r"\$\w+|\$\{[^}]*\}")


@recipe_rule('add tests: package_contents with the files that users depend on, or with not_exists of "**"')
def EveryOutputIsTested(recipe: RecipeFile) -> Iterator[Finding]:
    """Every package has tests (R-005): of files that it holds, or, outside of the base channel, that it has none."""
    for block in recipe.outputs:
        needless = recipe.home == "base" and _empty(recipe, block)
        if not _says(block.data.get("tests")) and not needless:
            yield recipe.at((*block.place, "package"), f"{block.name or 'the package'} has no tests")


@recipe_rule("add requirements: run_exports with a pin_subpackage of the library", PUBLIC)
def DevHasRunExports(recipe: RecipeFile) -> Iterator[Finding]:
    """A -dev package that brings its recipe's library has run exports: what is linked to it must get that library."""
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
    """The half of a -dev or -static package named for a platform is noarch: generic: other machines compile with it."""
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
    """A source is an artefact that fetch has checked, by component, version and platform: no address, no git."""
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
    """conda-forge's feedstocks build from source, not from wheels (R-028, R-029); NVIDIA's binaries have no source."""
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
    """A script that builds begins with `#!` and set -euo pipefail; else half a package is built, and nobody sees it."""
    if not script.builds or not script.is_shell:
        return
    if not script.text.startswith("#!"):
        yield script.at_line(1, "it does not say what runs it", fix="begin with #!/bin/bash")
    first = next((line for _, line in script.code() if line.strip()), "")
    if not re.match(r"set -euo pipefail\b", first):
        yield script.at_line(1, "it goes on after a command that failed")


@check(ScriptFile, fix="use return, and undo what is set")
def ActivationLeavesTheShell(script: ScriptFile) -> Iterator[Finding]:
    """A script that is sourced at activation neither ends the user's shell nor sets its options: no exit, no set -e."""
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
    """What a script removes is quoted: a variable that has a space or is empty would name something else."""
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
    """A recipe types no version that a lock provides, nor one of a toolkit's component, but bounds such as <0a0."""
    locks = [file.lock for file in recipe.tree.of_home(recipe.tree.locks, recipe.home) if file.lock]
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
    """No recipe types a version of cuda-version, which is a variant, unless a comment says why."""
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


@recipe_rule('write pin_subpackage("NAME", upper_bound="x")', PUBLISHED)
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
