"""A package index that fails, stalls or lies, at every station that asks it: the listed error, and nothing kept wrong.

Each fault meets all the commands at once, each in a checkout of its own: they are the stations fetch (alone, and as the
main job's first part), lock (add and check), and the one that borrows artefacts (diff).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from job import Job, Undisturbed
from whole import problems, state
from world import NEW, OLD, VERSIONS, Fault, World, ctk

from ctk.core.errors import HashMismatch, IndexUnavailable, NotPublished

pytest_plugins = ["fault_fixtures"]

DOWN, GONE, WRONG = IndexUnavailable.exit_code, NotPublished.exit_code, HashMismatch.exit_code
FILES, PAGES = "files/", "simple/"
OTHER = b"PK of somebody else" * 400
# Seconds after which a command hangs: how fast it gives up is not judged, a machine may be busy.
SOON = 900


@dataclass(frozen=True)
class Case:
    """A fault, and the exit code of each command that it meets.

    Attributes:
        code: What they end with.
        but: Commands that end with another.
    """

    fault: Fault
    code: int
    but: Mapping[str, int]


def case(code: int, fault: Fault, **but: int) -> Case:
    return Case(fault, code, but)


CASES = {
    "no page": case(GONE, Fault(PAGES, status=404)),
    "no file": case(GONE, Fault(FILES, status=404)),
    "pages answer 500": case(DOWN, Fault(PAGES, status=500)),
    "files answer 500": case(DOWN, Fault(FILES, status=500)),
    "files answer 429": case(DOWN, Fault(FILES, status=429, retry_after="1")),
    "pages are slow": case(DOWN, Fault(PAGES, delay=2.5)),
    "files stall": case(DOWN, Fault(FILES, pause=2.5)),
    "pages break off": case(DOWN, Fault(PAGES, truncate=50)),
    "files break off": case(DOWN, Fault(FILES, truncate=50)),
    # All of the locked file came, so it is good; of a manifest only the index says what it must be.
    "files are said to be longer": case(0, Fault(FILES, length=10**6), add=DOWN, check=DOWN),
    "files are said to be shorter": case(WRONG, Fault(FILES, length=100)),
    "files are others": case(WRONG, Fault(FILES, content=OTHER)),
    "pages redirect in a circle": case(DOWN, Fault(PAGES, loop=True)),
    "files redirect in a circle": case(DOWN, Fault(FILES, loop=True)),
}


@dataclass(frozen=True)
class Stations:
    """The commands that ask the index, by name, each with a checkout of its own."""

    commands: Mapping[str, tuple[World, tuple[str, ...]]]

    def run(self, names: Sequence[str] = ()) -> dict[str, subprocess.CompletedProcess[str]]:
        """Some of them at once, by default all; with little patience where the index is slow, else with much."""
        faults = [fault for world, _ in self.commands.values() for fault in world.index.faults]
        patience = "1" if any(fault.delay or fault.pause for fault in faults) else "60"
        asked = {name: it for name, it in self.commands.items() if not names or name in names}
        with ThreadPoolExecutor(len(asked)) as pool:
            runs = {
                name: pool.submit(ctk, world, *words, timeout=SOON, PIP_TIMEOUT=patience)
                for name, (world, words) in asked.items()
            }
            return {name: run.result() for name, run in runs.items()}

    def kept_wrong(self) -> list[str]:
        """Files in the caches that are not what their names say, and locks that are not those of the beginning."""
        found = []
        for world, _ in self.commands.values():
            here = world.workspace
            for file in [*here.store.glob("??/*"), *here.artefacts.rglob("*.*")]:
                if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() not in right_hashes(world):
                    found.append(str(file))
        return found


def right_hashes(world: World) -> set[str]:
    return {
        hashlib.sha256(content).hexdigest() for files in world.index.projects.values() for content in files.values()
    }


@pytest.fixture
def stations(job: Job, tmp_path: Path) -> Stations:
    world = job.world
    job.world.index.faults.clear()
    plan = world.plan(OLD, NEW)
    words = {
        "fetch": ["fetch", *plan],
        "build": world.build(OLD, NEW),
        "add": ["release", "add", NEW, "--write"],
        "check": ["release", "check"],
        "diff": ["release", "diff", OLD, NEW],
    }
    commands = {}
    for name, line in words.items():
        root = world.root if name == "build" else light_copy(world, tmp_path / name)
        commands[name] = (replace(world, root=root), tuple(line))
    for suffix in (".lock", ".yaml"):
        (tmp_path / "add" / "variants" / f"cuda-{NEW}{suffix}").unlink()
    return Stations(commands)


def light_copy(world: World, root: Path) -> Path:
    """A checkout without a cache."""
    shutil.copytree(world.root, root, ignore=shutil.ignore_patterns(".cache", "output"))
    return root


@pytest.mark.parametrize("name", CASES)
def test_a_bad_index_is_the_listed_error_at_every_station(
    stations: Stations, job: Job, right: Undisturbed, name: str
) -> None:
    met = CASES[name]
    before = locks(stations)
    job.world.index.faults.append(met.fault)
    for station, done in stations.run().items():
        code = met.but.get(station, met.code)
        assert done.returncode == code, f"{station}: {done.stdout}{done.stderr}"
        assert not code or "\nnext: " in done.stderr, station
        assert "Traceback" not in done.stderr, station
    assert stations.kept_wrong() == []
    assert locks(stations) == before
    channel = job.world.workspace.channel
    assert problems(channel, job.world.base) == []
    assert state(channel) == (right.before if met.code else right.after)


def test_an_index_that_is_down_is_so_for_every_station(
    stations: Stations, job: Job, right: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.world.index, "port", 9)  # discard: nothing listens
    for station, done in stations.run().items():
        assert done.returncode == DOWN, f"{station}: {done.stdout}{done.stderr}"
        assert "the package index does not give" in done.stderr, station
    assert state(job.world.workspace.channel) == right.before


def test_a_file_that_changed_after_the_lock_is_refused_before_it_is_fetched(
    stations: Stations, job: Job, right: Undisturbed
) -> None:
    index = job.world.index
    kept = {name: dict(files) for name, files in index.projects.items()}
    try:
        for files in index.projects.values():
            files |= {name: content + b"\0" for name, content in files.items() if VERSIONS[NEW] in name}
        asked = len(index.requests)
        done = {name: stations.run([name])[name] for name in ("fetch", "build", "diff")}
        assert {name: d.returncode for name, d in done.items()} == dict.fromkeys(done, WRONG)
        assert all("the index states another sha256" in d.stderr for d in done.values())
        assert [r.path for r in index.requests[asked:] if FILES in r.path and VERSIONS[NEW] in r.path] == []
    finally:
        index.projects = kept
    assert state(job.world.workspace.channel) == right.before


def test_what_a_bad_index_left_does_not_spoil_the_next_run(stations: Stations, job: Job, right: Undisturbed) -> None:
    index = job.world.index
    index.faults.append(Fault(FILES, content=OTHER * 3, truncate=9_000))  # the first part of another file
    assert {d.returncode for d in stations.run(["fetch", "build"]).values()} <= {DOWN, WRONG}
    assert list((job.world.workspace.store / "partial").iterdir())
    index.faults.clear()
    done = stations.run()
    assert {name: d.returncode for name, d in done.items()} == dict.fromkeys(done, 0), done
    assert stations.kept_wrong() == []
    assert state(job.world.workspace.channel) == right.after


def locks(stations: Stations) -> dict[str, bytes]:
    """Every file of the locks of each checkout."""
    return {
        str(p): p.read_bytes() for world, _ in stations.commands.values() for p in world.workspace.variants.iterdir()
    }
