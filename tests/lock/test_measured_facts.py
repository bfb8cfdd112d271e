"""The facts in the release locks are what the binaries say: a wrong one would send users a toolkit that cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.files import exclusive
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch, laid_out, missing
from ctk.index.index import Index
from ctk.lock.facts import compiler_facts, needed_glibc
from ctk.lock.model import release_locks
from ctk.plan.plan import Request, small

HERE = Workspace(Path(__file__).resolve().parents[2])
RELEASES = [lock for lock in release_locks(HERE).values() if lock.is_ctk]
DEFAULT = small(Request(), HERE).releases


@pytest.mark.skipif(this_platform() != "linux-64", reason="asks the linux-64 NVRTC")
@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_nvrtc_can_target_what_the_lock_says(lock) -> None:  # type: ignore[no-untyped-def]
    artefact = lock.components["nvrtc"].artefacts["linux-64"]
    if lock.minor not in DEFAULT and missing([artefact], HERE):
        pytest.skip(f"its NVRTC of {artefact.size // 10**6} MB is not in the cache, and it is not built by default")
    with exclusive(HERE, print):
        (path,) = fetch([artefact], HERE, Index)
    assert compiler_facts(path) == (lock.facts.gpu_architectures, lock.facts.ptx_isa)


@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_the_needed_glibc_is_what_the_lock_says(lock) -> None:  # type: ignore[no-untyped-def]
    """For what is in the cache: the build puts this platform's artefacts there."""
    checked = 0
    for artefact in lock.artefacts:
        path = laid_out(artefact, HERE)
        if artefact.target == "linux-64" and artefact.size < 30_000_000 and path.exists():
            assert needed_glibc(path) == lock.facts.glibc["linux-64"].get(artefact.component), artefact.file
            checked += 1
    if not checked:
        pytest.skip("nothing of it is in the cache")
