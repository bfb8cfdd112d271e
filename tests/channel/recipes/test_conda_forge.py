"""The page's table of differences from conda-forge is complete: outputs and run-exports as its
feedstocks have them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from ruamel.yaml import YAML

from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.package.reader import read_info
from ctk.plan.plan import Request, plan, published_set, python_tags, small

SUBDIRS = ("linux-64", "linux-aarch64", "win-64")
PLATFORMS = {
    "all": SUBDIRS,
    "Linux": SUBDIRS[:2],
    "Windows": SUBDIRS[2:],
    **{subdir: (subdir,) for subdir in SUBDIRS},
}
NONE = "no run-exports"

Outputs = Mapping[str, Mapping[str, str]]
"""Output -> subdir -> the names that it exports."""
Difference = tuple[str, str, str, str]
"""Output, platforms, and what it is here and on conda-forge."""


def theirs() -> Outputs:
    feedstocks = YAML(typ="safe").load(Path(__file__).parent / "conda_forge.yaml").values()
    outputs = ((name, on) for feedstock in feedstocks for name, on in feedstock["outputs"].items())
    return {
        name: {s: exports for word, exports in on.items() for s in PLATFORMS[word]}
        for name, on in outputs
    }


def ours(project: Workspace, known: Iterable[str]) -> Outputs:
    """Of the newest CTK release and the libraries of its major, the outputs of recipes that make a
    known one.
    """
    published = published_set(project)
    newest = next(
        release for release in reversed(published.locks) if release.startswith("cuda-")
    ).removeprefix("cuda-")
    request = Request(releases=[newest, "libraries-13"], platforms=SUBDIRS)
    wanted = small(request, project, all_components=True, libraries=True)
    made: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for build in plan(published, wanted, python_tags(project.build_config)).builds:
        for output in build.outputs:
            exports = {
                f"{kind} {spec.split()[0]}": None
                for kind, specs in output.run_exports.items()
                for spec in specs
            }
            name = output.name.replace(f"_{build.subdir}", "_SUBDIR")
            on = SUBDIRS if build.place == "noarch" else (build.subdir,)
            made[build.recipe.name][name] |= dict.fromkeys(on, ", ".join(sorted(exports)))
    names = set(known)
    return {
        name: on
        for outputs in made.values()
        if names & outputs.keys()
        for name, on in outputs.items()
    }


def differences(here: Outputs, there: Outputs) -> Iterator[Difference]:
    for name in here.keys() | there.keys():
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for subdir in SUBDIRS:
            one, other = (outputs.get(name, {}).get(subdir) for outputs in (here, there))
            if one is None or other is None:
                pair = "no" if one is None else "yes", "no" if other is None else "yes"
            else:
                pair = one or NONE, other or NONE
            found[pair].append(subdir)
        for (one, other), subdirs in found.items():
            if one != other:
                place = next(word for word, on in PLATFORMS.items() if on == tuple(subdirs))
                yield name.replace("_SUBDIR", "_<subdir>"), place, one, other


def table(project: Workspace) -> list[tuple[list[str], str, str, str]]:
    """The rows of the page: names or patterns of outputs, platforms, here, conda-forge."""
    page = (project.root / "docs" / "recipe-authors.md").read_text(encoding="utf-8")
    section = page.partition("\n### Differences from conda-forge\n")[2].partition("\n### ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if "|" in line
    ][2:]
    return [(re.findall(r"`([^`]+)`", row[0]), row[1], row[2], row[3]) for row in rows]


def test_the_page_has_every_difference_from_conda_forge_and_no_other(project: Workspace) -> None:
    there = theirs()
    found = set(differences(ours(project, there), there))
    assert len(found) > 20
    said: set[Difference] = set()
    for patterns, *row in table(project):
        for pattern in patterns:
            met = {d for d in found if fnmatchcase(d[0], pattern) and list(d[1:]) == row}
            assert met, f"no such difference: {pattern} {row}"
            said |= met
    assert sorted(found - said) == []


def test_no_package_has_sources_in_fortran(built: Workspace) -> None:
    """As the page says."""
    packages = sorted(built.channel.resolve().rglob("*.conda"))
    names = [
        f"{package.name}: {entry.path}"
        for package in packages
        for entry in read_info(package).paths
    ]
    assert len(packages) > 100
    assert [name for name in names if "ortran" in name.partition(": ")[2]] == []


def test_files_are_in_the_packages_that_the_page_names(
    built: Workspace, project: Workspace
) -> None:
    """Of those under "Files and versions" that a line says to be in one package."""
    page = (project.root / "docs" / "recipe-authors.md").read_text(encoding="utf-8")
    section = page.partition("\n### Files and versions\n")[2].partition("\n### ")[0]
    said = re.findall(r"\*\*`([^`]+)`\*\*, [^*]*?, is in `([^`]+)`", " ".join(section.split()))
    assert said
    for file, package in said:
        name = package.replace("<subdir>", this_platform())
        made = [read_info(path) for path in built.channel.resolve().rglob(f"{name}-*.conda")]
        assert made, package
        for info in made:
            assert any(entry.path.endswith(f"/{file}") for entry in info.paths), (file, package)
