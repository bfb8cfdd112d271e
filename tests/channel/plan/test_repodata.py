"""Planned repodata: the repodata of a channel before its packages are built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctk.build import build
from ctk.channel import local
from ctk.core.checkout import Workspace
from ctk.core.errors import RecipeError
from ctk.core.platforms import NOARCH, this_platform
from ctk.plan.plan import FROM_BUILD, Plan, Request, Set, plan, planned_repodata
from ctk.plan.recipes import find_recipes
from ctk.plan.rendered import pinned
from kit.tiny import lock

# Two builds of each output; a half for cross-compiling; every kind of requirement, pin and run
# export.
TOOL = """
schema_version: 1
recipe: {name: tool, version: "2.1.3"}
build:
  number: ${{ 100 if cuda_fit == "native" else 0 }}
  script: ["true"]
  variant: {down_prioritize_variant: '${{ 1 if cuda_fit == "compat" else 0 }}'}
outputs:
  - package: {name: "tool_${{ target_platform }}"}
    build: {noarch: generic, variant: {use_keys: [cuda_fit]}}
    requirements: {run: [guide]}
  - package: {name: tool}
    build: {variant: {use_keys: [cuda_fit]}}
    requirements:
      run:
        - ${{ pin_subpackage("tool_" ~ target_platform, exact=True) }}
        - guide ==1.0 *_0
        - guide ==1.0 *_0
      run_constraints:
        - '${{ pin_subpackage("tool_" ~ target_platform, lower_bound="x.x", upper_bound=None) }}'
  - package: {name: tool-dev}
    requirements:
      run:
        - ${{ pin_subpackage("tool", exact=True) }}
        - ${{ pin_subpackage("tool_" ~ target_platform, upper_bound="x.x") }}
      run_exports:
        weak: ['${{ pin_subpackage("tool", upper_bound="x") }}']
        strong: [guide, '${{ pin_subpackage("tool-dev", lower_bound=None, upper_bound="x") }}']
        noarch: [guide >=1]
        weak_constraints: [guide <3]
        strong_constraints: [guide <4]
about: {license: BSD-3-Clause}
"""

GUIDE = """
schema_version: 1
package: {name: guide, version: "1.0"}
build:
  noarch: generic
  number: 3
  string: "${{ cuda_version | replace('.', '_') }}_0"
  script: ["true"]
"""

PLATFORMS = ("linux-64", "win-arm64")


def small_plan(folder: Path, platforms: tuple[str, ...] = PLATFORMS, **recipes: str) -> Plan:
    """The plan of some recipes for one release of CUDA, native and compat."""
    for name, text in recipes.items():
        (folder / "recipes" / name).mkdir(parents=True)
        (folder / "recipes" / name / "recipe.yaml").write_text(text)
    (folder / "conda_build_config.yaml").write_text("cuda_fit: [native, compat]\n")
    (folder / "cuda-13.4.yaml").write_text('cuda_version: ["13.4"]\n')
    locks = {"cuda-13.4": (lock(), folder / "cuda-13.4.yaml")}
    what = Set(find_recipes(folder / "recipes"), locks, (folder / "conda_build_config.yaml",))
    return plan(what, Request(platforms=platforms), [])


@pytest.fixture
def small(tmp_path: Path) -> Plan:
    return small_plan(tmp_path, tool=TOOL, guide=GUIDE)


def test_the_indexer_writes_what_was_planned(small: Plan, tmp_path: Path) -> None:
    if not this_platform().startswith("linux"):
        pytest.skip("packages are built on Linux only")
    made = build.run(small, Workspace(tmp_path), jobs=1)
    assert not made.failed
    staged = local.stage(local.candidates(made.built, tmp_path / "channel"))
    planned = planned_repodata(small)
    assert set(planned) == {*PLATFORMS, NOARCH}
    for subdir, ours in planned.items():
        theirs = json.loads((staged.path / subdir / "repodata.json").read_text())
        for record in theirs["packages.conda"].values():
            assert record.keys() >= FROM_BUILD
            for field in FROM_BUILD:
                del record[field]
        assert ours == theirs


def test_a_bounded_pin_has_the_version_of_its_own_variant(tmp_path: Path) -> None:
    pair = """
schema_version: 1
context: {version: '${{ "2.5" if cuda_fit == "native" else "1.5" }}'}
recipe: {name: pair, version: "${{ version }}"}
outputs:
  - package: {name: low}
  - package: {name: high}
    requirements: {run: ['${{ pin_subpackage("low", upper_bound="x") }}']}
"""
    records = planned_repodata(small_plan(tmp_path, pair=pair))["linux-64"][
        "packages.conda"
    ].values()
    assert {r["version"]: r["depends"] for r in records if r["name"] == "high"} == {
        "1.5": ["low >=1.5,<2.0a0"],
        "2.5": ["low >=2.5,<3.0a0"],
    }


# The requirement that rattler-build writes for a pin, by its rules.
@pytest.mark.parametrize(
    ("pin", "version", "requirement"),
    [
        ({"lower_bound": "x.x.x.x.x.x", "upper_bound": "x"}, "13.4.92", "tool >=13.4.92,<14.0a0"),
        ({"lower_bound": "x.x", "upper_bound": "x.x"}, "13.3.4.3.1", "tool >=13.3,<13.4.0a0"),
        ({"lower_bound": "x.x", "upper_bound": "x.x.x"}, "9", "tool >=9,<9.0.1.0a0"),
        ({"upper_bound": "x"}, "9d", "tool <10a"),
        ({"lower_bound": "x.x", "upper_bound": "x.x.x"}, "5!1.2.3", "tool >=5!1.2,<5!1.2.4.0a0"),
        ({"lower_bound": "1.5", "upper_bound": "2.4"}, "1.7", "tool >=1.5,<2.4"),
        ({"lower_bound": "x", "build": "native_*"}, "1.7", "tool >=1 native_*"),
        ({}, "1.7", "tool"),
    ],
)
def test_a_bounded_pin_is_written_as_rattler_build_does(
    pin: dict[str, str], version: str, requirement: str
) -> None:
    assert pinned({"name": "tool", **pin}, version) == requirement


def test_two_builds_that_make_one_file_differently_are_an_error(tmp_path: Path) -> None:
    pair = """
schema_version: 1
recipe: {name: pair, version: "1"}
outputs:
  - package: {name: half}
    build: {noarch: generic, string: "${{ cuda_version }}"}
    requirements: {run: ["guide-${{ target_platform }}"]}
  - package: {name: whole}
    build: {string: "${{ cuda_version }}"}
"""
    makers = r"pair-cuda13\.4-linux-64 and pair-cuda13\.4-win-arm64"
    with pytest.raises(
        RecipeError, match=makers + r" both make half-1-13\.4\.conda, with different depends"
    ):
        planned_repodata(small_plan(tmp_path, pair=pair))


def test_what_only_a_build_could_know_is_an_error(small: Plan, tmp_path: Path) -> None:
    text = GUIDE + "requirements: {host: [zlib], run: [tool]}\n"
    with pytest.raises(RecipeError, match=r"guide is built in an environment \(zlib\)"):
        planned_repodata(small_plan(tmp_path / "host", guide=text))
    with pytest.raises(RecipeError, match="output guide has a pin_compatible on zlib"):
        small_plan(
            tmp_path / "pin", guide=text.replace("[tool]", "[\"${{ pin_compatible('zlib') }}\"]")
        )
