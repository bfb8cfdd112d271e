"""The variant keys and values that a recipe takes from variant files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ctk.plan.recipes import Recipe
from ctk.plan.rendered import Rendered
from ctk.plan.variants import read_variants, variant_config, variant_values

RECIPE = """
schema_version: 1
package:
  name: thing
  version: ${{ cuda_version }}
build:
  string: ${{ cuda_fit }}_${{ fit_number }}
about:
  summary: ${{ channel_name }}
"""
VARIANTS = """
cuda_version: ["12.9", "13.4"]
cuda_fit: [compat, native]
fit_number: ["0", "100"]
channel_name: [ours]
not_in_the_recipe: [x, y]
zip_keys:
  - [cuda_fit, fit_number]
"""


def values_of(folder: Path, *used: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The values of a recipe whose outputs use these variants."""
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "variants.yaml").write_text(VARIANTS)
    outputs = [cast("Rendered", SimpleNamespace(variant=variant)) for variant in used]
    return variant_values(Recipe("thing", folder), [folder / "variants.yaml"], "linux-64", outputs)


COMPAT = {"cuda_version": "13.4", "cuda_fit": "compat", "fit_number": "0"}
NATIVE = {"cuda_version": "13.4", "cuda_fit": "native", "fit_number": "100"}


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([COMPAT], {"cuda_fit": ("compat",), "fit_number": ("0",)}),
        ([COMPAT, NATIVE], {"cuda_fit,fit_number": ("compat,0", "native,100")}),
    ],
)
def test_zipped_keys_with_several_rows_are_one_entry(
    tmp_path: Path, used: list[Mapping[str, str]], expected: Mapping[str, Any]
) -> None:
    common = {"channel_name": ("ours",), "cuda_version": ("13.4",)}
    assert values_of(tmp_path, *used) == common | expected


def test_a_variant_file_has_the_keys_the_values_and_the_zips_again(tmp_path: Path) -> None:
    values = values_of(tmp_path, COMPAT, NATIVE)
    content = variant_config(values)
    assert content == {
        "channel_name": ["ours"],
        "cuda_version": ["13.4"],
        "cuda_fit": ["compat", "native"],
        "fit_number": ["0", "100"],
        "zip_keys": [["cuda_fit", "fit_number"]],
    }
    file = tmp_path / "again.yaml"
    file.write_text(json.dumps(content))
    again = read_variants([file], "linux-64")
    assert again.zip_keys == content["zip_keys"]
    assert again.get_values("fit_number") == ["0", "100"]
