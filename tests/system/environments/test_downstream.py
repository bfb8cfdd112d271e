"""A package that somebody else builds against the channel: its dependencies, and the machines on which it installs.

It is the first example of docs/recipe-authors.md; tests/system/docs/test_example.py installs and calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conftest import NEWEST, ROOT
from ctk.base import base
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH, this_platform
from ctk.plan.plan import write_repodata
from ctk.plan.recipes import Recipe, render
from ctk.solve import channels
from ctk.solve.solve import Scenario, solve
from kit.feedstock import Feedstock, build

FOLDER = ROOT / "examples" / "cpp-extension"
NAME = "scale"
# CUDA major -> the toolkit that it is built with, the oldest it is to run with.
OLDEST = {"12": "12.6", "13": "13.0"}


@pytest.fixture(scope="module")
def downstream(built: Workspace, roomy: Callable[[str], Path]) -> Feedstock:
    if this_platform() not in base.installed_compilers():  # test_picks and the golden files test run-exports
        pytest.skip("no g++ on this machine, nothing can be built against the channel: apt-get install g++")
    files = [built.build_config, FOLDER / "conda_build_config.yaml"]
    return build(Recipe(NAME, FOLDER), files, roomy("downstream"), (built.channel, built.base_channel), built)


def test_the_matrix_gives_one_build_for_each_cuda_major(downstream: Feedstock) -> None:
    assert set(downstream.packages) == set(OLDEST)
    for major in OLDEST:
        index = downstream.index(major)
        assert index.build.startswith(f"cuda{major}_py")
        assert index.build_number == int(major)
        assert not index.track_features


@pytest.mark.parametrize(
    ("driver", "toolkit"),
    [("12.6", "12.6"), ("12.8", "12.6"), ("12.9", "12.9"), ("13.2", "13.0"), (NEWEST, NEWEST), (None, NEWEST)],
)
def test_the_newest_toolkit_whose_ptx_the_driver_loads_is_picked_with_the_build_for_its_major(
    downstream: Feedstock, driver: str | None, toolkit: str
) -> None:
    """The package accepts any toolkit of its major."""
    pick = downstream.pick(NAME, driver=driver)
    record = pick.record(NAME)
    assert record is not None
    assert record.file_name == downstream.packages[toolkit.partition(".")[0]].name
    assert pick.version("cuda-cudart").startswith(f"{toolkit}.")
    assert (pick.toolkit, pick.fit) == (toolkit, "native" if driver else "compat")


@pytest.mark.parametrize(
    ("build", "besides", "driver"),
    [
        ("cuda13*", (), "12.9"),
        ("cuda13*", ("cuda-version=12",), None),
        ("cuda13*", ("cuda-bindings=12",), None),
        ("cuda12*", ("cuda-version=13",), None),
        ("cuda12*", ("cuda-bindings=13",), "13.0"),
        ("*", (), "11.8"),
    ],
)
def test_the_other_major_s_environment_refuses_it(
    downstream: Feedstock, build: str, besides: tuple[str, ...], driver: str | None
) -> None:
    own = f"{NAME} * {build}"
    assert downstream.pick(own).record(NAME), "the request itself must be one that can be satisfied"
    with pytest.raises(Unsolvable) as error:
        downstream.pick(own, *besides, driver=driver)
    assert error.value.solver


@pytest.fixture(scope="module")
def shown(project: Workspace) -> list[Any]:
    """The lines of docs/recipe-reference.md for two builds of each major: of the variant file, and of the recipe."""
    text = (project.root / "docs" / "recipe-reference.md").read_text()
    _, _, text = text.partition("\n## Two builds for each CUDA major\n")
    text, _, _ = text.partition("\n## ")
    return [YAML(typ="safe").load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]


@pytest.fixture(scope="module")
def deaf(built: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The channel without constraints on virtual packages, for a solver that ignores them."""
    return write_repodata(
        channels.without_virtual_constraints(channels.built(built.channel)), tmp_path_factory.mktemp("deaf")
    )


@pytest.fixture(scope="module")
def paired(built: Workspace, shown: list[Any], downstream: Feedstock, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with the two builds for each major that the docs show, as metadata."""
    folder = tmp_path_factory.mktemp("paired")
    yaml = YAML()
    recipe = yaml.load(FOLDER / "recipe.yaml")
    config, added = shown
    recipe["build"].update(added["build"])
    recipe["requirements"].update(added["requirements"])
    yaml.dump(recipe, folder / "recipe.yaml")
    yaml.dump(yaml.load(FOLDER / "conda_build_config.yaml") | config, folder / "conda_build_config.yaml")
    records = {}
    files = [built.build_config, folder / "conda_build_config.yaml"]
    for output in render(Recipe(NAME, folder), files, this_platform()):
        exported = downstream.index(output.variant["cuda_version"].split(".")[0]).depends
        if output.variant["python"] == downstream.made["13"].variant.values["python"]:
            records[output.file_name] = {
                "name": output.name,
                "version": output.version,
                "build": output.build_string,
                "build_number": output.build_number,
                "depends": [*output.depends, *(spec for spec in exported if spec.startswith("cuda-"))],
                "subdir": output.subdir,
            } | ({"track_features": " ".join(output.track_features)} if output.track_features else {})
    assert len(records) == 4
    return write_repodata(
        {this_platform(): {"packages": {}, "packages.conda": records}, NOARCH: {}}, folder / "channel"
    )


@pytest.mark.parametrize(
    ("driver", "toolkit", "fit"),
    [("12.6", "12.6", "native"), ("12.9", "12.9", "native"), ("13.0", "13.0", "native"), (None, NEWEST, "compat")],
)
def test_two_builds_for_each_major_are_right_even_where_constraints_are_ignored(
    downstream: Feedstock, paired: Path, deaf: Path, driver: str | None, toolkit: str, fit: str
) -> None:
    for channel in (downstream.channels[1], deaf):
        scenario = Scenario((NAME,), this_platform(), driver)
        pick = solve(scenario, [paired, channel, downstream.channels[-1]], downstream.gateway)
        assert (pick.toolkit, pick.fit) == (toolkit, fit)
