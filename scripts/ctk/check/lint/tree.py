"""The files of a checkout as a lint sees them, each read once, and what can be planned of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ctk.check.lint.history import History
from ctk.check.lint.locks import LockFile
from ctk.check.lint.recipe import Home, RecipeFile
from ctk.check.lint.scripts import ScriptFile
from ctk.check.lint.source import SourceFile, YamlFile, listed, mapping, text_of
from ctk.check.lint.variants import VariantFile
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError
from ctk.core.platforms import PLATFORMS
from ctk.lock import exclusions
from ctk.lock.exclusions import Classes
from ctk.lock.lock import ReleaseLock, in_order
from ctk.lock.text import variant_keys
from ctk.plan.dag import Build
from ctk.plan.plan import Request, Set, plan
from ctk.plan.project import classified, python_tags
from ctk.plan.recipes import Recipe, find_recipes


class Tree:
    """A checkout, and feedstocks that stand alone.

    Args:
        workspace: The checkout.
        check_names: The names of all checks.
        feedstocks: Recipes elsewhere.
        asked: The git revision that was published, where the user names it.
    """

    def __init__(
        self,
        workspace: Workspace,
        check_names: Iterable[str] = (),
        feedstocks: Sequence[Path] = (),
        asked: str | None = None,
    ) -> None:
        self.workspace = workspace
        self.check_names = frozenset(check_names)
        self.feedstocks = [RecipeFile(path, self.shown(path), "feedstock") for path in feedstocks]
        self._asked = asked

    def shown(self, path: Path) -> str:
        """A path as a finding names it: below the checkout, or whole."""
        root = self.workspace.root
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()

    @cached_property
    def recipes(self) -> list[RecipeFile]:
        return self._recipes(self.workspace.recipes, "recipes")

    @cached_property
    def base(self) -> list[RecipeFile]:
        return self._recipes(self.workspace.base_recipes, "base")

    def _recipes(self, folder: Path, home: Home) -> list[RecipeFile]:
        return [RecipeFile(p, self.shown(p), home) for p in sorted(folder.glob("*/recipe.yaml"))]

    @property
    def every_recipe(self) -> list[RecipeFile]:
        return [*self.recipes, *self.base, *self.feedstocks]

    def recipe(self, name: str) -> RecipeFile | None:
        """The published recipe of that name."""
        return next((recipe for recipe in self.recipes if recipe.folder.name == name), None)

    @cached_property
    def locks(self) -> list[LockFile]:
        """The release locks, that of the base channel, and that of the packages which the tests build."""
        root = self.workspace.root
        folders = (self.workspace.variants, self.workspace.base_recipes, root / "tests" / "downstream")
        return [LockFile(p, self.shown(p)) for folder in folders for p in sorted(folder.glob("*.lock"))]

    @cached_property
    def locks_by_name(self) -> dict[str, ReleaseLock]:
        """Those of ``variants/`` that are valid."""
        return {f.path.stem: f.lock for f in self.locks if f.lock and f.path.parent == self.workspace.variants}

    @cached_property
    def variants(self) -> list[VariantFile]:
        """The other halves of all locks."""
        pairs = [(lock, lock.path.with_suffix(".yaml")) for lock in self.locks]
        return [VariantFile(path, self.shown(path), lock.lock) for lock, path in pairs if path.exists()]

    @property
    def published_variants(self) -> list[VariantFile]:
        return [file for file in self.variants if file.path.parent == self.workspace.variants]

    @property
    def base_variants(self) -> list[VariantFile]:
        return [file for file in self.variants if file.path.parent == self.workspace.base_recipes]

    @cached_property
    def config(self) -> list[VariantFile]:
        """The matrix that all recipes share; nothing where there is none."""
        path = self.workspace.build_config
        return [VariantFile(path, self.shown(path))] if path.exists() else []

    @cached_property
    def settings(self) -> list[YamlFile]:
        """What conda-smithy reads: first for all recipes, then of one each."""
        paths = [self.workspace.root / "conda-forge.yml", *sorted(self.workspace.recipes.glob("*/conda-forge.yml"))]
        return [YamlFile(path, self.shown(path)) for path in paths if path.exists()]

    def settings_of(self, recipe: RecipeFile) -> Mapping[str, Any]:
        """What conda-smithy reads of one recipe."""
        folder = recipe.folder.parent if recipe.home == "feedstock" else recipe.folder
        path = folder / "conda-forge.yml"
        return YamlFile(path, self.shown(path)).top if path.exists() else {}

    @cached_property
    def exclusion_file(self) -> YamlFile | None:
        path = self.workspace.variants / exclusions.FILE
        return YamlFile(path, self.shown(path)) if path.exists() else None

    @cached_property
    def scripts(self) -> list[ScriptFile]:
        """Each script of a recipe, once."""
        found = {script.path: script for recipe in self.every_recipe for script in self.scripts_of(recipe)}
        return [found[path] for path in sorted(found)]

    def scripts_of(self, recipe: RecipeFile) -> list[ScriptFile]:
        """The scripts that a recipe runs, and those in its folder that it installs."""
        scripts = [block.section("build").get("script") for block in recipe.blocks]
        # A script may be a name alone, and build.sh runs without being named.
        stated = [text_of(s) if text_of(s).endswith((".sh", ".bat")) else mapping(s).get("file") for s in scripts]
        names = [*filter(None, map(text_of, stated)), "build.sh", "build.bat"]
        runs = {(recipe.folder / name).resolve() for name in names}
        there = {p.resolve() for p in recipe.folder.glob("*") if p.suffix in (".sh", ".bat")}
        # Unlike that of a Path, this answers for any text: a recipe may name a script that no system could have.
        found = [path for path in sorted(runs | there) if os.path.isfile(path)]
        return [ScriptFile(path, self.shown(path), path in runs) for path in found]

    @property
    def files(self) -> list[SourceFile]:
        """Everything that is linted."""
        written = [self.exclusion_file] if self.exclusion_file else []
        return [
            *self.every_recipe,
            *self.locks,
            *self.variants,
            *self.config,
            *self.settings,
            *written,
            *self.scripts,
        ]

    @cached_property
    def python_tags(self) -> tuple[str, ...]:
        """The Pythons of the matrix; none where it does not say them."""
        try:
            return python_tags(self.workspace.build_config)
        except CtkError:
            return ()

    def variant_keys(self, home: Home) -> frozenset[str]:
        """Every key that a recipe can ask for."""
        own = self.base_variants if home == "base" else self.published_variants
        return frozenset(key for file in (*own, *self.config) for key in file.top)

    def variants_for(self, recipe: RecipeFile) -> list[dict[str, list[Any]]]:
        """The values of the variant keys, for each release that the recipe is built for."""
        shared = {key: listed(values) for file in self.config for key, values in file.top.items()}
        if recipe.home == "base":
            return [shared | {k: listed(v) for file in self.base_variants for k, v in file.top.items()}]
        if recipe.unreadable:
            return []
        keys = {name: variant_keys(lock) for name, lock in self.locks_by_name.items()}
        known = {key for of in keys.values() for key in of} - shared.keys() | {"cuda_version", "cuda_major"}
        wanted = Recipe(recipe.folder.name, recipe.folder).names_needed & known
        return [shared | of for of in keys.values() if wanted <= of.keys()]

    def locked_versions(self, home: Home) -> dict[str, str]:
        """Version -> the component and release that have it."""
        folder = self.workspace.base_recipes if home == "base" else self.workspace.variants
        locks = [file.lock for file in self.locks if file.lock and file.path.parent == folder]
        return {c.version: f"{c.name} in {lock.name}" for lock in locks for c in lock.components.values()}

    @cached_property
    def open_texts(self) -> frozenset[str]:
        """The licence texts of components that declare an open licence somewhere."""
        components = [c for lock in self.locks_by_name.values() for c in lock.components.values()]
        return frozenset(t for c in components if "nvidia" not in c.license.lower() for t in c.license_texts)

    def excluded(self, lock: ReleaseLock) -> frozenset[str]:
        """The variant keys of the components that are left out of a release on purpose."""
        try:
            listed_ = exclusions.load(self.workspace).excluded
        except CtkError:
            return frozenset()
        names = {e.component for e in listed_ if lock.is_ctk and e.applies_to(lock)}
        return frozenset(lock.components[name].variant_key for name in names)

    @cached_property
    def _set(self) -> Set | None:
        """The recipes with the locks; None where the checks of locks say why not."""
        own = [lock for lock in self.locks if lock.path.parent == self.workspace.variants]
        try:
            excluded = exclusions.load(self.workspace).excluded
        except CtkError:
            return None
        if any(lock.lock is None or lock.problems for lock in own):
            return None
        ordered = in_order(self.locks_by_name.values())
        locks = {lock.name: (lock, self.workspace.variants / f"{lock.name}.yaml") for lock in ordered}
        variants = [file for file in (*self.published_variants, *self.config) if not file.refused]
        if len(variants) != len(locks) + 1:
            return None
        readable = {recipe.folder.name for recipe in self.recipes if not recipe.unreadable}
        recipes = {n: r for n, r in find_recipes(self.workspace.recipes).items() if n in readable}
        return Set(recipes, locks, (self.workspace.build_config,), excluded)

    @cached_property
    def builds(self) -> tuple[Build, ...]:
        """Every build of every release and platform, as far as it can be planned; `unplanned` has the rest."""
        what = self._set
        if what is None:
            return ()
        request = Request(platforms=tuple(PLATFORMS))
        try:
            return plan(what, request, self.python_tags).builds
        except CtkError:
            found: list[Build] = []
            for name in what.recipes:
                try:
                    found += plan(what, Request(recipes=(name,), platforms=tuple(PLATFORMS)), self.python_tags).builds
                except CtkError as error:
                    self.unplanned[name] = error.cause
            return tuple(found)

    @cached_property
    def unplanned(self) -> dict[str, str]:
        """Recipe -> why nothing can be planned of it, once `builds` was asked for."""
        return {}

    @cached_property
    def classes(self) -> dict[str, Classes]:
        """Which components of each CTK release are packaged, excluded or neither, where that can be planned."""
        try:
            return classified(self.workspace, self._set) if self._set else {}
        except CtkError:
            return {}

    @cached_property
    def history(self) -> History:
        """What may be published already."""
        readable = [recipe.folder for recipe in self.recipes if not recipe.unreadable]
        return History(self.workspace, self._asked, readable)
