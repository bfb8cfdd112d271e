"""Real packages come out as the same bytes when they are built again: a sample here, `ctk rebuild --all` for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import ctk
from ctk.build import sbom
from ctk.channel import states
from ctk.core.checkout import Workspace
from ctk.lock.lock import release_locks

SAMPLE = 12


@pytest.mark.parametrize("platforms", ["one", "all"])
def test_a_sample_of_the_channel_is_the_same_again(built: Workspace, all_platforms: Path, platforms: str) -> None:
    folder = built.channel if platforms == "one" else all_platforms
    done = ctk(built, "rebuild", "--sample", str(SAMPLE), "--channel", str(folder))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{SAMPLE} packages rebuilt, identical" in done.stdout


def test_every_package_says_what_it_is_made_of(built: Workspace, all_platforms: Path) -> None:
    """The artefacts are those of a release lock, and the time in the index is that of the newest of them."""
    locked = {a for lock in release_locks(built).values() for a in lock.artefacts}
    seen = set()
    for folder in (built.channel, all_platforms):
        for index in sorted(folder.glob("*/repodata.json")):
            records = json.loads(index.read_text())["packages.conda"]
            for file, record in records.items():
                said = sbom.of(index.parent / file)
                assert (said.name, said.version, said.build, said.subdir) == tuple(
                    record[key] for key in ("name", "version", "build", "subdir")
                )
                origin = said.provenance
                assert record["timestamp"] == origin.timestamp * 1000
                for given in origin.inputs:
                    assert given.artefact in locked
                    seen.add(given.artefact.target)
                if origin.inputs:
                    assert origin.timestamp == max(i.artefact.uploaded for i in origin.inputs)
                else:
                    assert origin.recipe in ("cuda-arch", "cuda-version"), "nothing else is metadata alone"
    assert {"linux-64", "linux-aarch64", "win-64", "noarch"} <= seen


def test_packages_of_one_name_are_one_file_in_both_channels(built: Workspace, all_platforms: Path) -> None:
    """Another run, with another request, made the second channel."""
    here = {(p.parent.name, p.name): p for p in states.packages(built.channel)}
    there = {(p.parent.name, p.name): p for p in states.packages(all_platforms)}
    common = here.keys() & there.keys()
    if not common:
        pytest.fail("the channels have no package in common")
    for place in common:
        assert here[place].read_bytes() == there[place].read_bytes(), place
