"""torchvision, torchaudio and torchcodec go with the PyTorch of their lock, and with the toolkit
that they were compiled with.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from rattler import Version as CondaVersion
from rattler import VersionSpec

from ctk.core.checkout import Workspace, workspace
from ctk.fetch.fetch import fetch
from ctk.index.index import Index
from ctk.lock.components import EXTENDED, WITHOUT_TOOLKIT
from ctk.lock.model import Component, ReleaseLock, release_locks
from ctk.plan.recipes import find_recipes
from ctk.plan.render import render
from ctk.plan.rendered import Rendered

PYTHON = "cp311"


def wheels() -> Iterator[tuple[ReleaseLock, Component]]:
    for lock in release_locks(workspace()).values():
        for component in lock.components.values():
            if component.name.removesuffix(WITHOUT_TOOLKIT) in EXTENDED:
                yield lock, component


EACH = [pytest.param(*w, id=f"{w[0].name}-{w[1].name}-{w[1].version}") for w in wheels()]


def opened(project: Workspace, component: Component) -> Path:
    """Its wheel for the first platform that it has one for."""
    artefact = next(a for a in component.artefacts.values() if a)
    (path,) = fetch([artefact], project, Index)
    return path


def output(project: Workspace, lock: ReleaseLock, component: Component) -> Rendered:
    subdir = next(a for a in component.artefacts.values() if a).subdir
    files = (project.build_config, project.variants / f"{lock.name}.yaml")
    found = render(find_recipes(project.recipes)[component.name], files, subdir)
    name = component.name.removesuffix(WITHOUT_TOOLKIT)
    return next(
        o
        for o in found
        if (o.name, o.version, o.variant["python_tag"]) == (name, component.version, PYTHON)
    )


def spec(package: Rendered, name: str) -> tuple[str, str]:
    """The version and the build that a package depends on, of another one."""
    found = next(need for need in package.depends if need.split()[0] == name)
    _, version, build = found.split()
    return version, build


@pytest.mark.parametrize(("lock", "component"), EACH)
def test_it_goes_with_the_locked_pytorch_that_its_wheel_accepts(
    project: Workspace, lock: ReleaseLock, component: Component
) -> None:
    cpu = component.name.endswith(WITHOUT_TOOLKIT)
    locked = {
        c.version for c in lock.components.values() if c.name == ("torch-cpu" if cpu else "torch")
    }
    version, build = spec(output(project, lock, component), "pytorch")
    accepted = {v for v in locked if VersionSpec(version).matches(CondaVersion(v))}
    assert accepted, f"no locked PyTorch of {locked} is {version}"
    assert build == ("cpu_py*" if cpu else f"cuda{lock.major}_*")
    with zipfile.ZipFile(opened(project, component)) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        stated = BytesParser().parsebytes(wheel.read(name), headersonly=True)
    for text in stated.get_all("Requires-Dist") or []:
        need = Requirement(text)
        if need.name == "torch":
            assert all(Version(v) in need.specifier for v in accepted)


@pytest.mark.parametrize(
    ("lock", "component"), [e for e in EACH if not e.values[1].name.endswith(WITHOUT_TOOLKIT)]
)
def test_its_oldest_toolkit_is_the_one_that_it_was_compiled_with(
    project: Workspace, lock: ReleaseLock, component: Component
) -> None:
    with zipfile.ZipFile(opened(project, component)) as wheel:
        text = wheel.read(f"{component.distribution}/version.py").decode()
    major, minor = re.search(r"\+cu(\d\d)(\d)'", text).groups()  # type: ignore[union-attr]
    version, build = spec(output(project, lock, component), "cuda-version")
    assert version.startswith(f">={major}.{minor},<")
    assert build in ("native_*", "compat_*")


def test_the_page_says_which_versions_go_together(project: Workspace) -> None:
    page = (project.root / "docs" / "pytorch-jax-cupy.md").read_text(encoding="utf-8")
    table = page.partition("### torchvision, torchaudio and torchcodec")[2].partition("\n- ")[0]
    rows = re.findall(r"^\| (\d[^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", table, re.M)
    told = {
        row[0].partition(",")[0].strip(): [cell.partition(",")[0].strip() for cell in row[1:]]
        for row in rows
    }
    locks = release_locks(project).values()
    torch = {c.version for lock in locks for c in lock.components.values() if c.name == "torch"}
    assert told.keys() == torch
    for lock in (lock for lock in locks if lock.is_library_set):
        for component in lock.components.values():
            if component.name in EXTENDED:
                version, _ = spec(output(project, lock, component), "pytorch")
                column = list(EXTENDED).index(component.name)
                for row in told:
                    if VersionSpec(version).matches(CondaVersion(row)):
                        assert told[row][column] == component.version
