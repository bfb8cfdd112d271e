"""`ctk build --driver --arch`: the releases that machines will get, and no others."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest

from conftest import ctk
from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue
from ctk.core.platforms import PLATFORMS
from ctk.lock.model import release_locks
from ctk.plan.plan import release_for
from ctk.verify.oracle import Cause, Question, expected
from ctk.verify.scenarios import facts as facts_of


@pytest.mark.parametrize("subdir", PLATFORMS)
def test_the_release_for_a_machine_is_the_one_that_the_oracle_expects(
    project: Workspace, subdir: str
) -> None:
    locks, facts = list(release_locks(project).values()), facts_of(release_locks(project).values())
    toolkits = [lock for lock in locks if lock.is_ctk]
    drivers = (None, "11.8", *(lock.minor for lock in toolkits), "12.7", "13.99", "14.0")
    gpus = {gpu for lock in toolkits for gpu in lock.require_facts().gpu_architectures} | {
        "3.5",
        "99.0",
    }
    compared = 0
    for driver, gpu in product(drivers, (None, *sorted(gpus))):
        right = expected(facts, Question("cuda-nvrtc", subdir, driver, gpu))
        assert release_for(locks, subdir, driver, gpu) == (right.toolkit or None), (driver, gpu)
        assert right.cause in (None, Cause.DRIVER, Cause.GPU)
        compared += 1
    assert compared > 300


@pytest.mark.parametrize(
    ("words", "releases"),
    [
        ("--driver 12.4 --driver 13.0", {"12.4", "13.0"}),
        ("--driver 12.4 --driver 13.0 --arch 7.0", {"12.4", "12.9"}),
        ("--driver 13.0 --arch sm_70 --arch 9.0", {"12.9", "13.0"}),
        ("--driver 12.4:9.0 --driver 13.0:7.0", {"12.4", "12.9"}),
        # For ARM there is none before 12.3.
        ("--driver 12.1 --platform linux-64 --platform linux-aarch64", {"12.1", "12.9"}),
    ],
)
def test_a_build_for_machines_has_the_releases_that_they_get(
    words: str, releases: set[str], project: Workspace
) -> None:
    done = ctk(project, "build", "--dry-run", "--json", "cuda-nvrtc", *words.split(), check=True)
    found = {build["release"] for build in json.loads(done.stdout)["builds"]}
    assert found == {f"cuda-{release}" for release in releases}


def test_a_machine_that_no_release_runs_on_is_an_error(project: Workspace) -> None:
    done = ctk(project, "build", "--dry-run", "--driver", "12.4", "--platform", "win-arm64")
    assert done.returncode == BadValue.exit_code
    assert (
        "error: no locked release runs on win-arm64 with driver 12.4, GPU not given\n"
        in done.stderr
    )


def test_a_package_that_does_not_run_on_the_machine_is_an_error(project: Workspace) -> None:
    done = ctk(
        project,
        "build",
        "--dry-run",
        "pytorch",
        "--driver",
        "12.9",
        "--arch",
        "6.1",
        "--platform",
        "linux-64",
    )
    assert done.returncode == BadValue.exit_code
    assert (
        "error: no locked release with pytorch runs on linux-64 with driver 12.9, GPU 6.1\n"
        in done.stderr
    )


def test_a_compute_capability_that_no_gpu_has_is_an_error(project: Workspace) -> None:
    done = ctk(project, "build", "--dry-run", "--driver", "13.0", "--arch", "9.0", "--arch", "6.9")
    assert done.returncode == BadValue.exit_code
    assert (
        "error: no locked release knows a GPU of compute capability 6.9\n" in done.stderr
        and "6.2, 7.0" in done.stderr
    )


def test_nothing_is_built_for_a_gpu_that_the_driver_does_not_know(project: Workspace) -> None:
    words = (
        "build",
        "--dry-run",
        "--json",
        "cuda-version",
        "--platform",
        "linux-64",
        "--arch",
        "10.0",
        "--driver",
        "12.4",
    )
    refused = ctk(project, *words)
    assert refused.returncode == BadValue.exit_code and "does not know a GPU 10.0" in refused.stdout
    machine_ = (
        "cuda-version",
        "--planned",
        "--platform",
        "linux-64",
        "--arch",
        "10.0",
        "--driver",
        "12.4",
        "--json",
    )
    for other in (
        ctk(project, "solve", *machine_),
        ctk(project, "solve", "cuda-version", "--driver", "12.4", "--arch", "10.0", "--json"),
    ):
        assert json.loads(other.stdout)["error"] == json.loads(refused.stdout)["error"]
    made = json.loads(ctk(project, *words, "--driver", "13.0", check=True).stdout)
    assert {build["release"] for build in made["builds"]} == {"cuda-13.0"}


@pytest.mark.parametrize(
    ("words", "release", "versions"),
    [
        ("--driver 13.0", "13.0", {"2.14.1"}),
        ("--driver 13.0 --arch 7.5", "12.9", {"2.10.0"}),  # PyTorch for CUDA 13 has no code for it
        ("--driver 12.4", "12.9", {"2.10.0"}),  # compiled with 12.8
        ("--driver 13.5", "13.5", {"2.14.1", "2.15.0"}),
    ],
)
def test_a_library_is_built_with_the_toolkit_and_in_the_versions_that_run_with_it(
    words: str, release: str, versions: set[str], project: Workspace
) -> None:
    command = (
        "build",
        "--dry-run",
        "--json",
        "pytorch",
        "--platform",
        "linux-64",
        "--python",
        "3.13",
        *words.split(),
    )
    plan = json.loads(ctk(project, *command, check=True).stdout)
    packages = {p.split("/")[1] for build in plan["builds"] for p in build["packages"]}
    assert {
        build["release"] for build in plan["builds"] if build["release"].startswith("cuda-")
    } <= {f"cuda-{release}"}
    for name in ("libtorch", "pytorch"):
        assert {p.split("-")[1] for p in packages if p.startswith(f"{name}-2")} == versions


def test_what_is_left_out_has_its_version_and_no_other_python(project: Workspace) -> None:
    command = "build pytorch jax --driver 13.0 --python 3.11 --platform linux-64 --dry-run"
    lines = (
        ctk(project, *command.split(), check=True)
        .stdout.partition("left out, by reason")[2]
        .splitlines()
    )
    assert (
        "- libtorch 2.15.0, pytorch 2.15.0: needs cuda-version >=13.2,<14.0a0, and this build has"
        " only 13.0" in lines
    )
    (published,) = [line for line in lines if "no wheel" in line]
    assert re.fullmatch(
        r"- jax-cuda-plugin ([\d.]+), jaxlib \1, pytorch-cpu [\d.]+: there is no wheel for linux-64"
        r" and Python 3.11",
        published,
    )
    assert any(re.match(r"- jax ([\d.]+): needs jaxlib >=", line) for line in lines), lines
    assert not any("nothing that is built needs it" in line for line in lines), "it was not named"
    assert "left out, by" not in ctk(project, "build", "cuda-nvrtc", "--dry-run", check=True).stdout


def test_what_is_for_other_gpus_or_lacks_several_pythons_is_one_line(project: Workspace) -> None:
    command = (
        "build cuda-arch pytorch --driver 13.0 --arch 9.0 --platform linux-64 --all-pythons"
        " --dry-run"
    )
    lines = (
        ctk(project, *command.split(), check=True)
        .stdout.partition("left out, by reason")[2]
        .splitlines()
    )
    assert "- cuda-arch: for other GPUs than 9.0" in lines
    assert [
        line
        for line in lines
        if "pytorch 2.14.1" in line and "no wheel for linux-64 and Python 3.15 or 3.15t" in line
    ]
    assert not any("__cuda_arch" in line for line in lines)
    table = " ".join(ctk(project, *command.split(), "-v", check=True).stdout.split())
    assert "for GPUs >=10.0, and you named 9.0" in table


def test_what_an_earlier_run_built_is_named_too_where_a_machine_cannot_have_it(
    built: Workspace,
) -> None:
    """A V100 gets CUDA 12.9, of which there is no nvcc; that of CUDA 13 is in the channel."""
    done = ctk(built, "build", "--driver", "13.0:7.0", "--json", "-q", check=True)
    (machine,) = json.loads(done.stdout)["machines"]
    assert (machine["gpu"], machine["toolkits"]) == ("7.0", ["12.9 native"])
    assert "cuda-nvcc" in machine["refused"] and "cuda-core" not in machine["refused"]
