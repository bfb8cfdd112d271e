"""`ctk build NAME...` of the recipes of this checkout: the channel that it makes is whole without
any other recipe.
"""

from __future__ import annotations

import json
import os

import pytest

from conftest import MINORS, NEWEST, ctk
from ctk.audit import audit_planned
from ctk.core.checkout import Workspace
from ctk.lock import contents
from ctk.plan.plan import Request, plan, published_set, python_tags, small, with_needs

HERE = ("linux-64",)


def test_every_recipe_brings_the_makers_of_all_that_its_packages_require(
    project: Workspace,
) -> None:
    what, tags = published_set(project), python_tags(project.build_config)
    whole = small(Request(platforms=HERE), project, all_components=True, libraries=True)
    makers: dict[str, set[str]] = {}
    for build in plan(what, whole, tags).builds:
        for output in build.outputs:
            makers.setdefault(output.name, set()).add(build.recipe.name)
    for name in what.recipes:
        request = with_needs(what, small(Request(recipes=[name], platforms=HERE), project), tags)
        needed = {
            s.split()[0]
            for b in plan(what, request, tags).builds
            for o in b.outputs
            for s in o.depends
        }
        assert {name}.union(*(makers[need] for need in needed & makers.keys())) <= set(
            request.recipes
        )


@pytest.mark.parametrize("minor", MINORS)
def test_a_channel_of_one_toolkit_has_all_that_its_packages_require(
    minor: str, project: Workspace
) -> None:
    """Toolkits before 12.6 have no libcufile, so a channel for driver 12.4 alone could not give
    anybody cuda-core.
    """
    what, tags = published_set(project), python_tags(project.build_config)
    request = Request(
        [minor, f"python-{minor.partition('.')[0]}"], ("cuda-core", "numba-cuda"), HERE, ["3.13"]
    )
    outputs = [
        o
        for build in plan(what, with_needs(what, request, tags), tags).builds
        for o in build.outputs
    ]
    ours = {name for recipe in what.recipes.values() for name in recipe.output_names}
    needed = {spec.split()[0] for output in outputs for spec in output.depends}
    assert needed & ours <= {output.name for output in outputs}


@pytest.mark.parametrize("names", [("cupy", "jax"), ("cuda-toolkit",), ("nvmath-python",)])
def test_the_audit_finds_nothing_in_a_channel_of_named_packages(
    names: tuple[str, ...], project: Workspace
) -> None:
    what, tags = published_set(project), python_tags(project.build_config)
    request = with_needs(what, Request(["12.9", NEWEST], names, HERE, ["3.13"]), tags)
    report = audit_planned(
        plan(what, request, tags), project, contents.load(project), jobs=os.cpu_count() or 1
    )
    assert [f"{f.check} {f.where}: {f.message}" for f in report.errors] == []
    assert report.subjects > 20


def test_a_package_that_two_recipes_make_is_of_both(project: Workspace) -> None:
    done = ctk(
        project,
        "build",
        "jaxlib",
        "-r",
        "libraries-13",
        "--python",
        "3.12",
        "--dry-run",
        "--json",
        check=True,
    )
    builds = json.loads(done.stdout)["builds"]
    makers = {
        b["recipe"] for b in builds if any("/jaxlib-" in package for package in b["packages"])
    }
    assert makers == {"jaxlib", "jax-cuda-plugin"}
