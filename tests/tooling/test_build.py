"""The build station: what is built once, what is built again, and what a failure leaves."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from tiny import tiny_checkout, tiny_plan

from ctk.build import build
from ctk.core.checkout import Workspace
from ctk.core.errors import NotReady
from ctk.fetch import fetch
from ctk.index.index import Index


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    workspace = tiny_checkout(tmp_path)
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    return workspace


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def info_files(package: Path) -> dict[str, bytes]:
    """The metadata files of a .conda package."""
    with zipfile.ZipFile(package) as archive:
        name = next(n for n in archive.namelist() if n.startswith("info-"))
        plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read(name))).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]


def test_a_build_is_made_once(checkout: Workspace) -> None:
    first = build.run(tiny_plan(checkout), checkout)
    assert [(b.id, b.cached) for b in first.built] == [
        ("hello-cuda13.4-linux-64", False),
        ("follower-cuda13.4-noarch", False),
    ]
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for b in first.built for p in b.packages}
    second = build.run(tiny_plan(checkout), checkout)
    assert all(b.cached for b in second.built)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for b in second.built for p in b.packages} == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("recipes/hello/recipe.yaml", "A greeting", "Another greeting"),
        ("recipes/hello/recipe.yaml", "number: 0", "number: 1"),
        ("recipes/hello/recipe.yaml", "cp greeting", "cp -p greeting"),
    ],
)
def test_what_can_change_a_package_builds_it_again_and_nothing_else_does(
    checkout: Workspace, file: str, old: str, new: str
) -> None:
    build.run(tiny_plan(checkout), checkout)
    edit(checkout.root / file, old, new)
    again = {b.id: b.cached for b in build.run(tiny_plan(checkout), checkout).built}
    assert again == {"hello-cuda13.4-linux-64": False, "follower-cuda13.4-noarch": True}


def test_a_variant_key_that_a_recipe_does_not_use_builds_nothing_again(checkout: Workspace) -> None:
    build.run(tiny_plan(checkout), checkout)
    edit(checkout.build_config, "[cp312]", "[cp312]\nunused: [a]")
    assert all(b.cached for b in build.run(tiny_plan(checkout), checkout).built)


def test_a_shared_script_counts_for_the_recipes_that_name_it(checkout: Workspace) -> None:
    (checkout.recipes / "common").mkdir()
    shared = checkout.recipes / "common" / "greet.sh"
    shared.write_text("mkdir -p $PREFIX/share/hello\ncp greeting.txt $PREFIX/share/hello/\n")
    lines = "\n    - mkdir -p $PREFIX/share/hello\n    - cp greeting.txt $PREFIX/share/hello/"
    edit(checkout.recipes / "hello" / "recipe.yaml", lines, " {file: ../common/greet.sh}")
    build.run(tiny_plan(checkout), checkout)
    shared.write_text(shared.read_text() + "true\n")
    again = {b.id: b.cached for b in build.run(tiny_plan(checkout), checkout).built}
    assert again == {"hello-cuda13.4-linux-64": False, "follower-cuda13.4-noarch": True}


def test_a_failed_build_shows_its_log_and_skips_what_needs_it(checkout: Workspace) -> None:
    edit(checkout.recipes / "hello" / "recipe.yaml", "cp greeting.txt", "cp no-such-greeting.txt")
    report = build.run(tiny_plan(checkout), checkout)
    assert report.built == ()
    assert [f.id for f in report.failed] == ["hello-cuda13.4-linux-64"]
    assert "no-such-greeting.txt" in report.failed[0].message
    assert [(s.id, s.message) for s in report.skipped] == [
        ("follower-cuda13.4-noarch", "it needs hello-cuda13.4-linux-64, which was not built")
    ]
    assert "no-such-greeting.txt" in (checkout.cache / "logs" / "hello-cuda13.4-linux-64.log").read_text()
    assert not list(checkout.builds.glob(".tmp-*"))


def test_a_package_without_the_promised_file_is_a_failed_build(checkout: Workspace) -> None:
    edit(
        checkout.recipes / "hello" / "recipe.yaml",
        "files: [share/hello/greeting.txt]",
        "files: [share/hello/farewell.txt]",
    )
    report = build.run(tiny_plan(checkout), checkout)
    assert "farewell.txt" in report.failed[0].message


def test_an_incomplete_folder_in_the_cache_is_not_taken_for_a_build(checkout: Workspace) -> None:
    made = build.run(tiny_plan(checkout), checkout).built[0]
    made.packages[0].unlink()
    assert not build.run(tiny_plan(checkout), checkout).built[0].cached
    assert made.packages[0].exists()


def test_what_a_killed_run_left_is_cleared(checkout: Workspace) -> None:
    leftover = checkout.builds / ".tmp-0123-1"
    leftover.mkdir(parents=True)
    (leftover / "half.conda").write_bytes(b"half")
    build.run(tiny_plan(checkout), checkout)
    assert not leftover.exists()


def test_no_package_names_a_folder_of_the_build_machine(checkout: Workspace) -> None:
    for made in build.run(tiny_plan(checkout), checkout).built:
        files = info_files(made.packages[0])
        assert "info/recipe/rendered_recipe.yaml" in files
        for name, text in files.items():
            assert str(checkout.root).encode() not in text, name
            assert str(Path.home()).encode() not in text, name
            assert b"_placehold" not in text, name


def test_taking_the_paths_out_leaves_the_payload_and_the_hashes_as_they_were(checkout: Workspace) -> None:
    package = build.run(tiny_plan(checkout), checkout).built[0].packages[0]
    with zipfile.ZipFile(package) as archive:
        name = next(n for n in archive.namelist() if n.startswith("pkg-"))
        plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read(name))).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        greeting = tar.extractfile("share/hello/greeting.txt").read()  # type: ignore[union-attr]
    assert greeting == b"hello\n"
    assert hashlib.sha256(greeting).hexdigest().encode() in info_files(package)["info/paths.json"]


@pytest.mark.parametrize("name", ["a ${{ x }}", "a $(touch here)", "a `b`", 'a "b'])
def test_a_path_that_a_shell_would_not_read_as_text_is_refused(name: str, tmp_path: Path) -> None:
    """rattler-build writes it into a script between double quotes."""
    workspace = tiny_checkout(tmp_path / name)
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    with pytest.raises(NotReady, match=r"path has .* in it"):
        build.run(tiny_plan(workspace), workspace)


def test_a_path_with_other_signs_builds(tmp_path: Path) -> None:
    workspace = tiny_checkout(tmp_path / "a 'b' {c} ü; & #")
    fetch.fetch(tiny_plan(workspace).artefacts, workspace, Index)
    assert not build.run(tiny_plan(workspace), workspace).failed
