"""What the downstream tests share: the channels that the recipes are built against."""

from __future__ import annotations

from pathlib import Path

import pytest
from downstream_recipes import FOLDER, NEWEST, OLDEST, RECIPES

from conftest import ctk
from ctk.base import base
from ctk.build import build as builds
from ctk.channel import states
from ctk.core.checkout import Workspace, settings
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.lock import load
from ctk.plan.plan import Request, Set, plan

SOURCES = ("cufinufft", "ducc0", "jax-finufft", "pythran")


@pytest.fixture(scope="session")
def toolkits(project: Workspace) -> Path:
    """The channel: the default set of two releases, cuFFT, and what shows the machine code in a library."""
    if this_platform() not in ("linux-64", "linux-aarch64"):
        pytest.skip("packages are built on Linux only")
    if this_platform() not in base.installed_compilers():
        pytest.skip("no g++ on this machine, which nvcc calls: apt-get install g++")
    folder = project.output / "downstream"
    words = ["--release", OLDEST, "--release", NEWEST, "--channel", str(folder)]
    for name in [*(settings(project.root).default.recipes or []), "libcufft", "cuda-cuobjdump", "cuda-nvdisasm"]:
        words += ["--recipe", name]
    ctk(project, "build", *words, check=True)
    return folder


@pytest.fixture(scope="session")
def tools(project: Workspace, toolkits: Path) -> Path:
    """A channel with what conda-forge would have: CMake, ninja, scikit-build-core; the sources are fetched along."""
    lock = load(FOLDER / "downstream.lock")
    what = Set({"tools": RECIPES["tools"]}, {lock.name: (lock, FOLDER / "downstream.yaml")}, (project.build_config,))
    planned = plan(what, Request(platforms=[this_platform()]), [])
    sources = [source for name in SOURCES if (source := lock.components[name].artefacts["noarch"])]
    fetch([*planned.artefacts, *sources], project, Index)
    made = builds.run(planned, project)
    assert made.built, made.failed
    staged = states.stage(made.built, project.output / "downstream-tools")
    states.commit(staged)
    return project.output / "downstream-tools"
