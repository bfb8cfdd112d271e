"""`ctk release add NAME VERSION`: a version beside the others, kept, removed, and refused."""

from __future__ import annotations

import json

import pytest

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, CtkError, IndexUnavailable, NotPublished, UnknownName
from ctk.lock import components
from ctk.lock.model import ReleaseLock, load
from kit.ctk_release import Have, Run, snapshot
from kit.fake_ctk import WHEELS_13
from kit.fake_index import FakeIndex, Fault
from kit.tables import cells

pytest_plugins = ["kit.ctk_release_fixtures"]

KNOWN = {
    "nccl": "nvidia-nccl-cu{major}",
    "torch": "torch",
    "triton": "triton",
    "torch-cpu": "torch",
}


@pytest.fixture(autouse=True)
def four_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ctk.lock.components", "ctk.release.choose", "ctk.release.added"):
        monkeypatch.setattr(f"{module}.LIBRARIES", KNOWN)
    assert components.LIBRARIES is KNOWN


def wheels(index: FakeIndex, name: str, version: str, *requires: str) -> None:
    for tag in WHEELS_13[:2]:
        index.add_wheel(name, version, f"py3-none-{tag}", requires=requires)


def withdraw(index: FakeIndex, start: str) -> None:
    """Yanks the files whose names begin like this."""
    index.yanked |= {f for files in index.projects.values() for f in files if f.startswith(start)}


@pytest.fixture
def locked(here: Workspace, index: FakeIndex, have: Have, run: Run) -> Workspace:
    """Locks of libraries for both majors: NCCL 2.3, torch 2.15 and triton 3.9."""
    have("12.9", "13.4")
    for version in ("2.1", "2.2", "2.3"):
        wheels(index, "nvidia-nccl-cu12", version)
    wheels(index, "nvidia-nccl-cu13", "2.2")
    wheels(index, "nvidia-nccl-cu13", "2.3")
    for torch, triton in (("2.9", "3.5"), ("2.15", "3.9")):
        wheels(index, "triton", triton)
        wheels(index, "torch", torch, f"triton=={triton}")
    run("add", "libraries-12", "libraries-13", "--write")
    return here


def lock(here: Workspace, major: str) -> ReleaseLock:
    return load(here.variants / f"libraries-{major}.lock")


def versions(here: Workspace, major: str) -> dict[str, str]:
    return {name: c.version for name, c in lock(here, major).components.items()}


def test_a_version_is_locked_beside_the_newest_for_each_major_that_has_a_wheel(
    locked: Workspace, index: FakeIndex, run: Run
) -> None:
    before = {major: lock(locked, major) for major in ("12", "13")}
    wheels(index, "nvidia-nccl-cu13", "2.9")  # newer, which nobody asked for
    said = run("add", "nccl", "2.1", "--write")
    assert "not in libraries-13: the package index has no wheel of nvidia-nccl-cu13 2.1" in said
    assert lock(locked, "13") == before["13"]
    after = lock(locked, "12")
    assert after.components["nccl-cu12-2.1"].version == "2.1"
    assert after.added == {"nccl-cu12": {"2.1": ""}}
    assert {n: c for n, c in after.components.items() if n != "nccl-cu12-2.1"} == before[
        "12"
    ].components
    assert '  - "2.3"\n  - "2.1"\n' in (locked.variants / "libraries-12.yaml").read_text()
    again = run("add", "nccl", "2.1")
    assert "nothing changes: nccl 2.1 is already locked in libraries-12" in again


def test_what_it_requires_is_locked_too_and_goes_with_it(locked: Workspace, run: Run) -> None:
    before = snapshot(locked)
    run("add", "torch", "2.9", "--write")
    for major in ("12", "13"):
        found = versions(locked, major)
        assert (found["torch-2.9"], found["triton-3.5"]) == ("2.9", "3.5")
        assert (found["torch"], found["triton"]) == ("2.15", "3.9")
        assert lock(locked, major).added["triton"] == {"3.5": "torch 2.9"}
    run("remove", "torch", "2.9", "--write")
    assert snapshot(locked) == before


def test_it_stays_when_the_lock_is_made_again_and_when_the_index_lost_it(
    locked: Workspace, index: FakeIndex, run: Run
) -> None:
    run("add", "nccl", "2.2", "--write")
    kept = lock(locked, "13").components["nccl-cu13-2.2"]
    wheels(index, "nvidia-nccl-cu13", "2.4")
    withdraw(index, "nvidia_nccl_cu13-2.2-")
    run("add", "libraries-13", "--write")
    assert versions(locked, "13")["nccl-cu13"] == "2.4"
    assert lock(locked, "13").components["nccl-cu13-2.2"] == kept
    assert "nothing changes" in run("add", "libraries-13")


def test_the_newest_that_is_named_stays_beside_newer_ones(
    locked: Workspace, index: FakeIndex, run: Run
) -> None:
    run("add", "nvidia-nccl-cu13", "2.3", "--write")
    assert lock(locked, "13").added == {"nccl-cu13": {"2.3": ""}}
    assert lock(locked, "12").added == {}
    wheels(index, "nvidia-nccl-cu13", "2.4")
    run("add", "libraries-13", "--write")
    found = versions(locked, "13")
    assert (found["nccl-cu13"], found["nccl-cu13-2.3"]) == ("2.4", "2.3")


def test_a_project_that_is_new_here_is_locked_and_no_other_is_upgraded(
    locked: Workspace, index: FakeIndex, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("ctk.lock.components", "ctk.release.choose", "ctk.release.added"):
        monkeypatch.setattr(f"{module}.LIBRARIES", KNOWN | {"cudss": "nvidia-cudss-cu{major}"})
    wheels(index, "nvidia-cudss-cu13", "1.0")
    wheels(index, "nvidia-nccl-cu13", "2.4")
    said = run("add", "cudss", "1.0", "--write")
    assert "not in libraries-12: the package index holds no file of nvidia-cudss-cu12" in said
    assert versions(locked, "13")["cudss-cu13"] == "1.0"
    assert versions(locked, "13")["nccl-cu13"] == "2.3"
    assert lock(locked, "13").added == {}


def test_check_and_list_say_why_it_is_there(locked: Workspace, run: Run) -> None:
    run("add", "nccl", "2.2", "--write")
    said = " ".join(run("check", "libraries-13").split())
    assert "nccl-cu13 2.2 is locked as well as 2.3: `ctk release add nccl 2.2` asked for it" in said
    assert "newer" not in {row[-1] for row in cells(run("check", "libraries-13"))}
    assert ("libraries-13", "nccl-cu13", "2.3, 2.2 (by name)") in cells(run("list"))
    found = {r["name"]: r for r in json.loads(run("list", "--json"))["releases"]}
    assert found["libraries-12"]["added"] == {"nccl-cu12": {"2.2": ""}}


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (["nccl"], BadValue, "a project is locked in one version, and 0 are named"),
        (["nccl", "2.1", "2.2"], BadValue, "and 2 are named"),
        (["nccl", "new"], BadValue, "'new' is not a version"),
        (["ncll", "2.1"], UnknownName, "did you mean nccl?"),
        (["cudart", "13.4.92"], UnknownName, "ctk release add 13.4 --write"),
        (["cuda-toolkit", "13.0.0"], UnknownName, "a part of the CUDA Toolkit"),
        (["13.4.0"], UnknownName, "write the minor, whose newest patch is locked: 13.4"),
        (["nccl", "2.0"], NotPublished, "libraries-12: name one that it has: 2.3, 2.2 and 2.1"),
        (["nccl", "2.4rc1"], NotPublished, "is not a final version"),
        (["nccl", "2.9"], NotPublished, "is newer than 2.3, which libraries-13 has"),
        (["torch", "2.10"], NotPublished, "requires triton==3.6, and the package index has none"),
    ],
)
def test_what_cannot_be_locked_says_why_and_what_to_do(
    words: list[str],
    kind: type[CtkError],
    said: str,
    locked: Workspace,
    index: FakeIndex,
    run: Run,
) -> None:
    for major in ("12", "13"):
        wheels(index, f"nvidia-nccl-cu{major}", "2.4rc1")
    wheels(index, "torch", "2.10", "triton==3.6")
    before = snapshot(locked)
    with pytest.raises(kind) as caught:
        run("add", *words, "--write")
    assert said in f"{caught.value.cause}\n{caught.value.step}"
    assert caught.value.step
    assert snapshot(locked) == before


def test_a_withdrawn_version_is_said_to_be_one(
    locked: Workspace, index: FakeIndex, run: Run
) -> None:
    withdraw(index, "nvidia_nccl_cu12-2.1-")
    with pytest.raises(NotPublished, match=r"2\.1 was withdrawn by its publisher"):
        run("add", "nvidia-nccl-cu12", "2.1")


def test_without_a_network_the_index_is_named(
    locked: Workspace, index: FakeIndex, run: Run
) -> None:
    index.faults.append(Fault("", drop=True))
    with pytest.raises(IndexUnavailable):
        run("add", "nccl", "2.1")


def test_only_what_was_added_by_name_can_be_removed(locked: Workspace, run: Run) -> None:
    with pytest.raises(UnknownName, match="nobody added it by name"):
        run("remove", "nccl", "2.3")
    run("add", "nccl", "2.2", "--write")
    with pytest.raises(UnknownName, match=r"nccl 1\.0 is not locked") as caught:
        run("remove", "nccl", "1.0")
    assert caught.value.step == "added by name are nccl 2.2"
