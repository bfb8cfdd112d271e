"""What clients detect on this machine is what its driver says, and the pick is the one that the rule asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from gpu_environment import ROOT, Environment
from gpu_facts import facts, oracle
from gpu_machine import Machine

pytest_plugins = ["gpu_fixtures"]


@pytest.fixture(scope="module")
def virtual() -> Mapping[str, str]:
    """The virtual packages that rattler detects: name -> version."""
    rattler = pytest.importorskip("rattler", reason="rattler is not installed for this Python")
    return {p.name.normalized: str(p.version) for p in (v.into_generic() for v in rattler.VirtualPackage.detect())}


def test_rattler_detects_the_driver_that_there_is(virtual: Mapping[str, str], machine: Machine) -> None:
    """Without a driver: none."""
    assert virtual.get("__cuda") == machine.driver


def test_rattler_detects_the_oldest_gpu(virtual: Mapping[str, str], gpu: Machine) -> None:
    assert virtual.get("__cuda_arch") == gpu.arch


def test_the_pick_for_this_machine_is_the_oracles(environment: Environment, gpu: Machine) -> None:
    """By the rule in its own words, from the facts of all locked releases; with the Python that is there."""
    rule, known = oracle(ROOT), facts(ROOT)
    minors = {toolkit.minor for toolkit in known.toolkits}
    if environment.name not in ("none", *minors):
        pytest.skip(f"{environment.name} is no locked release")
    python = environment.needs("python")
    question = rule.Question(
        request="numba-cuda" if environment.record("numba-cuda") else "cuda-core",
        subdir=python["subdir"],
        driver=gpu.driver,
        arch=gpu.arch,
        python=re.match(r"\d+\.\d+", python["version"])[0],
        pin=None if environment.name == "none" else environment.name,
    )
    right = rule.expected(known, question)
    assert (environment.toolkit, environment.fit) == (right.toolkit, right.fit)
