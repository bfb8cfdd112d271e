"""What cuda-version says of a toolkit is what the NVRTC in the channel's own packages says of itself.

On other machines than linux-64 the release lock stands for it: tests/recipes/test_twins.py compares the two anywhere.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rattler.package_streaming import extract

from ctk.core.checkout import Workspace
from ctk.core.platforms import this_platform
from ctk.lock.facts import compiler_facts
from ctk.lock.lock import release_locks
from ctk.plan.plan import Request, small

HERE = Workspace(Path(__file__).resolve().parents[2])
BUILT = small(Request(), HERE).releases
RELEASES = [lock for lock in release_locks(HERE).values() if lock.minor in BUILT]


@pytest.mark.skipif(this_platform() != "linux-64", reason="asks the linux-64 NVRTC")
@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_cuda_version_has_the_gpus_of_the_built_nvrtc(built: Workspace, lock, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    version = lock.components["nvrtc"].version
    (package,) = built.channel.glob(f"linux-64/cuda-nvrtc-files-{version}-*.conda")
    extract(package, tmp_path)
    (libraries,) = tmp_path.glob("targets/*/lib")
    architectures, _ = compiler_facts(libraries)
    repodata = json.loads((built.channel / "noarch" / "repodata.json").read_text())["packages.conda"]
    said = {
        record["build"].partition("_")[0]: record
        for record in repodata.values()
        if record["name"] == "cuda-version" and record["version"] == lock.minor
    }
    assert f"__cuda_arch {'|'.join(f'=={gpu}' for gpu in architectures)}" in said["native"]["constrains"]
    assert f"__cuda_arch >={architectures[0]}" in said["compat"]["constrains"]
    known = {r["version"] for r in repodata.values() if r["name"] == "cuda-arch"}
    assert set(architectures) <= known
