"""Every recipe as a feedstock of its own: it keeps the rules, and rattler-build renders the same packages."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conda_build import selector
from ctk.check.lint import CHECKS, lint, tree_of
from ctk.check.lint.releases import SETTINGS
from ctk.check.lint.tree import RecipeFile, SourceFile, YamlFile
from ctk.core.checkout import Workspace
from ctk.feedstock import feedstock
from ctk.lock.lock import Artefact
from ctk.plan.plan import Plan, Request, plan, published_set, python_tags
from ctk.plan.recipes import Recipe, find_recipes, render

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(find_recipes(ROOT / "recipes"))
# One of each kind: for any machine, a Python package, a library, several outputs, Linux only. The sweep has all.
USUAL = ("cuda-arch", "cuda-core", "cuda-cudart", "cuda-nvcc", "libcufile")
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in USUAL else pytest.mark.sweep) for name in NAMES]
)
# What these feedstocks are: NVIDIA's binaries in the layout of conda packages. There is no source to build.
WHEELS = "SourcesAreNoWheels"
CHECKED = [c.name for c in CHECKS if c.subject in (SourceFile, RecipeFile, YamlFile)]


def address(artefact: Artefact) -> str:
    return f"https://index.invalid/{artefact.file}"


@cache
def exported(name: str) -> dict[str, str]:
    return feedstock(Workspace(ROOT), name, (), ("someone",), address)


@cache
def plan_of(name: str) -> Plan:
    """What the repository plans of the releases that the feedstock is for."""
    releases = read(exported(name)["recipe/conda_build_config.yaml"]).get("cuda_version", ())
    workspace = Workspace(ROOT)
    request = Request(releases=releases, recipes=(name,))
    planned = plan(published_set(workspace), request, python_tags(workspace.build_config))
    # An older version of a project, which has it in the build's name, is for another branch.
    return replace(planned, builds=tuple(b for b in planned.builds if not re.search(r"-\d+\.\d+\.\d+-", b.id)))


def read(text: str) -> Any:
    return YAML(typ="safe").load(text)


def found(files: dict[str, str], folder: Path) -> set[str]:
    """The checks that find something in a feedstock."""
    write(files, folder)
    place = folder / "recipe" / "recipe.yaml"
    report = lint(tree_of(Workspace(folder / "no checkout"), [place]), CHECKED, [place])
    return {finding.check for finding in report.findings}


def write(files: dict[str, str], folder: Path) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@EACH
def test_a_feedstock_keeps_the_rules(name: str, tmp_path: Path) -> None:
    files = exported(name)
    assert found(files, tmp_path) <= {WHEELS}
    dropped = [line for line in files["recipe/conda_build_config.yaml"].splitlines() if selector(line)]
    assert not dropped, "conda-build would drop these lines of the variants"
    for key, value in read(files["conda-forge.yml"]).items():
        values = list(value.values()) if isinstance(value, dict) else [value]
        assert {v for x in values for v in (x if isinstance(x, list) else [x])} <= SETTINGS[key], key


def test_the_rules_see_that_sources_are_wheels(tmp_path: Path) -> None:
    assert found(exported("cuda-cudart"), tmp_path / "one") == {WHEELS}
    assert found(exported("cuda-version"), tmp_path / "other") == set()


@EACH
def test_a_feedstock_renders_the_packages_of_the_plan_from_its_artefacts(name: str, tmp_path: Path) -> None:
    """Down to the hash. What lacks a wheel is rendered too, as the Python API heeds no `skip` beside `outputs`."""
    text = exported(name)["recipe/recipe.yaml"]
    sources = {(address(a), a.sha256) for a in plan_of(name).artefacts}
    assert set(re.findall(r"url: (\S+)\n\s+sha256: (\S+)", text)) == sources
    assert ".cache" not in text and "../common" not in text
    write(exported(name), tmp_path)
    settings = read(exported(name)["conda-forge.yml"])
    subdirs = ["linux-64", *(p.replace("_", "-") for p in settings.get("build_platform", ()))]
    planned = {(o.subdir, o.file_name): o for b in plan_of(name).builds for o in b.outputs}
    recipe = Recipe(name, tmp_path / "recipe")
    outputs = [o for s in subdirs for o in render(recipe, [tmp_path / "recipe" / "conda_build_config.yaml"], s)]
    rendered = {(o.subdir, o.file_name): o for o in outputs}
    assert planned.keys() <= rendered.keys()
    for key, output in planned.items():
        other = rendered[key]
        assert (output.depends, output.constrains) == (other.depends, other.constrains)
        assert output.run_exports == other.run_exports
    skips = re.findall(r'- target_platform == "(.+?)"(?: and (\w+) (?:==|in) (.+))?', text)
    for key in rendered.keys() - planned.keys():
        variant = rendered[key].variant
        assert any(subdir == key[0] and (not k or f'"{variant[k]}"' in values) for subdir, k, values in skips), key


@pytest.mark.parametrize("name", ["cuda-arch", "cuda-version"])
def test_a_recipe_that_holds_nothing_of_nvidias_has_this_repositorys_licence(project: Workspace, name: str) -> None:
    """A copy: rattler-build takes no file from above the recipe's folder, and drops links without a word."""
    assert (project.recipes / name / "LICENSE").read_bytes() == (project.root / "LICENSE").read_bytes()
