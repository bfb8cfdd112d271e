"""Real packages come out as the same bytes when they are built again.

`ctk check --rebuild all` for all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import ctk
from ctk.build import sbom
from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.lock.model import release_locks

SAMPLE = 12
# Recipes without an artefact: what they make says which packages fit together, and has no file of
# NVIDIA's.
METADATA_ALONE = {"cuda-arch", "cuda-gpu", "cuda-gpu-builds", "cuda-version", "cuda-version-native"}
OF_THIS_REPOSITORY = {"ctk"}
# Metadata alone, a library that is laid out, and extension modules for one Python.
KINDS = (
    "noarch/cuda-version-13.0-native_*",
    f"{this_platform()}/libnvfatbin-13.*",
    "*/cuda-core-*-cuda13_py311*",
)


@pytest.fixture
def channel(built: Workspace, request: pytest.FixtureRequest) -> Path:
    """The channel of this machine, or the one of all platforms."""
    return (
        built.channel
        if request.param == "one platform"
        else Path(request.getfixturevalue("all_platforms"))
    )


CHANNELS = pytest.mark.parametrize(
    "channel",
    ["one platform", pytest.param("all platforms", marks=pytest.mark.sweep)],
    indirect=True,
)


def test_a_package_of_each_kind_is_the_same_again(built: Workspace) -> None:
    packages = [max(str(file) for file in built.channel.glob(f"{kind}.conda")) for kind in KINDS]
    done = ctk(built, "check", "--rebuild", "all", *packages)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{len(KINDS)} packages rebuilt, identical" in done.stdout


@pytest.mark.sweep
@CHANNELS
def test_a_sample_of_the_channel_is_the_same_again(built: Workspace, channel: Path) -> None:
    done = ctk(built, "check", "--rebuild", str(SAMPLE), str(channel))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{SAMPLE} packages rebuilt, identical" in done.stdout


@CHANNELS
def test_every_package_names_its_artefacts(built: Workspace, channel: Path) -> None:
    """The artefacts are those of a release lock, and the time in the index is that of the newest of
    them.
    """
    locked = {a for lock in release_locks(built).values() for a in lock.artefacts}
    seen, shown = set(), set()
    for index in sorted(channel.glob("*/repodata.json")):
        records = json.loads(index.read_text())["packages.conda"]
        shown |= {index.parent.name for _ in records}
        for file, record in records.items():
            found = sbom.of(index.parent / file)
            assert (found.name, found.version, found.build, found.subdir) == tuple(
                record[key] for key in ("name", "version", "build", "subdir")
            )
            origin = found.provenance
            assert record["timestamp"] == origin.timestamp * 1000
            for given in origin.inputs:
                assert given.artefact in locked
                seen.add(given.artefact.target)
            if origin.inputs:
                assert origin.timestamp == max(i.artefact.uploaded for i in origin.inputs)
            else:
                without_artefacts = METADATA_ALONE | OF_THIS_REPOSITORY
                assert origin.recipe in without_artefacts, "nothing else is metadata alone"
    assert {this_platform(), "noarch"} <= shown <= seen
