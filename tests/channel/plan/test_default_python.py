"""The Pythons that `ctk build` makes packages for, where the command names none."""

from __future__ import annotations

import json

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.core.versions import this_python
from ctk.plan.plan import python_tags

OTHERS = tuple(each for each in ("win-64", "linux-64", "linux-aarch64") if each != this_platform())


def pythons(project: Workspace, *words: str) -> set[str]:
    """The tags of the builds for a Python in the plan of ``ctk build cuda-core``."""
    words = ("build", "cuda-core", "--release", "13.0", "--dry-run", "--json", *words)
    document = json.loads(ctk(project, *words, check=True).stdout)
    return {build["python"] for build in document["builds"] if build["python"]}


@pytest.fixture(scope="module")
def every(project: Workspace) -> set[str]:
    found = pythons(project, "--all-pythons")
    assert len(found) > 1
    assert found <= set(python_tags(project.build_config))
    return found


def test_with_the_local_base_it_is_the_python_of_this_machine(
    project: Workspace, every: set[str]
) -> None:
    if this_python().tag not in every:
        pytest.skip(f"no recipe is for Python {this_python().name}")
    assert pythons(project) == {this_python().tag}
    done = ctk(project, "build", "cuda-core", "--release", "13.0", "--dry-run", check=True)
    assert f"for Python {this_python().name} only, as the base channel has no other" in done.stdout


@pytest.mark.parametrize(
    "words",
    [("--base", "conda-forge"), *(("--platform", each) for each in OTHERS)],
    ids=" ".join,
)
def test_for_others_it_is_every_python(
    words: tuple[str, ...], project: Workspace, every: set[str]
) -> None:
    """Nobody can install them with the base channel of this machine: they will be published."""
    found = pythons(project, *words)
    assert found == every


def test_a_command_that_names_one_gets_that_one(project: Workspace) -> None:
    assert pythons(project, "--python", "3.13") == {"cp313"}


def test_one_python_and_every_python_exclude_each_other(project: Workspace) -> None:
    done = ctk(project, "build", "--python", "3.13", "--all-pythons", "--dry-run")
    assert done.returncode == 2
    assert "--python" in done.stderr
    assert "--all-pythons" in done.stderr


def test_a_recipe_without_python_says_nothing_of_it(project: Workspace) -> None:
    done = ctk(project, "build", "cuda-nvrtc", "--release", "13.0", "--dry-run", check=True)
    assert "for Python" not in done.stdout


def test_the_jobs_of_a_service_make_every_python(project: Workspace) -> None:
    words = (
        "--dry-run",
        "--format",
        "github",
        "-r",
        "13.0",
        "--platform",
        this_platform(),
        "cuda-core",
    )
    jobs = json.loads(ctk(project, "build", *words, check=True).stdout)["include"]
    assert all(job["options"].endswith(" --all-pythons") for job in jobs)
    assert jobs
