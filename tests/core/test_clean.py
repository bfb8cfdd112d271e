"""What of the caches goes by itself, what `ctk clean` removes, and what neither touches."""

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
    """What may go, by group; beside it lies what stays."""
    cache, shm = here.cache, one.MEMORY
    # In use, each in its own way.
    made(here.builds / "shown" / "noarch" / "a.conda", link=here.output / ".channel-states" / "1" / "a.conda")
    made(cache / "packages" / "used-1-0" / "lib" / "a.so", link=here.environments / "env" / "lib" / "a.so")
    made(here.store / "aa" / NAMED, link=here.artefacts / "a" / "1" / "noarch.zip")
    made(cache / "rendered" / "new.json")
    made(cache / "others" / "old", used=0)
    made(here.channel / "noarch" / "only.conda", used=0)
    made(shm / "ctk-0123456789ab" / ".tmp-new-1" / "a")
    for name in ("ctk-workers", "ctk-another", "other"):
        os.utime(made(shm / name / "a", used=0).parent, (0, 0))
    unlocked = made(shm / "ctk-aa9876543210" / ".tmp-old-1" / "a").parent  # by a clock that is wrong all is old
    (empty := shm / "ctk-ca9876543210").mkdir()
    old = made(shm / "ctk-ba9876543210" / ".tmp-old-1" / "a").parent
    lock = made(old.parent / "dead.lock")
    for path in (unlocked, unlocked.parent, old, lock, old.parent, empty):
        os.utime(path, (0, 0))
    made(here.builds / ".tmp-key" / "a")  # of a `ctk clean` that was killed
    return {
        "builds": [made(here.builds / "key" / "build.json").parent],
        "downloads": [
            made(here.store / "bb" / UNNAMED, link=here.artefacts / "b" / "1" / "noarch.zip"),
            here.artefacts / "b" / "1" / "noarch.zip",
            made(here.store / "partial" / UNNAMED),
        ],
        "notes": [made(cache / "rendered" / "old.json", used=0), made(cache / "surfaces" / "1" / "old", used=0)],
        "packages": [
            made(cache / "packages" / "free-1-0" / "lib" / "a.so").parents[1],
            made(cache / "packages" / "free-1-0.lock"),
            made(cache / "rattler" / "pkgs" / ".tmp-free-1-0" / "a").parent,
        ],
        "temporary": [
            here.builds / ".tmp-key",
            made(cache / "rebuild" / "a").parent,
            made(cache / "tmp" / "dead.lock"),
            old.parent,
            empty,
        ],
    }


def there(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.name != ".cache.lock"}


def test_what_nothing_needs_goes_and_all_else_stays(here: Workspace, goes: dict[str, list[Path]]) -> None:
    before = there(here.root.parent)
    told = clean.clean(here, dry_run=True)
    assert there(here.root.parent) == before
    gone = clean.clean(here)
    assert gone == told
    assert {g.name: sorted(g.goes) for g in gone if g.goes} == {name: sorted(goes[name]) for name in goes}
    named = [path for paths in goes.values() for path in paths]
    assert before - there(here.root.parent) == {f for f in before if any(f.is_relative_to(path) for path in named)}
    assert {g.name: g.freed for g in gone if g.freed} == {
        "builds": 9, "downloads": 18, "notes": 18, "packages": 27, "temporary": 45
    }  # fmt: skip
    assert [path for group in clean.clean(here) for path in group.goes] == []


def test_what_a_running_command_uses_stays(here: Workspace, goes: dict[str, list[Path]]) -> None:
    pkgs, dead = here.cache / "packages", next(path for path in goes["temporary"] if path.suffix == ".lock")
    with one.at_work(here), FileLock(pkgs / ".cache.lock"), FileLock(dead), ExitStack() as locks:
        assert clean.unused_packages(pkgs, locks) == []
        for folder in (memory := one.MEMORY / here.name).glob("**/"):
            os.utime(folder, (0, 0))
        other = Workspace(here.root.parent / "other")
        assert memory not in [path for place in (here, other) for g in clean.clean(place) for path in g.goes]
        assert dead.exists() and memory.exists()
    assert not memory.exists()


def test_runs_keep_what_was_used_last_and_what_they_made(here: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "BOUND", 250)
    for used, key in enumerate(["oldest", "made", "old", "new"]):
        made(here.builds / key / "build.json", used, size=100)
    recent = [made(here.cache / "rattler" / "pkgs" / name).with_suffix("") for name in ("new.lock", "old.lock")]
    os.utime(recent[1].with_suffix(".lock"), (0, 0))
    for folder in recent:
        folder.mkdir()
    clean.trim(here, ["made"])
    assert {path.name for path in here.builds.iterdir()} == {"made", "old", "new"}
    assert [folder.exists() for folder in recent] == [True, False]
