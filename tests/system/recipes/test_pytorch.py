"""PyTorch and Triton bring what their wheels ask for, and the toolkit that they were compiled with
is the oldest.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ctk.core.checkout import Workspace, workspace
from ctk.core.platforms import PLATFORMS
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.model import Component, ReleaseLock, release_locks
from ctk.plan.recipes import find_recipes
from ctk.plan.render import render
from ctk.plan.rendered import Rendered

HERE, PYTHON = "linux-64", "cp313"
# What a wheel asks for, without what says the CUDA major, and extras of cuda-toolkit -> the package
# here.
TOOLKIT = {
    **{
        name: f"lib{name}"
        for name in ("cublas", "cufft", "cufile", "curand", "cusolver", "cusparse")
    },
    **{
        name: f"cuda-{name.removeprefix('cuda-')}"
        for name in ("cupti", "cuda-cupti", "nvrtc", "cuda-nvrtc")
    },
    "cudart": "cuda-cudart",
    "cuda-runtime": "cuda-cudart",
}
OTHERS = {
    "cudnn": "libcudnn",
    "cusparselt": "cusparselt-files",
    "nvshmem": "libnvshmem3",
    "typing-extensions": "typing_extensions",
}
# libcusparse brings nvJitLink. NVTX is a header, and is compiled in.
LEFT_OUT = {"nvjitlink", "nvtx"}


def wheels() -> Iterator[tuple[ReleaseLock, Component]]:
    for lock in release_locks(workspace()).values():
        yield from ((lock, c) for c in lock.components.values() if c.name == "torch")


def outputs(
    project: Workspace, lock: ReleaseLock, recipe: str, version: str
) -> dict[str, Rendered]:
    files = (project.build_config, project.variants / f"{lock.name}.yaml")
    found = render(find_recipes(project.recipes)[recipe], files, HERE)
    return {
        o.name: o
        for o in found
        if o.version == version and o.variant.get("python_tag", PYTHON) == PYTHON
    }


def asked(project: Workspace, component: Component) -> dict[str, Requirement]:
    """By the name of the distribution, or of cuda-toolkit's extra, without what says the CUDA
    major.
    """
    artefact = component.artefacts[f"{HERE}-{PYTHON}"]
    assert artefact
    (path,) = fetch([artefact], project, Index)
    with zipfile.ZipFile(path) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        texts = (
            BytesParser().parsebytes(wheel.read(name), headersonly=True).get_all("Requires-Dist")
            or []
        )
    environment = PLATFORMS[HERE].marker_environment | {"extra": "", "python_version": "3.13"}
    found = {}
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = re.sub(r"^nvidia-|-cu\d+$", "", requirement.name)
            found |= dict.fromkeys(requirement.extras or [name], requirement)
    return found


@pytest.mark.parametrize(
    ("lock", "component"), [pytest.param(*w, id=f"torch-{w[1].version}") for w in wheels()]
)
def test_pytorch_brings_what_its_wheel_asks_for(
    project: Workspace, lock: ReleaseLock, component: Component
) -> None:
    made = outputs(project, lock, "libtorch", component.version) | outputs(
        project, lock, "pytorch", component.version
    )
    depends = {}
    for name in ("libtorch", "pytorch"):
        depends |= dict(spec.partition(" ")[::2] for spec in made[name].depends)
    wanted = asked(project, component)
    for name in wanted.keys() & TOOLKIT.keys():
        assert TOOLKIT[name] in depends
    for name in wanted.keys() - TOOLKIT.keys() - LEFT_OUT:
        package = OTHERS.get(name, name)
        assert package in depends
        for lower in (
            s.version for s in wanted[name].specifier if s.operator in (">=", "==", "~=")
        ):
            stated = re.match(r"[>=]=([\d.]+)", depends[package])
            assert stated, name
            assert Version(stated[1]) >= Version(lower), name
    assert len(wanted) > 15


@pytest.mark.parametrize(
    ("lock", "component"), [pytest.param(*w, id=f"torch-{w[1].version}") for w in wheels()]
)
def test_the_oldest_toolkit_is_the_one_it_was_compiled_with(
    project: Workspace, lock: ReleaseLock, component: Component
) -> None:
    wanted = asked(project, component)
    if "cudart" in wanted:
        release = next(s.version for s in wanted["cudart"].specifier)
    else:
        # CUDA 12 has no manifest to require: its runtime has the release's number.
        release = next(s.version for s in wanted["cuda-runtime"].specifier)
    minor = ".".join(release.split(".")[:2])
    for recipe in ("libtorch", "pytorch"):
        for output in outputs(project, lock, recipe, component.version).values():
            for spec in (s for s in output.depends if s.startswith("cuda-version ")):
                assert spec.startswith(f"cuda-version >={minor},<"), (output.name, spec)
