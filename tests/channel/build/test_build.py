"""Builds of a plan: made once, made again after a change, and cleared after a failure."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, as_completed
from pathlib import Path

import pytest

from ctk.build import build
from ctk.build.finished import cached
from ctk.build.runner import refuse_machine
from ctk.core import files
from ctk.core.checkout import Workspace
from ctk.core.errors import NotReady
from ctk.lock.redistribution import Reading
from kit.tiny import tiny_checkout, tiny_plan
from kit.tiny_checkout import FOLLOWER, HELLO, edit, fetched


@pytest.fixture
def checkout(tmp_path: Path) -> Workspace:
    return fetched(tmp_path)


def cached_after_a_run(checkout: Workspace) -> dict[str, bool]:
    return {b.id: b.cached for b in build.run(tiny_plan(checkout), checkout).built}


def test_a_build_is_made_once(checkout: Workspace) -> None:
    first = build.run(tiny_plan(checkout), checkout)
    assert {b.id: b.cached for b in first.built} == {HELLO: False, FOLLOWER: False}
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for b in first.built for p in b.packages}
    second = build.run(tiny_plan(checkout), checkout)
    assert all(b.cached for b in second.built)
    assert {
        p: (p.stat().st_mtime_ns, p.stat().st_ino) for b in second.built for p in b.packages
    } == before


def test_a_build_is_made_again_once_somebody_has_read_its_licence_texts(
    checkout: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {b.id: b for b in build.run(tiny_plan(checkout), checkout).built}
    assert (len(made[HELLO].unread), made[FOLLOWER].unread) == (1, ())
    readings = dict.fromkeys(made[HELLO].unread, Reading("open source"))
    monkeypatch.setattr("ctk.lock.redistribution.load", lambda: readings)
    found = {b.id: cached(b, checkout) for b in tiny_plan(checkout).builds}
    assert [found[HELLO], found[FOLLOWER] is not None] == [None, True]


SCRIPT = "\n    - mkdir -p $PREFIX/share/hello\n    - cp greeting.txt $PREFIX/share/hello/"
SHARED = "recipes/common/greet.sh"


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("recipes/hello/recipe.yaml", "A greeting", "Another greeting", True),
        ("recipes/hello/recipe.yaml", "number: 0", "number: 1", True),
        (SHARED, "cp greeting", "cp -p greeting", True),
        ("conda_build_config.yaml", "[cp312]", "[cp312]\nunused: [a]", False),
    ],
    ids=["metadata", "number", "shared script", "variant key that no recipe uses"],
)
def test_a_change_of_a_package_builds_it_again_and_any_other_change_does_not(
    checkout: Workspace, file: str, old: str, new: str, again: bool
) -> None:
    (checkout.recipes / "common").mkdir()
    (checkout.root / SHARED).write_text(
        "mkdir -p $PREFIX/share/hello\ncp greeting.txt $PREFIX/share/hello/\n"
    )
    edit(checkout.recipes / "hello" / "recipe.yaml", SCRIPT, " {file: ../common/greet.sh}")
    cached_after_a_run(checkout)
    edit(checkout.root / file, old, new)
    assert cached_after_a_run(checkout) == {HELLO: not again, FOLLOWER: True}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cp greeting.txt", "cp no-such.txt"),
        ("files: [share/hello/greeting.txt]", "files: [share/hello/no-such.txt]"),
    ],
    ids=["the script fails", "a promised file is missing"],
)
def test_a_failed_build_shows_its_log_and_fails_alone(
    checkout: Workspace, old: str, new: str
) -> None:
    edit(checkout.recipes / "hello" / "recipe.yaml", old, new)
    report = build.run(tiny_plan(checkout), checkout)
    assert [b.id for b in report.built] == [FOLLOWER]  # though it requires hello
    assert [*report.failed] == [HELLO]
    assert "no-such.txt" in report.failed[HELLO]
    assert "no-such.txt" in (checkout.logs / f"{HELLO}.log").read_text()
    assert not list(checkout.builds.glob(".tmp-*"))


def test_large_builds_start_first(checkout: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def noted(running: dict[Future[build.Built], str]) -> Iterator[Future[build.Built]]:
        started.extend(running.values())
        return as_completed(running)

    monkeypatch.setattr(build, "as_completed", noted)
    report = build.run(tiny_plan(checkout), checkout)
    assert started == [HELLO, FOLLOWER]
    assert [b.id for b in report.built] == [FOLLOWER, HELLO]  # the plan's order


def test_an_incomplete_build_is_made_again_and_leftovers_of_a_killed_run_are_removed(
    checkout: Workspace,
) -> None:
    made = build.run(tiny_plan(checkout), checkout).built[0]
    made.packages[0].unlink()
    leftover = checkout.builds / ".tmp-0123-1"
    leftover.mkdir()
    (leftover / "half.conda").write_bytes(b"half")
    assert not build.run(tiny_plan(checkout), checkout).built[0].cached
    assert made.packages[0].exists()
    assert not leftover.exists()


@pytest.mark.parametrize("name", ["a $(touch here)", 'a "b', "it's", "a:b", "a\nb"])
def test_a_path_that_would_break_a_build_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rattler-build writes it into a script between double quotes, and others into Python files, #!
    lines and PATH.
    """
    with pytest.raises(NotReady, match="would break files of packages"):
        refuse_machine(tiny_checkout(tmp_path / name))
    linked = tiny_checkout(tmp_path / "linked")
    # Where rattler-build works.
    linked.own_cache.symlink_to(linked.own_cache.rename(tmp_path / name / "cache"))
    with pytest.raises(NotReady, match="would break files of packages"):
        refuse_machine(linked)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))  # where packages are tested
    with pytest.raises(NotReady, match="would break files of packages"):
        refuse_machine(tiny_checkout(tmp_path / "good"))


def test_a_path_with_other_signs_builds(tmp_path: Path) -> None:
    workspace = fetched(tmp_path / "a (b) {c} ü; & #")
    assert not build.run(tiny_plan(workspace), workspace).failed


def test_a_package_that_was_changed_in_place_is_read_again(tmp_path: Path) -> None:
    """Also where it has the size and the time that it had."""
    package, noted = tmp_path / "a-1-0.conda", tmp_path / "read.json"
    package.write_bytes(b"right")
    before, sha256 = package.stat(), hashlib.sha256(b"right").hexdigest()
    time.sleep(0.1)  # so soon after a change no note is made
    notes = files.HashNotes(noted)
    assert notes.holds(package, sha256)
    notes.save({})
    assert json.loads(noted.read_bytes())
    package.write_bytes(b"wrong")
    os.utime(package, ns=(before.st_atime_ns, before.st_mtime_ns))
    time.sleep(0.1)
    files._hashes.clear()  # another process has none
    assert not files.HashNotes(noted).holds(package, sha256)
