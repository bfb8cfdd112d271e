"""A cache that is not what a run left there, and a machine that is not one to build on: nothing of
it enters a package.

A cache of a CI service may be old or damaged, so each file is read before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ctk.core import errors
from kit.job import Job, Undisturbed
from kit.whole import problems, state
from kit.world import NEW, OLD, ctk

pytest_plugins = ["fault_fixtures"]


def overwrite(file: Path) -> None:
    """Other content of the same size and time, seen through every hard link."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    with file.open("r+b") as there:
        there.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def stored(job: Job) -> list[Path]:
    return [path for path in job.world.workspace.store.glob("??/*") if path.is_file()]


def packages(job: Job) -> list[Path]:
    return sorted(job.world.workspace.builds.glob("*/*/*.conda"))


def is_right(file: Path) -> bool:
    """Whether a file of the store is what its name says."""
    return hashlib.sha256(file.read_bytes()).hexdigest() == file.name


def test_what_is_damaged_is_fetched_or_built_again(job: Job, right: Undisturbed) -> None:
    world, channel = job.world, job.world.workspace.channel
    assert ctk(world, "build", "--fetch-only", *world.plan(OLD, NEW)).returncode == 0
    for file in stored(job):
        overwrite(file)
    # And a variable that is not text, at which rattler-build panics.
    done = ctk(world, *world.build(OLD, NEW), STRANGE=os.fsdecode(b"\xff\xfe"))
    assert done.returncode == 0, done.stderr
    assert state(channel) == right.after

    for file in filter(is_right, stored(job)):
        overwrite(file)
    assert not any(map(is_right, stored(job)))
    done = ctk(world, "check", "--rebuild", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(map(is_right, stored(job)))  # those of the packages: no build reads the others

    for file in packages(job):
        overwrite(file)  # of the channel, too: it has the same file
    assert state(channel) != right.after
    done = ctk(world, *world.build(OLD, NEW))
    assert done.returncode == 0, done.stderr
    assert state(channel) == right.after
    assert problems(channel, world.base) == []

    found = packages(job)
    assert len(found) >= len(FOREIGN)
    for package, spoil in zip(found, FOREIGN.values(), strict=False):
        package.chmod(0o644)
        shutil.copyfile(package, package.with_suffix(".other"))
        os.replace(package.with_suffix(".other"), package)  # the channel keeps its own
        spoil(package)
    done = ctk(world, *world.build(OLD, NEW))
    assert done.returncode == 0, done.stderr
    assert state(channel) == right.after


def test_a_package_of_another_build_that_the_channel_has_spoilt_is_said(
    job: Job, right: Undisturbed
) -> None:
    world, channel = job.world, job.world.workspace.channel
    spoilt = next((channel / "noarch").glob("cuda-version-*.conda"))
    overwrite(spoilt)
    before = state(channel)
    done = ctk(world, "build", "--base", str(world.base), "cuda-crt", "--release", NEW)
    assert done.returncode == errors.ChannelBroken.exit_code, done.stderr
    assert f"noarch/{spoilt.name}" in done.stderr
    assert state(channel) == before
    assert ctk(world, *world.build(OLD)).returncode == 0  # the next step that it names
    assert state(channel)[f"noarch/{spoilt.name}"] == right.before[f"noarch/{spoilt.name}"]
    assert problems(channel, world.base) == []


def test_a_run_keeps_the_cache_bounded_and_nothing_that_goes_with_clean_is_missed(
    job: Job, right: Undisturbed
) -> None:
    world, old = job.world, job.world.workspace.notes / "rendered" / "old.json"
    old.touch()
    os.utime(old, (0, 0))
    assert ctk(world, *world.build(OLD, NEW)).returncode == 0
    assert not old.exists()
    for command in (["clean"], world.build(OLD, NEW)):
        done = ctk(world, *command)
        assert done.returncode == 0, done.stderr
        assert state(world.workspace.channel) == right.after
        assert problems(world.workspace.channel, world.base) == []
    assert " 0 built," in done.stderr


def _note(text: str) -> Callable[[Path], None]:
    return lambda package: package.parents[1].joinpath("build.json").write_text(text) and None


FOREIGN: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "empty": lambda package: package.write_bytes(b"") and None,
    "no note": lambda package: package.parents[1].joinpath("build.json").unlink(),
    "no JSON": _note("{"),
    "no hashes": _note(json.dumps({"id": "x", "packages": ["noarch/a-1-0.conda"], "seconds": 1})),
}
"""What a damaged cache of builds may have in the place of a package, or of the note beside it."""


def test_a_machine_that_cannot_build_is_not_told_as_a_fault_of_the_recipe(
    job: Job, right: Undisturbed
) -> None:
    done = ctk(job.world, *job.world.build(OLD, NEW), PATH="")
    assert done.returncode == errors.NotReady.exit_code, done.stderr
    assert "there is no bash on PATH" in done.stderr
    assert "recipe" not in done.stderr.partition("error:")[2].replace("scripts of recipes", "")
    assert state(job.world.workspace.channel) == right.before
