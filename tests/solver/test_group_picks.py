"""What a machine gets that asks for a group: all of one toolkit, the one that fits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rattler import Gateway

from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.lock.lock import release_locks
from ctk.solve.solve import Pick, Scenario, solve
from ctk.verify import channels
from ctk.verify.channels import Channels

LINUX = "linux-64"


@pytest.fixture(scope="module")
def planned(project: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Channels:
    return channels.write(channels.planned(project, [LINUX, "win-64"]), tmp_path_factory.mktemp("planned"))


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


Ask = Callable[..., Pick]


@pytest.fixture
def pick(planned: Channels, gateway: Gateway) -> Ask:
    return lambda specs, driver, subdir=LINUX: solve(
        Scenario(tuple(specs.split()), subdir, driver, None), planned.folders, gateway
    )


@pytest.mark.parametrize("subdir", [LINUX, "win-64"])
@pytest.mark.parametrize(
    ("specs", "driver", "toolkit"),
    [
        ("cuda-runtime", "13.0", "13.0 native"),
        ("cuda-runtime", "12.9", "12.9 native"),
        ("cuda-runtime", "12.0", "12.0 native"),
        ("cuda-runtime=12", "13.0", "12.9 native"),
        ("cuda-version=12.6 cuda-libraries-dev", "13.0", "12.6 native"),
        ("cuda-version=12.6 cuda-libraries-dev", None, "12.6 compat"),
        ("cuda-libraries-dev=12.6", "12.2", "12.6 compat"),
        ("cuda-toolkit", "13.0", "13.0 native"),
        ("cuda", "13.2", "13.2 native"),
        ("cuda-toolkit=13.4", "13.0", "13.4 compat"),
        ("cuda-tools", "12.9", "12.9 native"),
    ],
)
def test_a_group_is_that_of_the_toolkit_that_fits(
    pick: Ask, project: Workspace, specs: str, driver: str | None, toolkit: str, subdir: str
) -> None:
    found = pick(specs, driver, subdir)
    assert f"{found.toolkit} {found.fit}" == toolkit
    lock = release_locks(project)[f"cuda-{found.toolkit}"]
    group = re.split(r"[ =]", specs.split()[-1])[0]
    assert found.version(group) == lock.release
    # What it brings is of this release: every version is one that the lock has.
    known = {component.version for component in lock.components.values()} | {lock.release, lock.minor}
    ours = [r for r in found.records if any(need.startswith("cuda-version ") for need in r.depends)]
    assert len(ours) > 10
    newer = {"cuda-cccl", f"cuda-cccl_{subdir}"} if found.toolkit == "12.0" else set()
    assert {r.name.normalized for r in ours if str(r.version) not in known} <= newer


def test_a_toolkit_of_a_major_without_a_compiler_is_refused(pick: Ask) -> None:
    """On a driver for 12.9 there is no nvcc that runs: better no toolkit than one without."""
    for specs in ("cuda-toolkit", "cuda", "cuda-compiler", "cuda-minimal-build"):
        with pytest.raises(Unsolvable):
            pick(specs, "12.9")
        with pytest.raises(Unsolvable):
            pick(f"cuda-version=12.9 {specs}", "13.0")
        assert pick(specs, "13.0").toolkit == "13.0"


def test_a_runtime_has_no_headers_and_a_toolkit_compiles_disassembles_and_links(pick: Ask) -> None:
    runtime, toolkit = ({r.name.normalized for r in pick(f"cuda-{g}", "13.5").records} for g in ("runtime", "toolkit"))
    assert {"libcublas", "libnpp", "cuda-nvrtc", "cuda-cudart"} <= runtime
    assert not [name for name in runtime if "-dev" in name or name.startswith(("cuda-nvcc", "gcc"))]
    assert {"cuda-nvcc", "cuda-cuobjdump", "cuda-nvdisasm", "cuda-cupti-dev", "libcusolver-dev"} <= toolkit
    assert "cxx-compiler" in toolkit
