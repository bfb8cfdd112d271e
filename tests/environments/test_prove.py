"""The two environments, created from the channel alone and used."""

from __future__ import annotations

import re

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import ProofFailed
from ctk.core.platforms import this_platform
from ctk.env import prove
from ctk.env.environment import create
from ctk.env.prove import REQUESTS, ProofRequest
from ctk.solve.machine import detected_driver
from ctk.solve.solve import Scenario, solve


@pytest.fixture(scope="module")
def proof(built: Workspace) -> str:
    return ctk(built, "prove", check=True).stdout


def value(proof: str, what: str) -> list[str]:
    return re.findall(rf"│ {re.escape(what)} +│ (.*?) +│", proof)


def test_both_requests_work(proof: str) -> None:
    assert proof.rstrip().endswith("both requests work")
    assert "unsolvable" not in proof


def test_cuda_core_compiles_to_a_cubin_and_links_with_nvjitlink(proof: str) -> None:
    assert int(value(proof, "cubin bytes")[0]) > 1000
    assert int(value(proof, "linked bytes")[0]) > 1000


def test_the_pinned_request_compiles_with_exactly_that_toolkit(proof: str) -> None:
    # NVRTC 12.6 writes PTX ISA 8.5: the release lock's measured fact.
    assert value(proof, "ptx isa") == ["8.5"]


def test_numba_cuda_is_the_target_that_answers_to_numba_dot_cuda(proof: str) -> None:
    assert value(proof, "target") == ["numba_cuda/numba/cuda/__init__.py"]


def test_with_a_gpu_the_numbers_are_right(proof: str) -> None:
    if detected_driver() is None:
        pytest.skip("no GPU on this machine: kernels are compiled and linked, not run")
    assert value(proof, "relative difference")
    assert value(proof, "largest difference, cubin")


def test_a_second_proof_makes_nothing_again(built: Workspace, proof: str) -> None:
    again = ctk(built, "prove", check=True).stderr
    assert again.count("environment unchanged") == len(REQUESTS)


def test_an_environment_that_does_not_work_is_an_error_with_what_it_printed(built: Workspace) -> None:
    scenario = Scenario(("cuda-pathfinder",), this_platform())
    pick = solve(scenario, [built.channel, built.base_channel])
    environment = create(pick, built.environments / "test-pathfinder-only", built.cache / "packages")
    with pytest.raises(ProofFailed, match="No module named") as error:
        prove.use(ProofRequest("broken", ("cuda-pathfinder",), ("cuda_core.py",)), environment)
    assert str(environment.python) in error.value.step
