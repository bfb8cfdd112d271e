"""Names that are proposed to somebody who typed another one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ctk.core.checkout import workspace
from ctk.core.similar import nearest
from ctk.plan.recipes import find_recipes

PACKAGES = sorted(
    name
    for recipe in find_recipes(workspace().recipes).values()
    for name in recipe.output_names
    if "{" not in name
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("cuda-cor", ["cuda-core"]),
        ("CUDA-Core", ["cuda-core"]),
        ("cuda-croe", ["cuda-core"]),  # two letters are swapped
        ("ncll", ["nccl"]),
        ("core-cuda", ["cuda-core"]),
        ("numbacuda", ["numba-cuda"]),
        ("cuda_core", ["cuda-core"]),
        ("cuda-bind", ["cuda-bindings"]),
        ("cudart", ["cuda-cudart", "cuda-cudart-dev", "cuda-cudart-static"]),
        ("jitlink", ["libnvjitlink", "libnvjitlink-dev", "libnvjitlink-files"]),
    ],
)
def test_who_mistypes_a_name_is_told_the_right_one(typed: str, meant: Sequence[str]) -> None:
    assert nearest(typed, PACKAGES) == meant


@pytest.mark.parametrize("typed", ["ninja", "cuda-gdb", "cub", "cmake", "nv", "x", ""])
def test_nobody_is_told_a_name_that_is_not_alike(typed: str) -> None:
    """`ctk build ninja` asked: did you mean jax?"""
    assert nearest(typed, PACKAGES) == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("13.9", ["13.10", "13.5", "13.0"]), ("14", []), ("12.0.9", ["12.0"])],
)
def test_a_number_is_near_those_of_its_major_alone(typed: str, meant: list[str]) -> None:
    known = ["12.0", "13.0", "13.5", "13.10", "python-13"]
    assert nearest(typed, known) == meant


def test_a_beginning_of_very_many_names_says_nothing() -> None:
    assert nearest("lib", [f"lib-{letter * 5}" for letter in "abcdefgh"]) == []
