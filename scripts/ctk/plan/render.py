"""Renders recipes with stock rattler-build, without any preprocessing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import rattler_build
from pydantic import TypeAdapter

from ctk.core.checkout import workspace
from ctk.core.console import listing
from ctk.core.errors import RecipeError
from ctk.core.files import file_sha256
from ctk.core.memo import Memo, memo
from ctk.core.platforms import this_platform
from ctk.plan.messages import MISSING_OUTPUT, message_of, shown, uneven_zip
from ctk.plan.recipes import Recipe, parse_recipe
from ctk.plan.rendered import Rendered, other_output, rendered_outputs
from ctk.plan.variants import platform_config, read_variants

_OUTPUTS = TypeAdapter(list[Rendered])


def render(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Rendered]:
    """The outputs of a recipe for one platform, in each variant, without skipped outputs.

    They are cached by the content of recipe and variant files, since rendering all recipes for all
    releases takes minutes. Only plans use this; a build renders its recipe again, so the cache
    cannot change a package.
    """
    digest = hashlib.sha256(renderer() + subdir.encode())
    for file in (recipe.file, *variant_files):
        # rattler-build takes the file's name into account; hashing fails here as rendering would.
        digest.update(f"{file.name}\0{file_sha256(file)}".encode())
    note = memo(workspace().notes / "rendered", digest.hexdigest(), _OUTPUTS)
    return _outputs(note, recipe, tuple(variant_files), subdir)


@lru_cache(maxsize=1024)
def _outputs(
    note: Memo[list[Rendered]], recipe: Recipe, variant_files: tuple[Path, ...], subdir: str
) -> list[Rendered]:
    return note.get(
        lambda: rendered_outputs(render_variants(recipe, variant_files, subdir), subdir)
    )


_DECIDE = ("recipes.py", "rendered.py", "variants.py", "render.py")
"""The modules of this room that decide how a recipe renders."""


@cache
def renderer() -> bytes:
    """A digest of rattler-build's version and of our code: both decide how a recipe renders."""
    digest = hashlib.sha256(f"{rattler_build.rattler_build_version()} {this_platform()}".encode())
    for name in _DECIDE:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.digest()


def render_variants(recipe: Recipe, variant_files: Sequence[Path], subdir: str) -> list[Any]:
    """The rendered variants of a recipe, as rattler-build has them.

    Later variant files take precedence.

    Raises:
        RecipeError: The recipe does not render, with rattler-build's message.
    """
    variants = read_variants(variant_files, subdir)
    config = rattler_build.RenderConfig(platform=platform_config(subdir))
    parsed = parse_recipe(recipe.file)
    try:
        return list(parsed.render(variants, config))
    except Exception as error:
        if "InvalidZipKeyLength" in str(error):
            said = uneven_zip(
                variant_files,
                variants.zip_keys or (),
                lambda key: len(variants.get_values(key) or ()),
            )
            raise RecipeError(said, "give each key of a zip as many values") from error
        said = message_of(recipe.file, error)
        used = listing([shown(file) for file in variant_files])
        step = (
            "correct it; a name in it is a key of these variant files, or of the recipe's context"
        )
        if pin := MISSING_OUTPUT.search(str(error)):
            step = other_output(pin[1], recipe.output_names)
        said += f"\n  (recipe {recipe.name} for {subdir}, with the variants of {used})"
        raise RecipeError(said, step) from error
