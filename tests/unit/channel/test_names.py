"""A package file name is never reused for other content in a published folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.channel.check import check_channel
from ctk.channel.publish import Folder
from ctk.channel.repodata import read_index
from ctk.core.checkout import HISTORY
from ctk.core.errors import NameReused
from ctk.plan.recipes import find_recipes, maker_of
from kit.small_channels import Draft, build, digit

pytest_plugins = ["kit.channel_fixtures"]


def test_another_content_under_a_published_name_is_refused_with_both_hashes(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", ROOT / "recipes")
    first = build(tmp_path / "one", Draft("cuda-cudart"), digit(1))
    folder.publish(first)
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}
    second = build(tmp_path / "two", Draft("cuda-cudart", files={"a": b"b"}), digit(1), digit(2))
    with pytest.raises(NameReused) as error:
        folder.publish(second)
    file = "linux-64/cuda-cudart-1.0-h0_0.conda"
    for text in (file, read_index(first).names()[file], read_index(second).names()[file]):
        assert text in error.value.cause
    assert "digit" not in error.value.cause
    assert error.value.step.startswith(
        "raise the first term of `build: number` in recipes/cuda-cudart/recipe.yaml"
    )
    assert before == {p: p.read_bytes() for p in before}
    assert not (folder.path / "linux-64" / "digit2-1.0-h0_0.conda").exists()


def test_a_name_is_taken_for_good(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1), digit(2)))
    folder.publish(build(tmp_path / "two", digit(1)), exact=True)
    (folder.path / "linux-64" / "digit2-1.0-h0_0.conda").unlink()
    shutil.rmtree(folder.path / HISTORY / "1")
    with pytest.raises(NameReused, match="digit2") as error:
        folder.publish(build(tmp_path / "three", digit(2, "changed")))
    assert error.value.step.startswith(
        "raise `build: number` in your recipe, for each of its builds"
    )


def test_a_file_that_a_killed_run_left_has_taken_its_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "www", tmp_path)
    folder.publish(build(tmp_path / "one", digit(1)))
    digit(2).write(folder.path)
    with pytest.raises(NameReused, match="digit2"):
        folder.publish(build(tmp_path / "two", digit(2, "changed")))
    assert folder.publish(build(tmp_path / "three", digit(2))).packages == 2


@pytest.mark.parametrize("exact", [False, True])
def test_packages_whose_names_are_taken_can_be_left_out(tmp_path: Path, exact: bool) -> None:
    folder, kept = Folder(tmp_path / "www", tmp_path), "linux-64/digit2-1.0-h0_0.conda"
    folder.publish(build(tmp_path / "one", digit(1), digit(2)))
    before = read_index(folder.path).records[kept]
    gone = folder.publish(build(tmp_path / "two", digit(2), digit(3)), exact=True).left
    third = build(tmp_path / "three", digit(1, "changed"), digit(2, "changed"), digit(4))
    done = folder.publish(third, exact=exact, skip_taken=True)
    assert done.left_out == (kept, *gone)
    assert done.added == ("linux-64/digit4-1.0-h0_0.conda",)
    after = read_index(folder.path)
    # A package that left the index does not come back with other content.
    others = set() if exact else {"noarch/digit3-1.0-h0_0.conda"}
    assert after.names().keys() == {*done.added, kept, *others}
    assert after.records[kept] == before
    assert {finding.check for finding in check_channel(folder.path).findings} == {"sbom"}


def test_each_package_of_each_recipe_is_traced_to_it() -> None:
    recipes = find_recipes(ROOT / "recipes")
    assert maker_of("cuda-cudart-dev_win-arm64", recipes) == "cuda-cudart"
    assert maker_of("libnvptxcompiler-dev_linux-64-files", recipes) == "libnvptxcompiler"
    assert maker_of("cuda-runtime", recipes) == "cuda-toolkit"
    assert maker_of("numba", recipes) is None
