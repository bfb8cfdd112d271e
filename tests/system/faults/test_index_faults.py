"""A package index that fails, stalls or has other files, at every step that asks it: the listed
error.

Each fault meets all the commands at once, each in a checkout of its own: they are the steps fetch
(alone, and as the main job's first part), and lock (add and check).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ctk.core.errors import HashMismatch, IndexUnavailable, NotPublished
from kit.job import Job, Undisturbed
from kit.whole import problems, state
from kit.world import NEW, OLD, VERSIONS, Fault, World, ctk

pytest_plugins = ["fault_fixtures"]

DOWN, GONE, WRONG = IndexUnavailable.exit_code, NotPublished.exit_code, HashMismatch.exit_code
FILES, PAGES = "files/", "simple/"
OTHER = b"PK of somebody else" * 400
# Seconds after which a command hangs: how fast it gives up is not judged, a machine may be busy.
SOON = 900


CASES: dict[str, tuple[Fault, int]] = {
    # What is wrong -> the fault, and the exit code of all commands. tests/index and tests/fetch
    # have more faults.
    "no file": (Fault(FILES, status=404), GONE),
    "files stall": (Fault(FILES, pause=0.8), DOWN),
    "pages break off": (Fault(PAGES, truncate=50), DOWN),
    "files are others": (Fault(FILES, content=OTHER), WRONG),
}


@dataclass(frozen=True)
class Stations:
    """The commands that ask the index, by name, each with a checkout of its own."""

    commands: dict[str, tuple[World, list[str]]]

    def run(self, *names: str, patience: float = 60) -> dict[str, subprocess.CompletedProcess[str]]:
        """Some of them at once, by default all.

        ``patience`` is the seconds that pip waits for an answer.
        """

        def one(name: str) -> subprocess.CompletedProcess[str]:
            world, words = self.commands[name]
            return ctk(world, *words, timeout=SOON, PIP_TIMEOUT=str(patience))

        asked = names or tuple(self.commands)
        with ThreadPoolExecutor(len(asked)) as pool:
            return dict(zip(asked, pool.map(one, asked), strict=True))

    def kept_wrong(self) -> list[Path]:
        """Files in the caches that are not files of the index."""
        world, _ = self.commands["build"]
        right = {
            hashlib.sha256(content).hexdigest()
            for files in world.index.projects.values()
            for content in files.values()
        }
        here = [world.workspace for world, _ in self.commands.values()]
        kept = [
            file for one in here for file in (*one.store.glob("??/*"), *one.artefacts.rglob("*.*"))
        ]
        return [
            f
            for f in kept
            if f.is_file() and hashlib.sha256(f.read_bytes()).hexdigest() not in right
        ]

    def locks(self) -> dict[Path, bytes]:
        """Every file of the locks of each checkout."""
        folders = [world.workspace.variants for world, _ in self.commands.values()]
        return {file: file.read_bytes() for folder in folders for file in folder.iterdir()}


@pytest.fixture
def steps(job: Job, tmp_path: Path) -> Stations:
    world = job.world
    commands = {"build": (world, world.build(OLD, NEW))}
    for name, words in {
        "fetch": ["build", "--fetch-only", *world.plan(OLD, NEW)],
        "add": ["release", "add", NEW, "--write"],
        "check": ["release", "check"],
    }.items():
        # A checkout without a cache.
        shutil.copytree(
            world.root, tmp_path / name, ignore=shutil.ignore_patterns(".cache", "output")
        )
        commands[name] = (replace(world, root=tmp_path / name), words)
    for suffix in (".lock", ".yaml"):
        (tmp_path / "add" / "variants" / f"cuda-{NEW}{suffix}").unlink()
    return Stations(commands)


@pytest.mark.parametrize("name", CASES)
def test_a_bad_index_is_the_listed_error_at_every_step(
    steps: Stations, job: Job, right: Undisturbed, name: str
) -> None:
    fault, expected = CASES[name]
    before = steps.locks()
    job.world.index.faults.append(fault)
    for step, done in steps.run(patience=0.25 if fault.pause else 60).items():
        assert done.returncode == expected, f"{step}: {done.stdout}{done.stderr}"
        assert "\nnext: " in done.stderr, step
        assert "Traceback" not in done.stderr, step
    assert steps.kept_wrong() == []
    assert steps.locks() == before
    channel = job.world.workspace.channel
    assert problems(channel, job.world.base) == []
    assert state(channel) == right.before


def test_a_file_that_changed_after_the_lock_is_refused_before_it_is_fetched(
    steps: Stations, job: Job, right: Undisturbed
) -> None:
    index = job.world.index
    kept = {name: dict(files) for name, files in index.projects.items()}
    try:
        for files in index.projects.values():
            files |= {
                name: content + b"\0" for name, content in files.items() if VERSIONS[NEW] in name
            }
        asked = len(index.requests)
        done = {name: steps.run(name)[name] for name in ("fetch", "build")}
        assert {name: d.returncode for name, d in done.items()} == dict.fromkeys(done, WRONG)
        assert all("the index states another sha256" in d.stderr for d in done.values())
        assert [
            r.path for r in index.requests[asked:] if FILES in r.path and VERSIONS[NEW] in r.path
        ] == []
    finally:
        index.projects = kept
    assert state(job.world.workspace.channel) == right.before


def test_what_a_bad_index_left_does_not_spoil_the_next_run(
    steps: Stations, job: Job, right: Undisturbed
) -> None:
    index = job.world.index
    # The first part of another file.
    index.faults.append(Fault(FILES, content=OTHER * 3, truncate=50))
    assert {d.returncode for d in steps.run("fetch", "build").values()} <= {DOWN, WRONG}
    assert list((job.world.workspace.store / "partial").iterdir())
    index.faults.clear()
    done = steps.run()
    assert {name: d.returncode for name, d in done.items()} == dict.fromkeys(done, 0), done
    assert steps.kept_wrong() == []
    assert state(job.world.workspace.channel) == right.after
