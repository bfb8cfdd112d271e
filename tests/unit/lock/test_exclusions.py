"""The list of exclusions, and the classes of a release's components."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ctk.core.checkout import Workspace
from ctk.core.errors import LockError
from ctk.lock.components import (
    Classes,
    Exclusion,
    Exclusions,
    Unpublished,
    classify,
    load_exclusions,
    needless_exclusions,
)
from ctk.plan.plan import Request, Set, plan
from kit.ctk_release import release

OLD_CCCL = Exclusion("cccl", SpecifierSet("<12.3"), "it lacks headers")


def classes(
    packaged: str = "", excluded: str = "", unclassified: str = "", needless: str = ""
) -> Classes:
    return Classes(
        *(frozenset(names.split()) for names in (packaged, excluded, unclassified, needless))
    )


@pytest.mark.parametrize(
    ("version", "read", "expected"),
    [
        ("12.2.2", {"cudart"}, classes("cudart", "cccl", "npp")),
        ("12.2.2", {"cudart", "npp"}, classes("cudart npp", "cccl")),
        ("12.3.2", {"cudart", "npp"}, classes("cudart npp", "", "cccl")),
        ("12.3.2", {"cudart", "npp", "cccl"}, classes("cccl cudart npp")),
        ("12.2.2", {"cudart", "npp", "cccl"}, classes("cccl cudart npp", "", "", "cccl")),
        ("12.2.2", {"cudart", "npp", "base"}, classes("cudart npp", "cccl")),
    ],
)
def test_a_component_is_packaged_or_excluded_or_unclassified(
    version: str, read: set[str], expected: Classes
) -> None:
    assert classify(release(version, "cccl", "cudart", "npp"), read, [OLD_CCCL]) == expected


def test_an_entry_that_speaks_of_no_release_is_needless() -> None:
    locks = {
        lock.name: lock
        for lock in (release("12.3.2", "cccl", "cudart"), release("13.0.3", "cudart"))
    }
    gone = Unpublished("cuda-gdb", SpecifierSet("<12"), "no wheel")
    there = Unpublished("nvprune", SpecifierSet("<13"), "no wheel")
    assert needless_exclusions(Exclusions((OLD_CCCL,), (gone, there)), locks) == [
        "cccl",
        "cuda-gdb",
    ]
    assert (
        needless_exclusions(
            Exclusions((Exclusion("cccl", SpecifierSet("<13"), "why not"),), (there,)), locks
        )
        == []
    )


def test_the_plan_gives_the_reason() -> None:
    locks = {
        lock.name: (lock, Path(f"{lock.name}.yaml"))
        for lock in (release("12.0.1", "cccl"), release("12.3.2", "cccl"))
    }
    planned = plan(Set({}, locks, (), (OLD_CCCL,)), Request(), ())
    assert [(left.id, left.reason) for left in planned.left_out] == [
        ("cccl-cuda12.0", "it lacks headers")
    ]
    assert plan(Set({}, locks, (), (OLD_CCCL,)), Request(releases=["12.3"]), ()).left_out == ()


def written(tmp_path: Path, text: str) -> Workspace:
    (tmp_path / "variants").mkdir()
    (tmp_path / "variants" / "exclusions.yaml").write_text(text)
    return Workspace(tmp_path)


def test_the_list_is_read(tmp_path: Path) -> None:
    text = """
excluded:
  - component: cccl
    releases: "<12.3"
    reason: it lacks headers
unpublished:
  - {name: cuda-gdb, releases: "*", reason: no wheel}
"""
    unpublished = Unpublished("cuda-gdb", SpecifierSet(""), "no wheel")
    assert load_exclusions(written(tmp_path, text)) == Exclusions((OLD_CCCL,), (unpublished,))


def test_every_problem_of_the_list_is_shown(tmp_path: Path) -> None:
    text = """excluded:
  - component: cccl
    releases: before 12.3
    reason: it lacks headers
  - component: npp
    releases: "*"
    because: nobody wants it
"""
    with pytest.raises(LockError) as error:
        load_exclusions(written(tmp_path, text))
    assert error.value.cause.splitlines() == [
        "exclusions.yaml: 3 problems",
        "  - excluded.0.releases: Invalid specifier: 'before 12.3'",
        "  - excluded.1.reason: Field required",
        "  - excluded.1.because: Unexpected keyword argument",
    ]
