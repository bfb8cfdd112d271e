"""A solver's picks from the built channel: a toolkit that runs on the machine, and packages of its
CUDA major.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rattler import Gateway

from conftest import NEWEST
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import NOARCH, this_platform
from ctk.lock.model import release_locks
from ctk.plan.plan import write_repodata
from ctk.release.choose import COOLDOWN
from ctk.solve.channels import Channels
from ctk.solve.solve import Pick, Scenario, solve

MAJOR_PACKAGES = ("cuda-bindings", "cuda-nvrtc", "libnvjitlink", "cuda-nvvm-impl")


@pytest.fixture(scope="module")
def gateway() -> Gateway:
    return Gateway()


def pick(
    where: Workspace, gateway: Gateway, specs: str, driver: str | None, arch: str | None = None
) -> Pick:
    scenario = Scenario(tuple(specs.split()), this_platform(), driver, arch)
    return solve(scenario, [where.channel, where.base_channel], gateway)


def check(found: Pick, toolkit: str) -> None:
    """The toolkit is ``13.0 native`` or the like, and no package is for another CUDA major or of
    the other fit.
    """
    assert f"{found.toolkit} {found.fit}" == toolkit
    major = found.toolkit.split(".")[0]
    assert {found.version(name).split(".")[0] for name in MAJOR_PACKAGES if found.record(name)} == {
        major
    }
    core = found.record("cuda-core")
    assert core is None or str(core.build).startswith(f"cuda{major}_")
    for record in found.records:
        ties = [need for need in record.depends if need.startswith("cuda-version ")]
        # cuda-pathfinder has one build, which spans both majors; files have one for both fits.
        if record.name.normalized != "cuda-pathfinder" and not record.name.normalized.endswith(
            "-files"
        ):
            assert all(need.endswith(f" {found.fit}_*") for need in ties), record


@pytest.mark.parametrize(
    ("specs", "driver", "arch", "toolkit"),
    [
        ("cuda-core", "13.2", "9.0", "13.0 native"),
        ("numba-cuda", "13.0", "7.0", "12.9 native"),  # CUDA 13 cannot compile for a V100
        # 12.6 does not know a B200, and 12.9's PTX is too new.
        ("numba-cuda", "12.6", "10.0", "12.9 compat"),
        ("cuda-core", None, None, f"{NEWEST} compat"),
        (f"cuda-version={NEWEST} numba-cuda", "13.0", "9.0", f"{NEWEST} compat"),
        ("cuda-version=12 cuda-core", NEWEST, "9.0", "12.9 native"),
    ],
)
def test_a_machine_gets_the_newest_toolkit_whose_ptx_its_driver_loads_and_that_knows_its_gpu(
    built: Workspace,
    gateway: Gateway,
    specs: str,
    driver: str | None,
    arch: str | None,
    toolkit: str,
) -> None:
    """A machine of each kind.

    Tests/plan compares the built channel with the planned one, which test_verify tests.
    """
    check(pick(built, gateway, specs, driver, arch), toolkit)


def test_a_client_that_takes_nothing_younger_than_two_weeks_installs_the_python_packages(
    built: Workspace, tmp_path: Path
) -> None:
    """Even on the day of the youngest wheel in the locks, which is the worst day.

    Base channels have many versions.
    """
    projects = [lock for lock in release_locks(built).values() if lock.name.startswith("python-")]
    youngest = max(artefact.uploaded for lock in projects for artefact in lock.artefacts)
    until = (youngest - COOLDOWN.total_seconds()) * 1000
    content = {
        s: json.loads((built.channel / s / "repodata.json").read_text())
        for s in (NOARCH, this_platform())
    }
    taken = 0
    for index in content.values():
        packages = index["packages.conda"]
        index["packages.conda"] = {
            file: record for file, record in packages.items() if record["timestamp"] <= until
        }
        taken += len(packages) - len(index["packages.conda"])
    channel = write_repodata(content, tmp_path)
    assert taken  # else this day tries nothing
    for specs in ("cuda-core", "numba-cuda", "cuda-python", "cuda-gpu cuda-core cuda-pathfinder"):
        check(
            solve(
                Scenario(tuple(specs.split()), this_platform(), "13.0"),
                [channel, built.base_channel],
            ),
            "13.0 native",
        )


@pytest.mark.parametrize(
    "specs", ["cuda-version=12 cuda-bindings=13", "cuda-core=1.2.2=cuda12_* cuda-bindings=13"]
)
def test_what_cannot_work_is_refused(built: Workspace, gateway: Gateway, specs: str) -> None:
    with pytest.raises(Unsolvable) as error:
        pick(built, gateway, specs, NEWEST, "9.0")
    assert error.value.solver


def test_cuda_bindings_13_brings_no_cudart(built: Workspace, gateway: Gateway) -> None:
    assert pick(built, gateway, "cuda-bindings=13", NEWEST).record("cuda-cudart") is None


# --- groups: all of one toolkit, the one that fits

Ask = Callable[..., Pick]


@pytest.fixture
def ask(solved: Channels, gateway: Gateway) -> Ask:
    return lambda specs, driver, subdir="linux-64": solve(
        Scenario(tuple(specs.split()), subdir, driver), solved.folders, gateway
    )


@pytest.mark.parametrize("subdir", ["linux-64", "win-64"])
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
    ask: Ask, project: Workspace, specs: str, driver: str | None, toolkit: str, subdir: str
) -> None:
    found = ask(specs, driver, subdir)
    assert f"{found.toolkit} {found.fit}" == toolkit
    lock = release_locks(project)[f"cuda-{found.toolkit}"]
    group = re.split(r"[ =]", specs.split()[-1])[0]
    assert found.version(group) == lock.release
    # What it brings is of this release: every version is one that the lock has.
    known = {component.version for component in lock.components.values()} | {
        lock.release,
        lock.minor,
    }
    ours = [r for r in found.records if any(need.startswith("cuda-version ") for need in r.depends)]
    assert len(ours) > 10
    newer = {"cuda-cccl", f"cuda-cccl_{subdir}"} if found.toolkit == "12.0" else set()
    assert {r.name.normalized for r in ours if str(r.version) not in known} <= newer


def test_a_toolkit_of_a_major_without_a_compiler_is_refused(ask: Ask) -> None:
    """No nvcc runs on a driver for 12.9: an error is better than a toolkit without nvcc."""
    for specs in ("cuda-toolkit", "cuda", "cuda-compiler", "cuda-minimal-build"):
        with pytest.raises(Unsolvable):
            ask(specs, "12.9")
        with pytest.raises(Unsolvable):
            ask(f"cuda-version=12.9 {specs}", "13.0")
        assert ask(specs, "13.0").toolkit == "13.0"


def test_a_runtime_has_no_headers_and_a_toolkit_compiles_disassembles_and_links(ask: Ask) -> None:
    runtime, toolkit = (
        {r.name.normalized for r in ask(f"cuda-{g}", "13.5").records}
        for g in ("runtime", "toolkit")
    )
    assert {"libcublas", "libnpp", "cuda-nvrtc", "cuda-cudart"} <= runtime
    assert not [name for name in runtime if "-dev" in name or name.startswith(("cuda-nvcc", "gcc"))]
    assert {
        "cuda-nvcc",
        "cuda-cuobjdump",
        "cuda-nvdisasm",
        "cuda-cupti-dev",
        "libcusolver-dev",
    } <= toolkit
    assert "cxx-compiler" in toolkit
