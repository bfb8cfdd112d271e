"""The facts in the release locks are what the binaries say: a wrong one would send users a toolkit that cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.facts import compiler_facts, needed_glibc
from ctk.fetch import fetch, laid_out
from ctk.index import Index
from ctk.lock import release_locks
from ctk.paths import Workspace
from ctk.platforms import this_platform
from ctk.runlock import exclusive

HERE = Workspace(Path(__file__).resolve().parents[2])
RELEASES = [lock for lock in release_locks(HERE).values() if lock.is_ctk]


@pytest.mark.skipif(this_platform() != "linux-64", reason="asks the linux-64 NVRTC")
@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_nvrtc_can_target_what_the_lock_says(lock) -> None:  # type: ignore[no-untyped-def]
    artefact = lock.components["nvrtc"].artefacts["linux-64"]
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
