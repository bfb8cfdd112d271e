"""Clients that see the driver and not the GPU: what metadata can do for them, and what it would
cost.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.plan.plan import Request, small
from ctk.solve import channels
from ctk.solve.machine import virtual_packages
from ctk.solve.solve import Catalogue, Scenario

V100, H100 = "7.0", "9.0"
REQUEST = ("cuda-gpu", "cuda-core")


@pytest.fixture(scope="module")
def default(project: Workspace) -> channels.Repodata:
    return channels.planned(project, ["linux-64"], small(Request(), project))


def asking_for_the_gpu(content: channels.Repodata) -> channels.Repodata:
    """The same, but that the native build of 13.0 depends on ``__cuda_arch``."""
    changed = copy.deepcopy({subdir: dict(packages) for subdir, packages in content.items()})
    for record in changed["noarch"]["packages.conda"].values():
        if (record["name"], record["version"]) == ("cuda-version", "13.0") and record[
            "build"
        ].startswith("native"):
            record["depends"].append("__cuda_arch >=7.5")
    return changed


def picks(
    content: channels.Repodata, folder: Path, driver: str, *pins: str
) -> dict[str | None, str]:
    """The GPU that a client sees, None for none -> the toolkit."""
    catalogue = Catalogue(channels.write(content, folder).folders, "linux-64")
    found = {
        gpu: catalogue.pick(Scenario((*REQUEST, *pins), "linux-64", driver, gpu))
        for gpu in (V100, H100, None)
    }
    return {gpu: f"{pick.toolkit} {pick.fit}" for gpu, pick in found.items() if pick}


def test_no_metadata_gives_both_gpus_of_a_driver_for_13_0_their_toolkit(
    default: channels.Repodata, tmp_path: Path
) -> None:
    seen = [p.name.normalized for p in virtual_packages("linux-64", "13.0", None)]
    assert seen == [
        "__unix",
        "__linux",
        "__glibc",
        "__archspec",
        "__cuda",
    ], "nothing of these is about the GPU"
    with_gpu = {V100: "12.9 native", H100: "13.0 native"}
    assert picks(default, tmp_path / "ours", "13.0") == {**with_gpu, None: "13.0 native"}
    assert picks(default, tmp_path / "ours", "13.0", "cuda-version=12")[None] == "12.9 native", (
        "what users are told"
    )

    other = asking_for_the_gpu(default)
    assert picks(other, tmp_path / "other", "13.0") == {**with_gpu, None: "12.9 native"}
    assert picks(other, tmp_path / "other", "13.0", "cuda-version=13")[None].endswith("compat")
    assert [picks(default, tmp_path / "ours", f"13.{minor}")[None] for minor in (1, 2)] == [
        "13.0 native"
    ] * 2
    assert [picks(other, tmp_path / "other", f"13.{minor}")[None] for minor in (1, 2)] == [
        "12.9 native"
    ] * 2
