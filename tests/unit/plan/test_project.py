"""The default releases and recipes: the tables of pyproject.toml and their words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctk.core.checkout import Workspace
from ctk.lock.model import ReleaseLock, dump, variant_config
from ctk.plan.plan import Request, published_set, small
from kit.tiny import lock


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    """A checkout with some releases; tests write its table."""
    (tmp_path / "variants").mkdir()
    locks = [ReleaseLock("python-13", None, lock().components)]
    for release in ("12.0.1", "12.6.3", "12.10.1", "13.0.3", "13.4.3"):
        manifest = lock().manifest
        assert manifest
        locks.append(replace(lock(), release=release, manifest=replace(manifest, version=release)))
    for locked in locks:
        (tmp_path / "variants" / f"{locked.name}.lock").write_text(dump(locked))
        (tmp_path / "variants" / f"{locked.name}.yaml").write_text(variant_config(locked))
    return Workspace(tmp_path)


def table(here: Workspace, text: str) -> None:
    (here.root / "pyproject.toml").write_text(f"[project]\nname = 'x'\n[tool.ctk.default]\n{text}")


def test_the_words_are_the_ends_of_each_major(here: Workspace) -> None:
    table(here, "releases = ['newest', '12.6', 'oldest']\nrecipes = ['b', 'a']\n")
    found = small(Request(platforms=["win-64"]), here)
    assert found == Request(("12.0", "12.6", "12.10", "13.0", "13.4"), ("b", "a"), ["win-64"])
    table(here, "releases = ['newest']\n")
    assert small(Request(), here) == Request(("12.10", "13.4"))


def test_the_word_of_a_channel_is_the_minors_that_its_packages_are_compiled_with(
    here: Workspace,
) -> None:
    compiled = "[tool.ctk.conda_forge]\nminors = ['12.6']\n[tool.ctk.rapids]\nminors = ['13.0']\n"
    table(here, f"releases = ['12.0', 'conda-forge', 'rapids']\n{compiled}")
    assert small(Request(), here) == Request(("12.0", "12.6", "13.0"))
    table(here, f"releases = ['12.0', 'rapids']\n{compiled}")
    assert small(Request(), here) == Request(("12.0", "13.0"))


def test_what_is_named_or_asked_for_whole_is_left_alone(here: Workspace) -> None:
    table(here, "releases = ['newest']\nrecipes = ['a']\n")
    assert small(Request(releases=["12.0"], recipes=["c"]), here) == Request(["12.0"], ["c"])
    assert small(Request(), here, all_releases=True) == Request((), ("a",))
    assert small(Request(), here, all_components=True) == Request(("12.10", "13.4"), ())


def test_the_libraries_beside_the_toolkit_are_made_where_it_is_asked_for(here: Workspace) -> None:
    for name in ("a", "b", "c", "d"):
        (here.recipes / name).mkdir(parents=True)
        (here.recipes / name / "recipe.yaml").touch()
    beside = "[tool.ctk.libraries]\nrecipes = ['c']\ntoolkit = ['b']\n"
    table(here, f"releases = ['newest']\nrecipes = ['a']\n{beside}")
    assert small(Request(), here).recipes == ("a",)
    assert small(Request(), here, libraries=True).recipes == ("a", "c", "b")
    assert small(Request(), here, all_components=True).recipes == ("a", "b", "d")
    assert small(Request(), here, all_components=True, libraries=True).recipes == ()
    assert small(Request(recipes=["c"]), here).recipes == ["c"]


@pytest.mark.parametrize("text", ["[project]\nname = 'x'\n", None])
def test_a_checkout_without_the_table_builds_everything(here: Workspace, text: str | None) -> None:
    if text is not None:
        (here.root / "pyproject.toml").write_text(text)
    assert small(Request(), here) == Request()


def test_the_table_of_this_checkout_names_recipes_and_releases_that_are_there(
    project: Workspace,
) -> None:
    what, found = published_set(project), small(Request(), project)
    assert set(found.recipes) <= set(what.recipes)
    assert {f"cuda-{minor}" for minor in found.releases} <= set(what.locks)
    # Small, and yet the ends of every major: a driver older than all of a major's minors gets its
    # .0.
    majors = {lock.major for lock, _ in what.locks.values() if lock.is_ctk}
    assert {minor.partition(".")[0] for minor in found.releases} == majors
    assert 0 < len(found.releases) < sum(lock.is_ctk for lock, _ in what.locks.values())
