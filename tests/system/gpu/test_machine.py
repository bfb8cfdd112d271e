"""What clients detect on this machine is what its driver says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from gpu_machine import Machine

pytest_plugins = ["gpu_fixtures"]


@pytest.fixture(scope="module")
def virtual() -> Mapping[str, str]:
    """The virtual packages that rattler detects: name -> version."""
    rattler = pytest.importorskip("rattler", reason="rattler is not installed for this Python")
    return {
        p.name.normalized: str(p.version)
        for p in (v.into_generic() for v in rattler.VirtualPackage.detect())
    }


def test_rattler_detects_the_driver_that_there_is(
    virtual: Mapping[str, str], machine: Machine
) -> None:
    """Without a driver: none."""
    assert virtual.get("__cuda") == machine.driver


def test_rattler_detects_the_oldest_gpu(virtual: Mapping[str, str], gpu: Machine) -> None:
    assert virtual.get("__cuda_arch") == gpu.arch
