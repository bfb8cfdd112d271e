"""A CTK release of which the index lacks something is refused."""

from __future__ import annotations

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import Incomplete
from ctk.lock.model import load
from kit.ctk_release import Have, Run, snapshot
from kit.fake_ctk import WHEELS_13, add_component
from kit.fake_index import FakeIndex
from kit.tables import cells

pytest_plugins = ["kit.ctk_release_fixtures"]


def lose(index: FakeIndex, distribution: str, part: str = "") -> None:
    """Take the wheels whose name has ``part`` from the index."""
    kept = {
        file: data for file, data in index.projects.pop(distribution).items() if part not in file
    }
    if kept:
        index.projects[distribution] = kept


@pytest.fixture
def lacking(index: FakeIndex) -> FakeIndex:
    """13.4 without one wheel, without a version, and without a whole distribution."""
    lose(index, "nvidia-nvvm", "win_amd64")
    lose(index, "nvidia-cuda-nvcc", "13.4.92")
    add_component(index, "nvidia-cuda-nvcc", "13.4.91", WHEELS_13)
    lose(index, "nvidia-cufile")
    return index


def test_an_incomplete_release_is_refused_and_every_missing_artefact_named(
    run: Run, here: Workspace, lacking: FakeIndex
) -> None:
    with pytest.raises(Incomplete) as error:
        run("add", "13.4", "--write")
    assert error.value.exit_code == 22
    assert error.value.cause.splitlines() == [
        "the package index lacks artefacts of cuda-toolkit 13.4.3: 3 problems",
        "  - 13.4 cufile: nvidia-cufile ==1.19.1.55.* for linux",
        (
            "  - 13.4 nvcc: nvidia-cuda-nvcc ==13.4.92.* for linux-64, linux-aarch64, win-64,"
            " win-arm64"
        ),
        "  - 13.4 nvvm: nvidia-nvvm 13.4.92 for win-64",
    ]
    assert snapshot(here) == {}


def test_check_says_how_complete_each_release_is(run: Run, index: FakeIndex, have: Have) -> None:
    have("12.9", "13.4")
    shown = run("check")
    assert "complete on the index: 2 toolkit releases (-v: each)" in shown
    assert "no toolkit on the index is newer than 13.4.3" in shown
    rows = cells(run("check", "-v"))
    assert (
        "cuda-12.9",
        "12.9.2.0",
        "11 of 11",
        "complete",
    ) in rows  # cudart, nvcc, nvrtc, crt, nvvm twice; cufile
    assert (
        "cuda-13.4",
        "13.4.3",
        "25 of 25",
        "complete",
    ) in rows  # six components four times; cufile

    lose(index, "nvidia-nvvm", "win_a")
    shown = run("check")
    assert (
        "cuda-13.4",
        "13.4.3",
        "23 of 25",
        "nvvm: nvidia-nvvm 13.4.92 for win-64, win-arm64",
    ) in cells(shown)
    assert "cuda-13.4" not in run("check", "12.9")
    assert "completeness" not in run("check", "python-13")


def test_a_release_older_than_every_locked_one_is_not_asked_for(
    run: Run, index: FakeIndex, have: Have
) -> None:
    have("13.4")
    index.add_wheel("cuda-toolkit", "11.8.0", requires=["of another time"])
    shown = run("check", "-v")
    assert "11.8.0" in shown
    assert not [row for row in cells(shown) if row[0] == "cuda-11.8" and len(row) == 4]


@pytest.mark.parametrize("how", ["yanked", "candidate"])
def test_yanked_files_and_candidates_do_not_count(
    run: Run, index: FakeIndex, have: Have, how: str
) -> None:
    have("13.4")
    if how == "yanked":
        index.yanked.add("nvidia_nvvm-13.4.92-py3-none-win_amd64.whl")
    else:
        lose(index, "nvidia-nvvm")
        add_component(index, "nvidia-nvvm", "13.4.92rc1", WHEELS_13)
    with pytest.raises(Incomplete, match=r"13\.4 nvvm: nvidia-nvvm .* for .*win-64"):
        run("add", "13.4", "--write")


def test_a_newer_build_that_is_uploaded_piece_by_piece_waits(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    for wheels, version in ((WHEELS_13[:2], "13.4.92"), (WHEELS_13, "13.4.92.1")):
        add_component(index, "nvidia-nvvm", "13.4.92.1", wheels)
        run("add", "13.4", "--write")
        assert load(here.variants / "cuda-13.4.lock").components["nvvm"].version == version


def test_of_two_machines_of_a_system_one_is_enough_where_the_marker_names_none(
    run: Run, here: Workspace, index: FakeIndex
) -> None:
    lose(index, "nvidia-cuda-nvrtc-cu12", "aarch64")
    run("add", "12.9", "--write")
    assert (
        load(here.variants / "cuda-12.9.lock").components["nvrtc"].artefacts["linux-aarch64"]
        is None
    )
    lose(index, "nvidia-cuda-nvrtc-cu12", "manylinux")
    with pytest.raises(
        Incomplete, match=r"12\.9 nvrtc: nvidia-cuda-nvrtc-cu12 12\.9\.86 for linux$"
    ):
        run("add", "12.9")
