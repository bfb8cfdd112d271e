"""What holds for every recipe: data comes from release locks, and a recipe is short, declarative and well-formed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import rattler_build
from ruamel.yaml import YAML

from ctk.components import CTK_COMPONENTS
from ctk.lock import release_locks
from ctk.paths import Workspace
from ctk.recipes import Recipe, find_recipes

ROOT = Path(__file__).resolve().parents[2]
RECIPES = find_recipes(ROOT / "recipes")
EACH = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
CTK = {component.name for component in CTK_COMPONENTS}
# What activation scripts are is written, not taken from a wheel.
OWN_FILES = {"cuda-nvcc": {"activation.sh", "activate.sh", "activate.bat", "deactivate.sh", "deactivate.bat"}}
# Names of packages that are made of a lock's components: no version of these is typed.
OURS = re.compile(
    r"^\s*(?:- |then: |else: )?(?:lib(?:nv|cu)|cuda-(?:cudart|nvrtc|nvvm|nvcc|crt|cccl))\S* [^#\n]*\d", re.M
)


@EACH
def test_a_recipe_parses_and_opens_with_its_context(recipe: Recipe) -> None:
    rattler_build.Stage0Recipe.from_file(recipe.file)
    keys = list(_yaml(recipe.file))
    assert keys[0] == "schema_version"
    assert keys[1] == "context"


@EACH
def test_a_recipe_holds_no_hash_and_no_address_of_an_artefact(recipe: Recipe) -> None:
    text = recipe.file.read_text()
    assert not re.search(r"\b[0-9a-f]{32,}\b|sha256|md5|\.whl\b", text)
    for source in re.findall(r"^\s*(?:- )?(?:url|path|git): *(.*)$", text, re.M):
        assert source.startswith("../../.cache/artefacts/"), source


@EACH
def test_a_recipe_types_no_version_of_what_a_lock_provides(recipe: Recipe) -> None:
    text = recipe.file.read_text()
    locked = {c.version for lock in release_locks(Workspace(ROOT)).values() for c in lock.components.values()}
    typed = set(re.findall(r"\b\d+(?:\.\d+){2,}\b", text))
    assert not typed & locked
    if recipe.names_used & CTK:
        pins = [line.strip() for line in OURS.findall(re.sub(r"\$\{\{.*?\}\}", "", text)) if "<0a0" not in line]
        assert not pins


@EACH
def test_an_output_takes_about_sixty_lines(recipe: Recipe) -> None:
    lines = [
        line for line in recipe.file.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert len(lines) < 60 * len(recipe.output_names) + 40


@EACH
def test_components_are_brought_into_the_layout_by_the_shared_script(recipe: Recipe) -> None:
    content = _yaml(recipe.file)
    blocks = [content, *(o for o in content.get("outputs", ()))]
    scripts = {b["build"]["script"]["file"] for b in blocks if "script" in b.get("build", {})}
    own = OWN_FILES.get(recipe.name, set())
    assert all(script.startswith("../common/") or script in own for script in scripts)
    assert {p.name for p in recipe.folder.iterdir()} - {"conda-forge.yml"} == {"recipe.yaml", *own}


@EACH
def test_every_output_has_a_summary_a_licence_and_a_home(recipe: Recipe) -> None:
    content = _yaml(recipe.file)
    for output in content.get("outputs", [content]):
        about = {**content.get("about", {}), **output.get("about", {})}
        assert {"summary", "license", "homepage"} <= set(about)


def test_every_variant_key_is_used_by_a_recipe(project: Workspace) -> None:
    used = {name for recipe in RECIPES.values() for name in recipe.names_used}
    files = [*(path.with_suffix(".yaml") for path in project.variants.glob("*.lock")), project.build_config]
    unused = {f"{file.name}: {key}" for file in files for key in _yaml(file) if key not in used and key != "zip_keys"}
    assert not unused


def test_every_python_project_of_a_lock_is_packaged(project: Workspace) -> None:
    """Those of the CTK releases are counted in tests/variants, by what is really planned."""
    used = {name for recipe in RECIPES.values() for name in recipe.names_used}
    for lock in release_locks(project).values():
        assert lock.is_ctk or {component.variant_key for component in lock.components.values()} <= used


def _yaml(file: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(file))
