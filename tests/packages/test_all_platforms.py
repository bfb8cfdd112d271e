"""The newest release, built for all four platforms from this machine.

A sweep: the golden files hold the recipes of all platforms, the planned index their names, and CI builds each platform.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import NEWEST, ctk
from ctk.core.checkout import Workspace
from ctk.core.platforms import PLATFORMS
from ctk.plan.plan import Request, plan, published_set, python_tags, small

pytestmark = pytest.mark.sweep


def names(channel: Path, subdir: str) -> set[str]:
    records = json.loads((channel / subdir / "repodata.json").read_text())["packages.conda"]
    return {f"{subdir}/{file}" for file in records}


def test_every_planned_package_is_in_the_channel(project: Workspace, all_platforms: Path) -> None:
    request = small(Request(releases=[NEWEST], platforms=list(PLATFORMS)), project)
    planned = plan(published_set(project), request, python_tags(project.build_config))
    wanted = {f"{o.subdir}/{o.file_name}" for b in planned.builds for o in b.outputs}
    assert wanted == {name for subdir in [*PLATFORMS, "noarch"] for name in names(all_platforms, subdir)}


@pytest.mark.parametrize("subdir", PLATFORMS)
def test_a_platform_has_the_whole_set(all_platforms: Path, subdir: str) -> None:
    found = {file.rsplit("/", 1)[1].rsplit("-", 2)[0] for file in names(all_platforms, subdir)}
    components = {"cuda-cudart", "cuda-nvrtc", "cuda-nvvm-impl", "cuda-nvcc-tools", "libnvjitlink", "libnvfatbin"}
    projects = {"cuda-bindings", "cuda-core"}
    assert components | projects <= found
    # cuFile is for Linux; numba-cuda has no wheel for Windows on ARM.
    assert ("libcufile" in found) == subdir.startswith("linux")
    assert ("numba-cuda" in found) == (subdir != "win-arm64")


def test_the_audit_passes_on_all_of_them(project: Workspace, all_platforms: Path) -> None:
    done = ctk(project, "audit", str(all_platforms), "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["packages"] == sum(len(names(all_platforms, s)) for s in [*PLATFORMS, "noarch"])
    assert not [f for f in report["findings"] if f["severity"] == "error"]
