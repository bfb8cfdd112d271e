"""The facts in the release locks are those of the binaries: a wrong fact would give users a toolkit
that cannot run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.version import Version

from ctk.core.checkout import Workspace
from ctk.core.locks import exclusive
from ctk.core.platforms import this_platform
from ctk.fetch.fetch import fetch, missing
from ctk.index.index import Index
from ctk.lock import contents
from ctk.lock.facts import compiler_facts, gpu_code, known_gpus, needed_glibc, needs_measuring
from ctk.lock.model import release_locks
from ctk.package.gpu_support import common
from ctk.plan.plan import Request, small

HERE = Workspace(Path(__file__).resolve().parents[3])
LOCKS = [lock for lock in release_locks(HERE).values() if lock.is_measured]
RELEASES = [lock for lock in LOCKS if lock.is_ctk]
HELD = contents.load(HERE)
DEFAULT = small(Request(), HERE).releases


@pytest.mark.skipif(
    this_platform() != "linux-64", reason="asks the linux-64 NVRTC; CI runs it there"
)
@pytest.mark.parametrize("lock", RELEASES, ids=lambda lock: lock.name)
def test_nvrtc_compiles_for_the_gpus_of_the_lock(lock) -> None:  # type: ignore[no-untyped-def]
    artefact = lock.components["nvrtc"].artefacts["linux-64"]
    if lock.minor not in DEFAULT and missing([artefact], HERE):
        pytest.skip(
            f"its NVRTC of {artefact.size // 10**6} MB is not in the cache; the default releases"
            " are compared"
        )
    with exclusive(HERE, print):
        (path,) = fetch([artefact], HERE, Index)
    assert compiler_facts(path) == (lock.facts.gpu_architectures, lock.facts.ptx_isa)


def test_glibc_and_gpus_in_the_locks_are_those_of_the_measured_contents() -> None:
    """tests/system/audit/test_planned_files.py compares the contents with the artefacts."""
    for lock in LOCKS:
        assert gpu_code(lock, HELD) == lock.gpu_code, lock.name
        assert lock.facts is None or needed_glibc(lock, HELD) == lock.facts.glibc, lock.name
    assert not any(needs_measuring(lock, HELD) for lock in LOCKS)


# --- docs/upstream/gpu-sets.md, from which conda-forge's maintainers copy

TEXT = (HERE.root / "docs/upstream/gpu-sets.md").read_text(encoding="utf-8")


def test_the_page_for_upstream_has_the_gpus_of_each_compiler() -> None:
    said = {}
    for minors, gpus, missing_ in re.findall(
        r"^\| (1[\d., to]+) \| ([\d.]+ to [\d.]+) \| ([\d., ]+) \|", TEXT, re.M
    ):
        first, last = (Version(re.split(", | to ", minors)[end]) for end in (0, -1))
        said |= {k.minor: (gpus, missing_) for k in RELEASES if first <= Version(k.minor) <= last}
    for lock in RELEASES:
        known = lock.facts.gpu_architectures
        between = [
            g for g in known_gpus(LOCKS) if Version(known[0]) < Version(g) < Version(known[-1])
        ]
        gaps = ", ".join(g for g in between if g not in known)
        assert said[lock.minor] == (f"{known[0]} to {known[-1]}", gaps), lock.minor


def test_the_bounds_to_copy_are_those_of_the_binaries() -> None:
    bounds = {}
    for name, version, major, arm, cell in re.findall(
        r"^\| (\w+) ([\d.]+), CUDA (\d+)(, Windows on ARM)? \|.*\| (`.+`) \|$", TEXT, re.M
    ):
        (wheels,) = (
            [
                wheel
                for subdir, wheel in component.artefacts.items()
                if wheel and (subdir == "win-arm64") == bool(arm)
            ]
            for lock in LOCKS
            for component in (lock.components.values() if lock.major == major else ())
            if component.version == version
            and re.sub(r"^nvidia-|-cu\d+$", "", component.distribution) == name.lower()
        )
        held = [
            content.gpus
            for wheel in wheels
            for content in (HELD.members(wheel.sha256) or {}).values()
        ]
        bounds[name] = common(filter(None, held))
        assert cell.replace("`", "").replace(" or ", "|") == bounds[name], name
    assert (
        len(bounds) == TEXT.partition("| right bound |")[2].partition("\n\n")[0].count("\n| ") - 1
    )
    proposed = re.findall(
        r"\*\*(cu\w+)\*\*[^`*]+`__cuda_arch ([^`]+)`", TEXT.partition("## What we propose")[2]
    )
    assert proposed == [(name, bounds[name]) for name in ("cuDNN", "cuTENSOR", "cuFile")]
