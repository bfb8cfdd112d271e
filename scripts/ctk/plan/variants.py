"""Variant files: what they say, and what a recipe takes from them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import rattler_build

from ctk.core.checkout import workspace
from ctk.core.console import listing
from ctk.core.errors import RecipeError
from ctk.core.files import make_folder, replace_file
from ctk.core.platforms import this_platform
from ctk.plan.messages import message_of
from ctk.plan.recipes import Recipe, recipe_commit, recipe_digest
from ctk.plan.rendered import Rendered

SOURCES_KEY = "own_sources"
"""The variant key of `source_variants`, which such a recipe names in its `use_keys`."""
_ZIP = ","  # between zipped keys, and between their values, which have none


def platform_config(subdir: str) -> rattler_build.PlatformConfig:
    """Settings that render for a subdir.

    `staging` outputs still need rattler-build's experimental switch.
    """
    return rattler_build.PlatformConfig(
        target_platform=subdir,
        build_platform=this_platform(),
        host_platform=subdir,
        experimental=True,
    )


def read_variants(files: Sequence[Path], subdir: str) -> rattler_build.VariantConfig:
    """The keys, values and zips of variant files; later files take precedence.

    Raises:
        RecipeError: A file cannot be read.
    """
    return _variants_at(
        tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files), subdir
    )


@lru_cache(maxsize=256)  # each build of a plan asks for its own
def _variants_at(states: tuple[tuple[Path, int], ...], subdir: str) -> rattler_build.VariantConfig:
    """The variants of files as they are at these times."""
    config = rattler_build.JinjaConfig(platform=platform_config(subdir))
    read = partial(rattler_build.VariantConfig.from_files_with_context, jinja_config=config)
    try:
        return read([file for file, _ in states])
    except Exception as error:  # its parser has several kinds, and does not say which file
        for file, _ in states:
            try:
                read([file])
            except Exception as own:
                said = message_of(file, own)
                step = "correct it: a variant file has keys, each with a list"
                raise RecipeError(said, step) from error
        raise RecipeError(
            f"{listing([str(f) for f, _ in states])}: {error}", "compare their keys"
        ) from error


def variant_values(
    recipe: Recipe, variant_files: Sequence[Path], subdir: str, outputs: Iterable[Rendered]
) -> dict[str, tuple[str, ...]]:
    """Every variant key that a recipe can see -> its values.

    With them alone, it renders to the same outputs. Of a key that its outputs use, the values are
    those that they have.

    SBOMs state them, so a zip is an entry, too: zipped keys that have more than one row are
    ``cuda_fit,fit_number`` -> ``compat,0`` and ``native,100``. `variant_config` takes them apart.
    """
    variants = read_variants(variant_files, subdir)
    values = _values(recipe, variants, outputs)
    for group in variants.zip_keys or []:
        keys = [key for key in group if key in values]
        rows = _zipped_rows(keys, values, variants)
        if len(rows) == 1:
            for key, value in zip(keys, rows[0], strict=True):
                values[key] = (value,)
        elif len(keys) > 1:
            for key in keys:
                del values[key]
            values[_ZIP.join(keys)] = tuple(sorted(_ZIP.join(row) for row in rows))
    return values


def _values(
    recipe: Recipe, variants: rattler_build.VariantConfig, outputs: Iterable[Rendered]
) -> dict[str, tuple[str, ...]]:
    """Every variant key that a recipe can see -> its values, as if no keys were zipped."""
    used: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        for key, value in output.variant.items():
            used[key].add(str(value))
    seen = recipe.names_used | used.keys() - {"target_platform"}
    values = {}
    for key in sorted(seen):
        # None for a name that is not a key: a package, a function, an exact pin.
        stated = variants.get_values(key)
        if stated:
            values[key] = tuple(sorted(used.get(key) or map(str, stated)))
    return values


def _zipped_rows(
    keys: Sequence[str],
    values: Mapping[str, Sequence[str]],
    variants: rattler_build.VariantConfig,
) -> list[tuple[str, ...]]:
    """The rows of zipped keys that have only the given values of each key."""
    columns = [[str(value) for value in variants.get_values(key) or ()] for key in keys]
    rows = set()
    for row in zip(*columns, strict=True):
        is_taken = [value in values[key] for key, value in zip(keys, row, strict=True)]
        if all(is_taken):
            rows.add(row)
    return list(rows)


def variant_config(values: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The content of a variant file that has the keys and values of `variant_values`."""
    config: dict[str, Any] = {}
    zips = []
    for name, entries in values.items():
        if _ZIP not in name:
            config[name] = list(entries)
            continue
        keys = name.split(_ZIP)
        zips.append(keys)
        columns = zip(*(entry.split(_ZIP) for entry in entries), strict=True)
        for key, column in zip(keys, columns, strict=True):
            config[key] = list(column)
    if zips:
        config["zip_keys"] = zips
    return config


def source_variants(recipe: Recipe) -> Path:
    """A variant file that gives the packages of a recipe with `own_sources` a name of their own.

    Their version stays while the sources change, and a published name is never reused. So one key
    stands for all that differs between two packages: the sources, and the commit in the SBOM.
    """
    stated = f"{recipe_digest(recipe)} {recipe_commit(recipe)}"
    digest = hashlib.sha256(stated.encode()).hexdigest()[:16]
    file = workspace().notes / "sources" / f"{digest}.yaml"
    if not file.is_file():
        make_folder(file.parent)
        replace_file(file, f'{SOURCES_KEY}: ["{digest}"]\n'.encode())
    return file
