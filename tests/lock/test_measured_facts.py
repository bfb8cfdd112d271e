"""The facts in the release locks are those of the binaries: a wrong fact would give users a toolkit that cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.core.files import exclusive
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch, missing
from ctk.index.index import Index
from ctk.lock import contents
from ctk.lock.facts import compiler_facts, gpu_code, needed_glibc, needs_measuring
from ctk.lock.model import release_locks
from ctk.plan.plan import Request, small

HERE = Workspace(Path(__file__).resolve().parents[2])
LOCKS = [lock for lock in release_locks(HERE).values() if lock.is_measured]
RELEASES = [lock for lock in LOCKS if lock.is_ctk]
HELD = contents.load(HERE)
DEFAULT = small(Request(), HERE).releases


@pytest.mark.skipif(this_platform() != "linux-64", reason="asks the linux-64 NVRTC; CI runs it there")
@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_nvrtc_compiles_for_the_gpus_of_the_lock(lock) -> None:  # type: ignore[no-untyped-def]
    artefact = lock.components["nvrtc"].artefacts["linux-64"]
    if lock.minor not in DEFAULT and missing([artefact], HERE):
        pytest.skip(f"its NVRTC of {artefact.size // 10**6} MB is not in the cache; the default releases are compared")
    with exclusive(HERE, print):
        (path,) = fetch([artefact], HERE, Index)
    assert compiler_facts(path) == (lock.facts.gpu_architectures, lock.facts.ptx_isa)


def test_glibc_and_gpus_in_the_locks_are_those_of_the_measured_contents() -> None:
    """tests/audit/test_planned_files.py compares the contents with the artefacts themselves."""
    for lock in LOCKS:
        assert gpu_code(lock, HELD) == lock.gpu_code, lock.name
        assert lock.facts is None or needed_glibc(lock, HELD) == lock.facts.glibc, lock.name
    assert not any(needs_measuring(lock, HELD) for lock in LOCKS)
