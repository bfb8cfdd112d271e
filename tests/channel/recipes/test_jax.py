"""JAX brings CUDA where the driver has it.

What its plugin asks for comes with the packages, and is found in them.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ctk.core.checkout import Workspace, workspace
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.model import Component, ReleaseLock, release_locks
from ctk.plan.recipes import find_recipes
from ctk.plan.render import render
from ctk.plan.rendered import Rendered

# What the extra `with-cuda` names -> the component of a toolkit that it is, and the package that
# has what JAX opens.
TOOLKIT = {
    "cublas": ("cublas", "libcublas"),
    "cuda-cupti": ("cupti", "cuda-cupti"),
    "cuda-nvcc": ("nvcc", "cuda-nvcc-tools"),
    "cuda-nvrtc": ("nvrtc", "cuda-nvrtc"),
    "cuda-runtime": ("cudart", "cuda-cudart"),
    "cufft": ("cufft", "libcufft"),
    "cusolver": ("cusolver", "libcusolver"),
    "cusparse": ("cusparse", "libcusparse"),
    "nvjitlink": ("nvjitlink", "libnvjitlink"),
    "nvvm": ("nvvm", "cuda-nvvm-tools"),
}
LIBRARIES = {"cudnn": "libcudnn", "nccl": "nccl", "nvshmem": "libnvshmem3"}
OLDEST = {"12": Version("12.6"), "13": Version("13.0")}  # toolkits that the ties let in


def plugins() -> Iterator[tuple[ReleaseLock, Component]]:
    for lock in release_locks(workspace()).values():
        for name, component in lock.components.items():
            if name.startswith("jax-cuda-plugin"):
                yield lock, component


def outputs(project: Workspace, lock: ReleaseLock, recipe: str, version: str) -> list[Rendered]:
    files = (project.build_config, project.variants / f"{lock.name}.yaml")
    return [
        o
        for o in render(find_recipes(project.recipes)[recipe], files, "linux-64")
        if o.version == version
    ]


def asked(project: Workspace, component: Component) -> dict[str, Requirement]:
    """By the names of NVIDIA's distributions, without what says the CUDA major."""
    artefact = next(
        a for target, a in component.artefacts.items() if a and target.startswith("linux-64")
    )
    (path,) = fetch([artefact], project, Index)
    with zipfile.ZipFile(path) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        texts = BytesParser().parsebytes(wheel.read(name)).get_all("Requires-Dist") or []
    found = (Requirement(text) for text in texts if "with-cuda" in text)
    return {
        r.name.removeprefix("nvidia-").removesuffix("-cu12").removesuffix("-cu13"): r for r in found
    }


@pytest.mark.parametrize(
    ("lock", "component"), [pytest.param(*p, id=f"{p[1].name}-{p[1].version}") for p in plugins()]
)
def test_the_plugin_brings_what_its_wheel_asks_for(
    project: Workspace, lock: ReleaseLock, component: Component
) -> None:
    wanted = asked(project, component)
    assert not wanted.keys() - TOOLKIT.keys() - LIBRARIES.keys()
    toolkits = [t for t in release_locks(project).values() if t.is_ctk and t.major == lock.major]
    for output in outputs(project, lock, "jax-cuda-plugin", component.version):
        depends = dict(spec.partition(" ")[::2] for spec in output.depends)
        tie = depends["cuda-version"]
        assert tie.startswith((f">={OLDEST[lock.major]},", f">={lock.major},"))
        if output.name != "jax-cuda-pjrt":
            continue
        for name, requirement in wanted.items():
            if name in LIBRARIES:
                lower = next(s.version for s in requirement.specifier if s.operator == ">=")
                stated = depends[LIBRARIES[name]].removeprefix(">=").partition(",")[0]
                assert Version(stated) >= Version(lower)
            elif name in TOOLKIT:
                part, package = TOOLKIT[name]
                assert package in depends
                for toolkit in toolkits:
                    if Version(toolkit.minor) >= OLDEST[lock.major]:
                        assert toolkit.components[part].version in requirement.specifier, (
                            toolkit.name,
                            name,
                        )


SCRIPT = Path("recipes/jax/edit.sh")
ANCHOR = "cuda_path = _cuda_path()\n"


def edit(project: Workspace, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    file = folder / "jax" / "_src" / "lib" / "__init__.py"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    command = ["bash", "-euo", "pipefail", str(project.root / SCRIPT)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("ptxas", "known"), [(True, None), (False, None), (True, "/elsewhere")])
def test_jax_finds_ptxas_in_its_environment(
    project: Workspace, tmp_path: Path, ptxas: bool, known: str | None
) -> None:
    done = edit(project, tmp_path, f"import os, sys\ndef _cuda_path(): return {known!r}\n{ANCHOR}")
    assert done.returncode == 0 and done.stdout == "jax/_src/lib/__init__.py\n"
    prefix = tmp_path / "env"
    (prefix / "bin").mkdir(parents=True)
    if ptxas:
        (prefix / "bin" / "ptxas").touch()
    code = (
        f"import sys; sys.base_prefix = {str(prefix)!r}; from lib import cuda_path;"
        " print(cuda_path)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "jax" / "_src")}
    said = subprocess.run(
        ["python3", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(known or (prefix if ptxas else None))


@pytest.mark.parametrize("text", ["", "cuda_path = other()\n", ANCHOR * 2])
def test_a_jax_that_looks_elsewhere_is_not_edited_blindly(
    project: Workspace, tmp_path: Path, text: str
) -> None:
    done = edit(project, tmp_path, text)
    assert done.returncode and "see how jax finds ptxas now" in done.stderr


def test_cuda_ranks_above_the_build_for_cpus(project: Workspace) -> None:
    for lock, component in plugins():
        cuda = [
            o
            for o in outputs(project, lock, "jax-cuda-plugin", component.version)
            if o.name == "jaxlib"
        ]
        cpu = [o for o in outputs(project, lock, "jaxlib", component.version) if o.name == "jaxlib"]
        assert cuda and cpu
        assert all(o.build_string.startswith(f"cuda{lock.major}_py") for o in cuda)
        assert all(o.build_string.startswith("cpu_py") and not o.track_features for o in cpu)
        assert max(o.build_number for o in cpu) < min(o.build_number for o in cuda)
