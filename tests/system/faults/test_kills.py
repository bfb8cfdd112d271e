"""A run that is killed leaves a whole channel, and the next one ends as if nothing had been:
`kills` has the how.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest
from kills import points

from kit.job import Job, Point, Undisturbed
from kit.whole import damaged, installed
from kit.world import command, ctk

SEED, KILLS = 20260, 10
INSTALLED = ("cuda-crt", "cuda-pathfinder")

pytest_plugins = ["fault_fixtures"]


def test_a_kill_between_two_renames_of_publishing_does_no_harm(
    job: Job, right: Undisturbed
) -> None:
    outcome = job.killed(Point("group", change=right.changes["publish"][-1]), right)
    assert (outcome.step, outcome.complaints) == ("publish", [])


@pytest.mark.sweep
def test_kills_at_points_of_the_whole_run_do_no_harm(job: Job, right: Undisturbed) -> None:
    outcomes = [job.killed(point, right) for point in points(KILLS, right, random.Random(SEED))]
    assert [line for outcome in outcomes for line in outcome.complaints] == []
    assert len({o.step for o in outcomes}) >= 5
    assert {o.point.whom for o in outcomes} == {"group", "main"}


def test_an_environment_whose_creation_is_killed_is_completed_by_the_next_run(
    job: Job, right: Undisturbed, tmp_path: Path
) -> None:
    world, prefix, chance = job.world, tmp_path / "env", random.Random(SEED)
    create = ["env", "create", *INSTALLED, "--prefix", str(prefix), "--base", str(world.base)]
    for _ in range(3):
        process = subprocess.Popen(
            command(create),
            env=world.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not (prefix / "conda-meta").exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.wait()
    done = ctk(world, *create)
    assert done.returncode == 0, done.stderr
    assert damaged(prefix) == []
    assert {"python", *INSTALLED} <= installed(prefix)
    # A note that is half there, and no word yet that all is installed.
    (note,) = (prefix / "conda-meta").glob("cuda-crt-13*.json")
    note.write_bytes(note.read_bytes()[:100])
    ours = prefix / "conda-meta" / "ctk"
    ours.write_text(json.dumps({**json.loads(ours.read_text()), "stamp": ""}))
    done = ctk(world, *create)
    assert done.returncode == 0, done.stderr
    assert damaged(prefix) == []
    assert {"python", *INSTALLED} <= installed(prefix)
