"""What docs/names.md and docs/platforms.md say of packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_clients import Solve, scenario
from packaging.version import Version

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.core.errors import Unsolvable
from ctk.core.platforms import PLATFORMS, this_platform
from ctk.lock.lock import release_locks
from ctk.package.package import read_info
from ctk.verify import channels

pytest_plugins = ["docs_fixtures"]

LOCKS = {lock.minor: lock for lock in release_locks(Workspace(ROOT)).values() if lock.is_ctk}


def test_a_name_means_what_the_page_says(planned_solve: Solve) -> None:
    def pick(*specs: str) -> set[str]:
        found = planned_solve(scenario(specs, {"CONDA_OVERRIDE_CUDA": "13.0"}))
        assert (found.toolkit, found.fit) == ("13.0", "native")
        return {record.name.normalized for record in found.records if "python" not in record.name.normalized}

    assert {name for name in pick("cuda-version") if name.startswith(("cuda", "lib"))} == {"cuda-version"}
    assert {"cuda-nvcc", "libcublas", "cuda-nvrtc"} <= pick("cuda-toolkit") <= pick("cuda")
    assert {"libcublas", "libcufft"} <= pick("cuda-runtime") | pick("cuda-libraries")
    with pytest.raises(Unsolvable):
        pick("cudatoolkit")
    assert LOCKS["13.0"].components["cublas"].version.startswith("13.1")
    assert LOCKS["12.9"].components["nvrtc"].distribution == "nvidia-cuda-nvrtc-cu12"
    assert LOCKS["13.0"].components["nvrtc"].distribution == "nvidia-cuda-nvrtc"


def test_the_table_has_the_first_toolkit_of_each_platform() -> None:
    rows = re.findall(
        r"^\|.+\| `([\w-]+)` \| (\d+\.\d+) and newer", (ROOT / "docs" / "platforms.md").read_text(), re.MULTILINE
    )
    said = {subdir: minor for subdir, minor in rows if (subdir, minor) != ("linux-aarch64", "13.0")}  # that is Thor's
    first = {
        subdir: min(
            (minor for minor, lock in LOCKS.items() if lock.components["nvrtc"].artefacts.get(subdir)), key=Version
        )
        for subdir in PLATFORMS
    }
    assert said == first


def test_no_package_brings_a_driver(built: Workspace) -> None:
    """Nor the stub of libcuda to link against."""
    files = (entry for file in (built.channel / this_platform()).glob("*.conda") for entry in read_info(file).paths)
    names = [Path(entry.path).name for entry in files]
    assert "libnvrtc.so.13" in names or this_platform() != "linux-64"
    assert not [name for name in names if name.startswith(("libcuda.so", "libnvidia-", "nvcuda.dll"))]


def test_all_packages_for_arm_are_for_sbsa(project: Workspace) -> None:
    """What has a file below targets/, or a library, excludes conda-forge's packages for Tegra."""
    packages = channels.planned(project)["linux-aarch64"]["packages.conda"].values()
    libraries = [r for r in packages if r["name"].startswith(("libcu", "libnp", "libnvj", "cuda-cudart", "cuda-nvrtc"))]
    assert len(libraries) > 100
    bare = {
        r["name"] for r in libraries if not any(c.startswith("arm-variant * sbsa") for c in r.get("constrains", ()))
    }
    files = {r["name"].removesuffix("-files") for r in libraries if r["name"].endswith("-files")}
    # A package of Python's major alone, such as libcudnn, and a twin leave it to the package of files that they need.
    assert bare <= files, "says it neither by itself nor by its package of files"
