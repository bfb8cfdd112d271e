"""Reads and renders recipes with stock rattler-build: nothing of ours between a recipe and its outputs."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import rattler_build

from ctk.core.errors import RecipeError
from ctk.core.platforms import this_platform
from ctk.plan.render_cache import cached
from ctk.plan.rendered import Rendered, rendered_outputs

_SHARED = re.compile(r"\bfile:\s*(\.\./[^\s,}]+)")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
# The value on the line of its key, or a list of values below it.
_CONDITION = re.compile(r"^[ \t]*(?:-[ \t]*)?(?:if|skip):(.*(?:\n[ \t]*(?:-.*|#.*)?$)*)", re.MULTILINE)
# Within braces a condition ends at a comma, unless it is in quotes.
_FLOW_CONDITION = re.compile(r"[{,]\s*(?:if|skip):\s*('[^'\n]*'|\"[^\"\n]*\"|\[[^]\n]*\]|[^,}\n]*)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAME = re.compile(r"\b[a-z_][a-z0-9_]*\b")
_ASKED = re.compile(r"\b([a-z_][a-z0-9_]*) is defined\b")


@dataclass(frozen=True)
class Recipe:
    """One feedstock folder.

    Attributes:
        name: Name of the folder.
        folder: The folder.
        commit: The last commit that touched it, where a checkout is not there to ask (`ctk.build.sbom`).
    """

    name: str
    folder: Path
    commit: str | None = None

    @property
    def file(self) -> Path:
        return self.folder / "recipe.yaml"

    @cached_property
    def names_used(self) -> frozenset[str]:
        """Every identifier in the recipe's expressions and conditions: variant keys are among them."""
        text = self.file.read_text(encoding="utf-8")
        found = (*_CONDITION.findall(text), *_FLOW_CONDITION.findall(text))
        conditions = (_COMMENT.sub("", condition) for condition in found)
        return frozenset(name for code in (*_EXPRESSION.findall(text), *conditions) for name in _NAME.findall(code))

    @cached_property
    def names_needed(self) -> frozenset[str]:
        """Those of `names_used` without which it does not render: not what a condition asks ``is defined`` of."""
        return self.names_used - set(_ASKED.findall(self.file.read_text(encoding="utf-8")))

    @cached_property
    def skip_conditions(self) -> Mapping[str, str]:
        """Output name (unrendered) -> the condition under which the recipe leaves it out."""
        stage0 = _parse(self.file).to_dict()
        outputs = stage0.get("outputs") or [stage0]
        found = {}
        for output in outputs:
            skip = (output.get("build") or {}).get("skip") or (stage0.get("build") or {}).get("skip")
            if "package" in output and skip:
                found[str(output["package"]["name"])] = (
                    " or ".join(map(str, skip)) if isinstance(skip, list) else str(skip)
                )
        return found

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The names of all outputs as the recipe writes them, expressions unrendered."""
        stage0 = _parse(self.file).to_dict()
        return tuple(str(o["package"]["name"]) for o in stage0.get("outputs") or [stage0] if "package" in o)

    def shared_folders(self) -> frozenset[Path]:
        """The folders elsewhere that have a script of this recipe, there or not."""
        text = self.file.read_text(encoding="utf-8")
        return frozenset((self.folder / name).resolve().parent for name in _SHARED.findall(text))

    def files(self) -> Iterator[Path]:
        """Every file that can change what this recipe builds, in a fixed order; shared folders count."""
        for folder in (self.folder, *sorted(s for s in self.shared_folders() if s.is_dir())):
            yield from sorted(p for p in folder.rglob("*") if p.is_file())


def find_recipes(folder: Path) -> dict[str, Recipe]:
    """Every feedstock below a folder, by name."""
    return {p.parent.name: Recipe(p.parent.name, p.parent) for p in sorted(folder.glob("*/recipe.yaml"))}


def maker_of(package: str, recipes: Mapping[str, Recipe]) -> str | None:
    """The feedstock that makes a package of this name, None for none; an expression in a name stands for any text."""
    for name, recipe in recipes.items():
        for output in recipe.output_names:
            pattern = ".+".join(map(re.escape, re.split(r"\$\{\{.*?\}\}", output)))
            if re.fullmatch(pattern, package):
                return name
    return None


def platform_config(subdir: str) -> rattler_build.PlatformConfig:
    """Cross rendering for a subdir; `staging` outputs are still behind rattler-build's experimental switch."""
    return rattler_build.PlatformConfig(
        target_platform=subdir, build_platform=this_platform(), host_platform=subdir, experimental=True
    )


def _as_of(file: Path) -> tuple[Path, bytes]:
    """A file and its content, to remember what was read of it: a lint, a test or an editor may write it again."""
    try:
        return file, hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return file, b""  # whoever reads it says what is wrong


def _variants(files: Sequence[Path], subdir: str) -> rattler_build.VariantConfig:
    return _variants_as_of(tuple(map(_as_of, files)), subdir)


@lru_cache(maxsize=256)
def _variants_as_of(states: tuple[tuple[Path, bytes], ...], subdir: str) -> rattler_build.VariantConfig:
    files = [file for file, _ in states]
    config = rattler_build.JinjaConfig(platform=platform_config(subdir))
    try:
        return rattler_build.VariantConfig.from_files_with_context([*files], config)
    except Exception as error:  # whatever its parser says
        names = " or ".join(file.name for file in files)
        raise RecipeError(f"rattler-build does not read {names}: {error}", "ctk lint says where") from error


def _parse(file: Path) -> Any:
    return _parse_as_of(_as_of(file))


@lru_cache(maxsize=256)
def _parse_as_of(state: tuple[Path, bytes]) -> Any:
    file, _ = state
    try:
        return rattler_build.Stage0Recipe.from_file(file)
    except Exception as error:
        raise RecipeError(f"{file.parent.name}/recipe.yaml: {error}", "mend the recipe") from error


def render_variants(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, narrow: Mapping[str, str] | None = None
) -> list[Any]:
    """rattler-build's own rendered variants of a recipe.

    Args:
        recipe: What to render.
        variant_files: Variant-config files, later ones taking precedence.
        subdir: The target platform.
        narrow: Keys to fix to one value; keys zipped with them are fixed along.

    Raises:
        RecipeError: With rattler-build's own message.
    """
    variants = _variants(variant_files, subdir)
    if narrow:
        variants = variants.merge(_narrowed(variants, narrow))
    try:
        return list(_parse(recipe.file).render(variants, rattler_build.RenderConfig(platform=platform_config(subdir))))
    except Exception as error:
        raise RecipeError(
            f"recipe {recipe.name} does not render for {subdir} with {variant_files[-1].name}: {error}",
            "check the keys that the recipe names against the variant file",
        ) from error


def variant_values(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, outputs: Iterable[Rendered]
) -> dict[str, tuple[str, ...]]:
    """Every variant key that a recipe can see -> its values: with them alone, it renders to the same outputs.

    Args:
        recipe: The feedstock.
        variant_files: Variant-config files, later ones taking precedence.
        subdir: The target platform.
        outputs: What it was rendered to. Of the keys that these use, the values are those that they have.
    """
    variants = _variants(variant_files, subdir)
    used: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        for key, value in output.variant.items():
            used[key].add(str(value))
    found = {}
    for key in sorted(recipe.names_used | used.keys() - {"target_platform"}):
        values = variants.get_values(key)  # None for what is no key: names of packages, functions, exact pins
        if values:
            found[key] = tuple(sorted(used.get(key) or map(str, values)))
    return found


def _narrowed(variants: rattler_build.VariantConfig, narrow: Mapping[str, str]) -> rattler_build.VariantConfig:
    fixed: dict[str, list[str]] = {}
    groups = variants.zip_keys or []
    for key, value in narrow.items():
        values = variants.get_values(key) or []
        if value not in values:
            raise RecipeError(f"{value!r} is no value of the variant key {key!r}", f"it has {', '.join(values)}")
        group = next((g for g in groups if key in g), [key])
        for other in group:
            fixed[other] = [(variants.get_values(other) or [])[values.index(value)]]
    return rattler_build.VariantConfig(fixed)


def render(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Rendered]:
    """The outputs of a recipe for one platform, every variant of them; skipped ones are absent."""

    def make() -> list[Rendered]:
        return rendered_outputs(render_variants(recipe, variant_files, subdir), subdir)

    return cached(recipe.file, variant_files, subdir, make)
