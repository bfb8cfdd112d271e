"""Machines that cannot exist: no driver for that CUDA version runs that GPU."""

from __future__ import annotations

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue
from ctk.lock.model import release_locks
from ctk.solve.machine import FIRST_DRIVER, impossible, refuse_impossible
from ctk.verify.oracle import OracleFacts, version
from ctk.verify.scenarios import matrix


@pytest.mark.parametrize(
    ("driver", "gpu", "why"),
    [
        (
            "13.1",
            "7.0",
            (
                "no driver for CUDA 13.1 runs a GPU 7.0: R580, for CUDA 13.0, is the last branch"
                " for Volta"
            ),
        ),
        ("13.0", "7.0", ""),  # its own branch
        ("13.1", "7.5", ""),
        (
            "12.4",
            "10.0",
            (
                "a driver for CUDA 12.4 does not know a GPU 10.0: drivers for CUDA 12.8 are the"
                " first for Blackwell"
            ),
        ),
        (
            "12.7",
            "13.0",
            (
                "a driver for CUDA 12.7 does not know a GPU 13.0: drivers for CUDA 12.8 are the"
                " first for Blackwell and newer GPUs"
            ),
        ),
        ("12.8", "10.0", ""),
        ("12.4", "9.0", ""),
        ("13.1", None, ""),
        (None, None, ""),
    ],
)
def test_a_driver_before_the_first_or_after_the_last_one_for_a_gpu_is_impossible(
    driver: str | None, gpu: str | None, why: str
) -> None:
    assert impossible(driver, gpu) == why


def test_a_driver_and_a_gpu_that_are_swapped_are_said_to_be() -> None:
    for driver, gpu, step in (
        ("9.0", "13.0", "are the two swapped? write --driver 13.0 --arch 9.0"),
        ("13.1", "7.0", "state a driver that runs this GPU, or another GPU"),
    ):
        with pytest.raises(BadValue) as raised:
            refuse_impossible((driver, gpu))
        assert raised.value.step == step


def test_drivers_after_13_0_run_no_gpu_older_than_turing(project: Workspace) -> None:
    old = {
        gpu
        for lock in release_locks(project).values()
        if lock.facts
        for gpu in lock.facts.gpu_architectures
    }
    for gpu in sorted(old):
        assert bool(impossible("13.1", gpu)) == (version(gpu) < (7, 5)), gpu
        assert not impossible("13.0", gpu)


def test_the_first_toolkit_for_blackwell_is_as_old_as_its_first_driver(project: Workspace) -> None:
    """NVIDIA's page states it for 10.0 and 12.0; NVRTC is measured."""
    known = {
        lock.minor: lock.facts.gpu_architectures
        for lock in release_locks(project).values()
        if lock.facts
    }
    for gpu in ("10.0", "12.0"):
        assert min((minor for minor in known if gpu in known[minor]), key=version) == FIRST_DRIVER
    assert not {
        g
        for minor in known
        if version(minor) < (12, 8)
        for g in known[minor]
        if version(g) >= (10, 0)
    }


def test_machines_that_cannot_exist_are_no_part_of_the_matrix(known: OracleFacts) -> None:
    every = matrix(known, ["cp312"])
    there = {(q.driver, q.arch) for q in (*every.covering(), *every.sample(2000, 1))} | set(
        every.machines
    )
    assert {("13.0", "7.0"), ("12.8", "10.0")} <= there and ("12.4", "10.0") not in there
    assert not {machine for machine in there if impossible(*machine)}
