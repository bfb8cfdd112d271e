"""Every recipe as a feedstock of its own: conda-smithy's rules hold, and rattler-build renders the same packages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from smithy_rules import Feedstock, broken

from ctk.feedstock import feedstock
from ctk.lock import Artefact
from ctk.paths import Workspace
from ctk.plan import Plan, Request, plan
from ctk.platforms import PLATFORMS
from ctk.project import published_set, python_tags
from ctk.recipes import Recipe, find_recipes, render

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(find_recipes(ROOT / "recipes"))
EACH = pytest.mark.parametrize("name", NAMES)
# What these feedstocks are: NVIDIA's binaries in the layout of conda packages. There is no source to build.
WHEELS = {"R-028", "R-029"}
# Of conda-smithy's published model of the file: the keys, and the values of those that the repository uses.
SETTINGS = {
    "conda_build_tool": {"rattler-build"},
    "provider": {"github_actions", "azure", "default", "native", "emulated", "None"},
    "build_platform": {s.replace("-", "_") for s in PLATFORMS},
    "noarch_platforms": {s.replace("-", "_") for s in PLATFORMS},
    "test": {"all", "native", "native_and_emulated"},
    "linter": {"lint_noarch_selectors", "hint_os_version", "hint_pip_no_build_backend", "hint_python_min"},
    "exclusive_config_file": {"recipe/conda_build_config.yaml"},
}


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
    return plan(published_set(workspace), request, python_tags(workspace.build_config))


def read(text: str) -> Any:
    return YAML(typ="safe").load(text)


def as_checked(files: dict[str, str]) -> Feedstock:
    text = files["recipe/recipe.yaml"]
    return Feedstock(text, read(text), read(files["conda-forge.yml"]))


@EACH
def test_a_feedstock_breaks_no_rule_of_conda_smithy(name: str) -> None:
    found = broken(as_checked(exported(name)))
    assert {identifier: lines for identifier, lines in found.items() if identifier not in WHEELS} == {}


@pytest.mark.parametrize(
    ("identifier", "name", "old", "new"),
    [
        ("R-000", "cuda-cudart", "\nextra:", "\nmore: 1\nextra:"),
        ("R-001", "cuda-cudart", "\nrecipe:", "\nabout: {}\nrecipe:"),
        ("R-002", "cuda-version", "  homepage:", "  home:"),
        ("R-003", "cuda-cudart", "recipe-maintainers:\n    - someone", "feedstock-name: x"),
        ("R-004", "cuda-cudart", "recipe-maintainers:\n    - someone", "recipe-maintainers: someone"),
        ("R-005", "cuda-version", "\ntests:\n  - package", "\ntests: []\nhidden:\n  - package"),
        ("R-008", "cuda-cudart", "  number:", "  nummer:"),
        ("R-009", "cuda-core", "      build:\n        - patchelf", "      run: []\n      build:\n        - patchelf"),
        ("R-010", "cuda-core", "license: Apache-2.0", "license: Apache License"),
        ("R-011", "cuda-core", "    - someone\n", "    - someone\n\n"),
        ("R-013", "cuda-arch", "  license_file: LICENSE.txt\n", ""),
        ("R-014", "cuda-core", "name: cuda-core", "name: CUDA-core"),
        ("R-019", "cuda-cudart", "sha256:", "sha257:"),
        ("R-020", "cuda-arch", "noarch: generic", "noarch: all"),
        ("R-021", "cuda-core", "cuda-pathfinder >=1", "cuda-pathfinder >= 1"),
        ("R-026", "cuda-pathfinder", "python >=3.11\n    #", "python\n    #"),
        ("R-027", "cuda-cudart", 'pin_subpackage("cuda-cudart",', 'pin_subpackage("cuda-cudaart",'),
        ("R-033", "cuda-core", "- patchelf >=0.17", '- ${{ compiler("c") }}'),
        ("R-040", "cuda-arch", "version: ${{ cuda_arch }}\n\n", "version: 1.0\n\n"),
        ("R1-002", "cuda-arch", "    # At least", "    - if: linux\n      then: a\n    # At least"),
    ],
)
def test_a_broken_rule_is_seen(identifier: str, name: str, old: str, new: str) -> None:
    files = dict(exported(name))
    assert old in files["recipe/recipe.yaml"]
    files["recipe/recipe.yaml"] = files["recipe/recipe.yaml"].replace(old, new)
    text = files["recipe/recipe.yaml"]
    yaml = YAML(typ="safe")
    yaml.allow_duplicate_keys = True
    assert identifier in broken(Feedstock(text, yaml.load(text), read(files["conda-forge.yml"])))


def test_what_is_excepted_is_what_these_feedstocks_are() -> None:
    assert set(broken(as_checked(exported("cuda-cudart")))) == {"R-028"}
    assert set(broken(as_checked(exported("cuda-version")))) == set()


def test_a_rule_is_skipped_by_no_recipe_that_keeps_it() -> None:
    for name in NAMES:
        own = ROOT / "recipes" / name / "conda-forge.yml"
        if own.exists():
            files = {**exported(name), "conda-forge.yml": "{}"}
            assert "R1-002" in broken(as_checked(files)), name


@EACH
def test_settings_are_of_conda_smithys_model(name: str) -> None:
    found = read(exported(name)["conda-forge.yml"])
    for key, value in found.items():
        values = list(value.values()) if isinstance(value, dict) else [value]
        assert {v for x in values for v in (x if isinstance(x, list) else [x])} <= SETTINGS[key], key


def test_every_platform_has_a_machine_that_builds_it(project: Workspace) -> None:
    found = read((project.root / "conda-forge.yml").read_text())
    for subdir in PLATFORMS:
        platform = subdir.replace("-", "_")
        assert found["build_platform"].get(platform, platform) in found["provider"]


@EACH
def test_a_feedstock_renders_the_packages_of_the_plan(name: str, tmp_path: Path) -> None:
    """Down to the hash. What lacks a wheel is rendered too, as the Python API heeds no `skip` beside `outputs`."""
    for path, text in exported(name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    settings = read(exported(name)["conda-forge.yml"])
    subdirs = ["linux-64", *(p.replace("_", "-") for p in settings.get("build_platform", ()))]
    planned = {(o.subdir, o.file_name): o for b in plan_of(name).builds for o in b.outputs}
    recipe = Recipe(name, tmp_path / "recipe")
    found = [o for s in subdirs for o in render(recipe, [tmp_path / "recipe" / "conda_build_config.yaml"], s)]
    rendered = {(o.subdir, o.file_name): o for o in found}
    assert planned.keys() <= rendered.keys()
    for key, output in planned.items():
        other = rendered[key]
        assert (output.depends, output.constrains) == (other.depends, other.constrains)
        assert output.run_exports == other.run_exports
    skips = re.findall(r'- target_platform == "(.+?)"(?: and (\w+) (?:==|in) (.+))?', recipe.file.read_text())
    for key in rendered.keys() - planned.keys():
        variant = rendered[key].variant
        assert any(
            subdir == key[0] and (not name or f'"{variant[name]}"' in values) for subdir, name, values in skips
        ), key


@EACH
def test_every_variant_has_its_own_sources(name: str) -> None:
    """The conditions on sources leave exactly the artefacts that the plan reads, each with its hash."""
    wanted = {(address(a), a.sha256) for a in plan_of(name).artefacts}
    text = exported(name)["recipe/recipe.yaml"]
    assert set(re.findall(r"url: (\S+)\n\s+sha256: (\S+)", text)) == wanted
    assert ".cache" not in text and "../common" not in text
