"""What a solver answers to the two requests this project exists for, from the channel that was built."""

from __future__ import annotations

import pytest
from rattler import Gateway

from ctk.errors import Unsolvable
from ctk.paths import Workspace
from ctk.platforms import this_platform
from ctk.solve import Pick, Scenario, solve

MAJOR_PACKAGES = ("cuda-bindings", "cuda-nvrtc", "libnvjitlink", "cuda-nvvm-impl")


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


def pick(where: Workspace, gateway: Gateway, specs: str, driver: str | None) -> Pick:
    scenario = Scenario(tuple(specs.split()), this_platform(), driver)
    return solve(scenario, [where.channel, where.base_channel], gateway)


@pytest.mark.parametrize("driver", ["12.4", "12.9", "13.0", "13.4", None])
@pytest.mark.parametrize("specs", ["cuda-core", "numba-cuda", "cuda-python", "cuda-version=12.6 numba-cuda"])
def test_a_pick_never_mixes_cuda_majors(built: Workspace, gateway: Gateway, specs: str, driver: str | None) -> None:
    found = pick(built, gateway, specs, driver)
    majors = {found.version(name).split(".")[0] for name in MAJOR_PACKAGES if found.record(name)}
    assert majors == {found.toolkit.split(".")[0]}
    core = found.record("cuda-core")
    if core is not None:
        assert str(core.build).startswith(f"cuda{found.toolkit.split('.')[0]}_")


@pytest.mark.parametrize("driver", ["12.4", "12.9"])
def test_a_driver_for_cuda_12_gets_cuda_12(built: Workspace, gateway: Gateway, driver: str) -> None:
    assert pick(built, gateway, "cuda-core", driver).toolkit.startswith("12.")


@pytest.mark.parametrize("driver", ["13.0", "13.4", None])
def test_a_newer_driver_and_a_machine_without_one_get_cuda_13(
    built: Workspace, gateway: Gateway, driver: str | None
) -> None:
    assert pick(built, gateway, "cuda-core", driver).toolkit.startswith("13.")


@pytest.mark.parametrize("driver", ["12.4", "12.9", "13.0", "13.4", None])
@pytest.mark.parametrize("minor", ["12.6", "12.9"])
def test_an_explicit_toolkit_is_exactly_that_toolkit(
    built: Workspace, gateway: Gateway, minor: str, driver: str | None
) -> None:
    found = pick(built, gateway, f"cuda-version={minor} numba-cuda", driver)
    assert found.toolkit == minor
    assert found.version("cuda-nvrtc").startswith(f"{minor}.")
    assert found.version("cuda-cudart").startswith(f"{minor}.")
    assert found.version("numba-cuda")


def test_a_toolkit_of_another_major_than_the_driver_s_is_refused(built: Workspace, gateway: Gateway) -> None:
    with pytest.raises(Unsolvable, match=r"cuda-version=13\.0 cuda-core"):
        pick(built, gateway, "cuda-version=13.0 cuda-core", "12.9")


def test_two_majors_cannot_be_asked_for_at_once(built: Workspace, gateway: Gateway) -> None:
    with pytest.raises(Unsolvable):
        pick(built, gateway, "cuda-version=12 cuda-bindings=13", None)


def test_cuda_bindings_13_brings_no_cudart(built: Workspace, gateway: Gateway) -> None:
    assert pick(built, gateway, "cuda-bindings=13", "13.4").record("cuda-cudart") is None


def test_run_exports_are_what_recipe_authors_rely_on(built: Workspace, gateway: Gateway) -> None:
    """What a downstream package gets from the host environment of DESIGN.md's example: the library, for its major."""
    import json

    exports = json.loads((built.channel / this_platform() / "run_exports.json").read_text())["packages.conda"]
    for minor in ("12.9", "13.0"):
        found = pick(built, gateway, f"cuda-version={minor} cuda-cudart-dev", None)
        record = found.record("cuda-cudart-dev")
        assert record is not None
        (weak,) = exports[record.file_name]["run_exports"]["weak"]
        name, bounds = weak.split(" ", 1)
        assert name == "cuda-cudart"
        lower, upper = bounds.split(",")
        assert lower.startswith(">=")
        assert upper == f"<{int(minor.split('.')[0]) + 1}.0a0"
