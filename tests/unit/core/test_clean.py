"""Files that runs remove from the caches, files that `ctk clean` removes, and files that stay."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from filelock import FileLock

from ctk import clean
from ctk.build import one
from ctk.core.checkout import Workspace

NAMED, UNNAMED = "a" * 64, "b" * 64


def made(file: Path, used: int | None = None, link: Path | None = None, size: int = 9) -> Path:
    """A file, last used at a time, with a hard link elsewhere."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))
    if used is not None:
        os.utime(file, (used, used))
    if link:
        link.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, link)
    return file


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout, beside a folder that stands for the file system in memory."""
    monkeypatch.setattr(one, "MEMORY", tmp_path / "shm")
    made(tmp_path / "checkout" / "variants" / "cuda-13.4.lock").write_text(f'"sha256": "{NAMED}"')
    return Workspace(tmp_path / "checkout")


@pytest.fixture
def goes(here: Workspace) -> dict[str, list[Path]]:
    """The files that may go, by group; beside them are files that stay."""
    cache, shm = here.cache, one.MEMORY
    # In use, each in its own way.
    made(
        here.builds / "shown" / "noarch" / "a.conda",
        link=here.output / ".channel-states" / "1" / "a.conda",
    )
    made(
        here.packages / "used-1-0" / "lib" / "a.so", link=here.environments / "env" / "lib" / "a.so"
    )
    made(here.store / "aa" / NAMED, link=here.artefacts / "a" / "1" / "noarch.zip")
    made(here.notes / "rendered" / "new.json")
    made(here.rattler / "repodata" / "a.json", used=0)
    made(cache / "others" / "old", used=0)
    made(here.channel / "noarch" / "only.conda", used=0)
    made(shm / "ctk-0123456789ab" / ".tmp-of-another-checkout" / "a", used=0)
    old = made(one.in_memory(here) / ".tmp-old-1" / "a").parent
    made(old.parent / "dead.lock")
    made(here.builds / ".tmp-key" / "a")  # of a `ctk clean` that was killed
    return {
        "builds": [made(here.builds / "key" / "build.json").parent],
        "downloads": [
            made(here.store / "bb" / UNNAMED, link=here.artefacts / "b" / "1" / "noarch.zip"),
            here.artefacts / "b" / "1" / "noarch.zip",
            made(here.store / "partial" / UNNAMED),
        ],
        "notes": [
            made(here.notes / "rendered" / "old.json", used=0),
            made(here.logs / "old.log", used=0),
        ],
        "packages": [
            made(here.packages / "free-1-0" / "lib" / "a.so").parents[1],
            made(here.packages / "free-1-0.lock"),
            made(here.packages / ".tmp-free-1-0" / "a").parent,
        ],
        "temporary": [
            here.builds / ".tmp-key",
            made(here.temporary / "dead.lock"),
            old.parent,
        ],
    }


def there(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.name != ".cache.lock"}


def test_files_that_nothing_needs_go_and_all_others_stay(
    here: Workspace, goes: dict[str, list[Path]]
) -> None:
    before = there(here.root.parent)
    told = clean.clean(here, dry_run=True)
    assert there(here.root.parent) == before
    gone = clean.clean(here)
    assert gone == told
    assert {g.name: sorted(g.goes) for g in gone if g.goes} == {
        name: sorted(goes[name]) for name in goes
    }
    named = [path for paths in goes.values() for path in paths]
    assert before - there(here.root.parent) == {
        f for f in before if any(f.is_relative_to(path) for path in named)
    }
    assert {g.name: g.freed for g in gone if g.freed} == {
        "builds": 9, "downloads": 18, "notes": 18, "packages": 27, "temporary": 36
    }  # fmt: skip
    assert [path for group in clean.clean(here) for path in group.goes] == []


def test_files_that_a_running_command_uses_stay(
    here: Workspace, goes: dict[str, list[Path]]
) -> None:
    pkgs, dead = here.packages, next(path for path in goes["temporary"] if path.suffix == ".lock")
    with one.at_work(here), FileLock(pkgs / ".cache.lock"), FileLock(dead), ExitStack() as locks:
        assert clean.unused_packages(pkgs, locks) == []
        for folder in (memory := one.in_memory(here)).glob("**/"):
            os.utime(folder, (0, 0))
        other = Workspace(here.root.parent / "other")
        assert memory not in [
            path for place in (here, other) for g in clean.clean(place) for path in g.goes
        ]
        assert dead.exists() and memory.exists()
    assert not memory.exists()


def test_runs_keep_the_last_used_builds_and_their_own(
    here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean, "BOUND", 250)
    for used, key in enumerate(["oldest", "made", "old", "new"]):
        made(here.builds / key / "build.json", used, size=100)
    recent = [made(here.packages / name).with_suffix("") for name in ("new.lock", "old.lock")]
    os.utime(recent[1].with_suffix(".lock"), (0, 0))
    for folder in recent:
        folder.mkdir()
    clean.trim(here, ["made"])
    assert {path.name for path in here.builds.iterdir()} == {"made", "old", "new"}
    assert [folder.exists() for folder in recent] == [True, False]


def test_what_is_unpacked_of_an_earlier_package_of_a_name_goes(
    here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(here.rattler))
    packages = [made(tmp_path / f"{name}-1-0.conda", used=10) for name in ("again", "same", "new")]
    for name, unpacked in (("again-1-0", 9), ("same-1-0", 11), ("other-1-0", 1)):
        made(here.packages / name / "file")
        os.utime(here.packages / name, (unpacked, unpacked))
    clean.forget_older(packages)
    assert sorted(folder.name for folder in here.packages.iterdir()) == ["other-1-0", "same-1-0"]
