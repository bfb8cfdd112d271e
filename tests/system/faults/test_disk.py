"""A disk that is full or may not be written: error 12 at each step, nothing lost, and the next run
goes on.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ctk.build.one import MEMORY
from ctk.core.errors import NoSpace
from kit.job import Job, Undisturbed
from kit.mounts import emptied, mounts, read_only, small
from kit.whole import damaged, problems, state
from kit.world import NEW, OLD, World, ctk

pytest_plugins = ["fault_fixtures"]


def refused(done: subprocess.CompletedProcess[str], *said: str) -> None:
    """Whether a run ended as docs/errors.md says of a disk."""
    assert done.returncode == NoSpace.exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "\nnext: " in done.stderr
    for text in said:
        assert text in done.stderr


def begun(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The steps that a run went through."""
    return [
        s
        for s in ("fetch", "build", "audit", "index", "package tests", "publish")
        if f" {s}: " in done.stderr
    ]


def test_a_run_that_finds_a_full_disk_at_one_step_after_another_gets_there_in_the_end(
    job: Job, right: Undisturbed
) -> None:
    world, here = job.world, job.world.workspace
    places = {"store": here.store, "builds": here.builds, "output": here.output}
    with mounts(
        small(store=100_000, builds=100_000, output=100_000, notes=8_000),
        **places,
        notes=here.notes,
    ) as there:
        channel = there.see(here.output) / "channel"
        passed = []
        for place in places.values():
            done = ctk(world, *world.build(OLD, NEW), mounts=there.pid)
            refused(done, f"No space left on device: {place}")
            assert problems(channel, world.base) == []
            assert state(channel) == right.before
            passed.append(begun(done))
            there.enlarge(place)
        # Notes that cannot be written stop no run.
        assert passed == [[], ["fetch"], ["fetch", "build", "audit"]]
        done = ctk(world, *world.build(OLD, NEW), mounts=there.pid)
        assert done.returncode == 0, done.stderr
        assert problems(channel, world.base) == []
        assert state(channel) == right.after
        assert not list(there.see(here.builds).glob(".tmp-*"))


def test_a_full_disk_is_told_from_a_script_that_fails(job: Job, right: Undisturbed) -> None:
    """Without room in memory builds work in the cache, and what finds it full is a script, or
    rattler.
    """
    world, here = job.world, job.world.workspace
    script = f"{emptied('memory')}\n{small(builds=250_000)}"
    with mounts(script, memory=MEMORY, builds=here.builds) as there:
        refused(
            ctk(world, *world.build(OLD, NEW), mounts=there.pid),
            "No space left on device: ",
            str(here.builds),
        )
        there.enlarge(here.builds)
        assert ctk(world, *world.build(OLD, NEW), mounts=there.pid).returncode == 0
        assert state(here.channel) == right.after


def test_a_full_folder_for_temporary_files_is_no_failed_recipe_or_test(
    job: Job, right: Undisturbed, tmp_path: Path
) -> None:
    """Without room in memory rattler-build writes archives there first, and says of that without
    the system's error.
    """
    world = job.world
    script = f"{emptied('memory')}\n{small(folder=200_000)}"
    with mounts(script, memory=MEMORY, folder=tmp_path) as there:
        done = ctk(world, *world.build(OLD, NEW), mounts=there.pid, TMPDIR=str(tmp_path))
        refused(done, f"{tmp_path}/")
        said = r"^error: (No space left on device|a file could not be written): "
        assert re.search(said, done.stderr, re.MULTILINE)
    assert state(world.workspace.channel) == right.before


def audit(world: World) -> list[str]:
    """The command that audits the packages of the built channel.

    As a channel it is not sound: it is not a clone.
    """
    packages = sorted(world.workspace.channel.glob("*/*.conda"))
    return ["check", *map(str, packages), "--base", str(world.base)]


@pytest.mark.parametrize("folder", [".cache", "output"])
def test_a_folder_that_cannot_be_written_is_named_and_readers_are_not_disturbed(
    job: Job, right: Undisturbed, folder: str
) -> None:
    world = job.world
    with mounts(read_only("folder"), folder=world.root / folder) as there:
        done = ctk(world, *world.build(OLD, NEW), mounts=there.pid)
        refused(done, f"cannot write {world.root / folder}", "Read-only file system")
        assert ctk(world, *audit(world), mounts=there.pid).returncode == 0
        shown = ctk(world, "solve", "cuda-crt", "--base", str(world.base), mounts=there.pid)
        assert shown.returncode == 0, shown.stderr
    assert state(world.workspace.channel) == right.before


def test_a_checkout_that_may_only_be_read_is_enough_for_what_only_reads(
    job: Job, tmp_path: Path
) -> None:
    world = job.world
    base, prefix = ("--base", str(world.base)), str(tmp_path / "env")
    create = ("env", "create", "cuda-crt", "--prefix", prefix, *base)
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    pack = ("env", "pack", "cuda-crt", "python", "-o", str(tmp_path / "x.run"), *base)
    with mounts(read_only("root"), root=world.root) as there:
        for words in (create, pack):
            done = ctk(world, *words, mounts=there.pid, XDG_CACHE_HOME=os.devnull)
            refused(done, f"cannot write {os.devnull}")
        assert not Path(prefix).exists()
        check = ("doctor", prefix)
        for words in (("solve", "cuda-crt", *base), create, check, pack, audit(world), ("clean",)):
            done = ctk(world, *words, mounts=there.pid, **home)
            assert done.returncode == 0, done.stderr
        inside = (*create[:4], str(world.workspace.output / "env"), *base)
        for words in (world.build(OLD), ["build", "--fetch-only", *world.plan(NEW)], inside):
            refused(ctk(world, *words, mounts=there.pid, **home), f"cannot write {world.root}")


def test_a_cache_of_packages_that_is_somebody_else_s_is_named_and_no_environment_is_begun(
    job: Job, tmp_path: Path
) -> None:
    cache, prefix = job.world.workspace.packages, tmp_path / "env"
    with mounts(f'mkdir -p "$cache"; {read_only("cache")}', cache=cache) as there:
        for words in (
            ("create", "--prefix", str(prefix)),
            ("pack", "python", "-o", str(tmp_path / "x.run")),
        ):
            done = ctk(
                job.world,
                "env",
                *words,
                "cuda-crt",
                "--base",
                str(job.world.base),
                mounts=there.pid,
            )
            refused(done, f"cannot write {cache}: ")
    assert not prefix.exists()


def limited(bytes_: int) -> Sequence[str]:
    """What a command line begins with, to write no file that is larger."""
    return ["prlimit", f"--fsize={bytes_}"]


def test_a_release_is_locked_whole_or_not_at_all(job: Job) -> None:
    world, variants = job.world, job.world.workspace.variants
    add = ["release", "add", "python-13", "--write"]
    before = {p.name: p.read_bytes() for p in variants.iterdir()}
    for name in ("python-13.lock", "python-13.yaml"):
        (variants / name).unlink()
    after_loss = {p.name for p in variants.iterdir()}
    with mounts(small(variants=0), variants=variants) as there:
        refused(ctk(world, *add, mounts=there.pid), f"No space left on device: {variants}")
        assert {p.name for p in there.see(variants).iterdir()} == after_loss
    refused(ctk(world, *add, prefix=limited(1000)), "File too large: ")
    assert {p.name for p in variants.iterdir()} == after_loss
    assert ctk(world, *add).returncode == 0
    assert {p.name: p.read_bytes() for p in variants.iterdir()} == before


@pytest.mark.parametrize("full", ["prefix", "packages"])
def test_an_environment_that_finds_a_full_disk_is_completed_by_the_next_run(
    job: Job, tmp_path: Path, full: str
) -> None:
    world, prefix = job.world, tmp_path / "env"
    create = [
        "env",
        "create",
        "cuda-crt",
        "cuda-pathfinder",
        "--prefix",
        str(prefix),
        "--base",
        str(world.base),
    ]
    place = {"prefix": prefix, "packages": world.workspace.packages}[full]
    with mounts(small(place=70_000), place=place) as there:
        refused(ctk(world, *create, mounts=there.pid), "No space left on device: ")
        there.enlarge(place)
        done = ctk(world, *create, mounts=there.pid)
        assert done.returncode == 0, done.stderr
        assert damaged(there.see(prefix)) == []
        assert "unchanged: " in ctk(world, *create, mounts=there.pid).stdout


def test_a_published_folder_that_is_full_or_read_only_stays_as_it_was(
    job: Job, right: Undisturbed, tmp_path: Path
) -> None:
    world, folder = job.world, tmp_path / "www"
    publish = ["publish", "--to", str(folder)]
    assert ctk(world, *publish).returncode == 0
    before = state(folder)
    assert ctk(world, *world.build(OLD, NEW)).returncode == 0
    with mounts(read_only("folder"), folder=folder) as there:
        refused(ctk(world, *publish, mounts=there.pid), f"cannot write {folder}")
    with mounts(small(folder=8_000), folder=folder) as there:
        refused(ctk(world, *publish, mounts=there.pid), f"No space left on device: {folder}")
        # Packages may have arrived; the index, and what it names, is as it was.
        assert before.items() <= state(there.see(folder)).items()
        there.enlarge(folder)
        done = ctk(world, *publish, mounts=there.pid)
        assert done.returncode == 0, done.stderr
        assert set(state(there.see(folder))) >= set(right.after)
        checked = ctk(world, "check", str(folder), mounts=there.pid)
        assert [
            line for line in checked.stdout.splitlines() if "orphan" in line or "index" in line
        ] == []
