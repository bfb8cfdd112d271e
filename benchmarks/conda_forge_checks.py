"""Runs the path checks of conda-forge's feedstocks on our packages, and lists those that fail.

A check is a line of a feedstock's tests, such as ``test -f $PREFIX/lib/libcublas.so`` or ``if not
exist %LIBRARY_LIB%\\x64\\cublas.lib exit 1``. The packages are those that recipes and locks will
make of one release (no build is needed), and the version in a check is ours of the same minor. A
check that a file exists passes if a package of the release and platform has it; a check that none
exists is about the package itself. Last are the outputs of the feedstocks that are neither packages
here nor in a table of docs/recipe-authors.md. Give the git folders of the feedstocks. Example:
.venv/bin/python benchmarks/conda_forge_checks.py 13.2 CLONES/*-feedstock
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import jinja2
from ruamel.yaml import YAML

from ctk.audit.planned import planned_scans
from ctk.core.checkout import Workspace, git, workspace
from ctk.core.document import as_list
from ctk.core.platforms import NOARCH
from ctk.lock import contents
from ctk.lock.contents import LEFT_OUT
from ctk.plan.plan import Request, plan, published_set, python_tags, small

SUBDIRS = ("linux-64", "linux-aarch64", "win-64")
COMPILERS = {"c": "gcc", "cxx": "gxx", "cuda": "cuda-nvcc"}
_SELECTOR = re.compile(r"(?m)^(.*?)\s+#\s*\[(.+)\]\s*$")
_VERSION = re.compile(r"\{% set version = .*?%\}")
# Folders that conda-build's variables name.
_PLACES = {
    "$PREFIX/": "",
    "${PREFIX}/": "",
    "%PREFIX%/": "",
    "%LIBRARY_PREFIX%/": "Library/",
    "%LIBRARY_BIN%/": "Library/bin/",
    "%LIBRARY_INC%/": "Library/include/",
    "%LIBRARY_LIB%/": "Library/lib/",
    "%SCRIPTS%/": "Scripts/",
}
_THERE = re.compile(r"^(?:test -[fLedhsx]|if not exist|test -x) +\"?([^\s\"]+)\"?( exit 1)?$")
_NOT_THERE = re.compile(r"^(?:test ! -[fLedhs]|if exist) +\"?([^\s\"]+)\"?( exit 1)?$")


class Absent(jinja2.ChainableUndefined):
    """A name, or a number of a version, that a recipe asks for and does not get."""

    def __int__(self) -> int:  # type: ignore[override]  # jinja2's raises
        return 0


@dataclass(frozen=True)
class Check:
    """A line of a feedstock's tests: a path, and whether a package must have it."""

    output: str
    subdir: str
    path: str
    is_there: bool


def facts_of(subdir: str) -> dict[str, Any]:
    """The names in selectors, with their values on a platform."""
    return defaultdict(
        bool,
        linux=subdir.startswith("linux"),
        unix=subdir.startswith("linux"),
        linux64=subdir == "linux-64",
        aarch64=subdir == "linux-aarch64",
        x86_64=subdir != "linux-aarch64",
        win=subdir == "win-64",
        win64=subdir == "win-64",
        arm_variant_type="sbsa",
        target_platform=subdir,
        cross_target_platform=subdir,
        c_compiler="gcc",
        cxx_compiler="gxx",
        c_stdlib="sysroot",
        mpi="nompi",
        cuda_compiler_version="13.2",
        py=312,
    )


def recipe_of(text: str, subdir: str, version: str) -> Mapping[str, Any]:
    """The meta.yaml of a feedstock on a platform, with another version."""
    facts = facts_of(subdir)
    known = dict(facts)  # the names in selectors come to it below, without a value

    def kept(match: re.Match[str]) -> str:
        return match[1] if eval(match[2], {"__builtins__": {}}, facts) else ""

    text = _SELECTOR.sub(kept, text)
    if version:
        text = _VERSION.sub(f'{{% set version = "{version}" %}}', text, count=1)
    words: dict[str, Any] = {
        "compiler": lambda language: f"{COMPILERS.get(language, language)}_{subdir}",
        "stdlib": lambda language: f"sysroot_{subdir}",
        "pin_subpackage": lambda name, **_: name,
        "pin_compatible": lambda name, **_: name,
        "cdt": lambda name: name,
    }
    environment = jinja2.Environment(undefined=Absent)
    rendered = environment.from_string(text).render(
        **words, **known, os=os, environ={}, load_setup_py_data=dict
    )
    yaml = YAML(typ="safe")
    yaml.allow_duplicate_keys = True
    return yaml.load(rendered) or {}


def checks_of(recipe: Mapping[str, Any], subdir: str) -> Iterator[Check | str]:
    """The path checks of a recipe; of a command of another kind, the command."""
    package = recipe.get("package") or {}
    skip = (recipe.get("build") or {}).get("skip")
    if skip:
        return
    for output in [recipe, *(recipe.get("outputs") or ())]:
        name = str(output.get("name") or package.get("name"))
        if (output.get("build") or {}).get("skip"):
            continue
        for command in as_list((output.get("test") or {}).get("commands")):
            is_for_windows = "%" in str(command)
            if is_for_windows != subdir.startswith("win"):
                continue
            line = str(command).strip().replace("\\\\", "\\").replace("\\", "/")
            for pattern, is_there in ((_THERE, True), (_NOT_THERE, False)):
                if match := pattern.fullmatch(line):
                    path = match[1]
                    for variable, folder in _PLACES.items():
                        path = path.replace(variable, folder)
                    yield Check(name, subdir, path, is_there)
                    break
            else:
                yield line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("release", help="a locked CTK minor: that of the feedstocks")
    parser.add_argument("feedstocks", nargs="+", type=Path, help="git folders")
    given = parser.parse_args()
    here = workspace()
    packages, versions = planned(here, given.release)
    results: Counter[str] = Counter()
    failed = []
    for folder in given.feedstocks:
        text = git(folder, "show", "HEAD:recipe/meta.yaml")
        for subdir in SUBDIRS if text else ():
            recipe = recipe_of(text, subdir, version_for(text, versions))
            for check in checks_of(recipe, subdir):
                if isinstance(check, str):
                    results["commands of another kind"] += 1
                    continue
                outcome = judge(check, packages)
                results[outcome] += 1
                if outcome == "failed":
                    failed.append(check)
    total = sum(results[word] for word in ("passed", "failed", "package not here"))
    print(f"{results['passed']} of {total} path checks pass: {dict(results)}")
    for check in failed:
        word = "" if check.is_there else "not "
        print(f"  {check.output} on {check.subdir}: {word}{check.path}")
    said = {name for name, _ in packages} | patterns_of(
        (here.root / "docs/recipe-authors.md").read_text(encoding="utf-8")
    )
    outputs = {name for folder in given.feedstocks for name in outputs_of(folder)}
    unsaid = [n for n in sorted(outputs) if not any(fnmatchcase(n, pattern) for pattern in said)]
    print("outputs that are neither here nor in a table:", *(unsaid or ["none"]))


def version_for(text: str, versions: Mapping[str, str]) -> str:
    """The version of ours that a meta.yaml gets, or ""."""
    named = re.search(r'set name = "([^"]+)"', text)
    names = [named[1]] if named else []
    names += re.findall(r"name: *(\S+)", text)
    return next((versions[name] for name in names if name in versions), "")


def outputs_of(feedstock: Path) -> set[str]:
    """The outputs of a feedstock on our platforms; of a v1 recipe, those that any platform has."""
    if text := git(feedstock, "show", "HEAD:recipe/meta.yaml"):
        return {name for subdir in SUBDIRS for name in outputs_on(recipe_of(text, subdir, ""))}
    recipe = YAML(typ="safe").load(git(feedstock, "show", "HEAD:recipe/recipe.yaml"))
    parts = [recipe, *(recipe.get("outputs") or ())]
    names = [part["package"]["name"] for part in parts if "package" in part]
    environment = jinja2.Environment(variable_start_string="${{")
    context = {key: str(value) for key, value in recipe["context"].items()}
    return {environment.from_string(name).render(context) for name in names}


def outputs_on(recipe: Mapping[str, Any]) -> Iterator[str]:
    """The outputs of a rendered meta.yaml."""
    if (recipe.get("build") or {}).get("skip"):
        return
    for output in recipe.get("outputs") or [recipe.get("package") or {}]:
        if not (output.get("build") or {}).get("skip") and output.get("name"):
            yield str(output["name"])


def patterns_of(page: str) -> set[str]:
    """The names and patterns in the first columns of a page's tables."""
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    return names | {name.replace("<subdir>", subdir) for name in names for subdir in SUBDIRS}


Packages = Mapping[tuple[str, str], frozenset[str]]
"""Package and platform -> its paths."""


def planned(here: Workspace, release: str) -> tuple[Packages, Mapping[str, str]]:
    """The files of all packages of a release, and the version of each package."""
    request = Request(releases=[release, "libraries-13"], platforms=SUBDIRS)
    wanted = small(request, here, all_components=True, libraries=True)
    builds = plan(published_set(here), wanted, python_tags(here.build_config))
    scans, _, _ = planned_scans(builds, here, contents.load(here), jobs=2)
    found: dict[tuple[str, str], frozenset[str]] = {}
    versions = {}
    for scan in scans:
        for subdir in SUBDIRS:
            if scan.subdir in (subdir, NOARCH) and scan.target_subdir in (subdir, ""):
                paths = {file.path for file in scan.installed()}
                found[scan.name, subdir] = found.get((scan.name, subdir), frozenset()) | paths
        versions[scan.name] = scan.info.index.version
    return found, versions


def judge(check: Check, packages: Packages) -> str:
    """What becomes of a check."""
    own = packages.get((check.output, check.subdir))
    if own is None:
        return "package not here"
    if not check.is_there:
        return "failed" if any(fnmatchcase(path, check.path) for path in own) else "passed"
    every = [paths for (_, subdir), paths in packages.items() if subdir == check.subdir]
    is_there = any(fnmatchcase(path, check.path) for paths in every for path in paths)
    # The notes of the wheels leave out headers in deep folders: the folder above has others.
    folder = "/".join(check.path.split("/")[:-2])
    is_noted = not LEFT_OUT.fullmatch(check.path)
    has_folder = any(path.startswith(f"{folder}/") for paths in every for path in paths)
    is_folder = any(path.startswith(f"{check.path}/") for paths in every for path in paths)
    return "passed" if is_there or is_folder or (not is_noted and has_folder) else "failed"


if __name__ == "__main__":
    main()
