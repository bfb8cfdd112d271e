"""A run that is killed leaves a whole channel, and the next one ends as if nothing had been: `kills` has the how."""

from __future__ import annotations

import random

from kills import STATIONS, Job, Undisturbed, points

SEED, KILLS = 20260, 12

pytest_plugins = ["fault_fixtures"]


def test_the_job_has_something_to_do_at_every_station(right: Undisturbed) -> None:
    assert set(right.changes) >= {"fetch", "build", "index", "audit", "publish"}
    assert set(right.seconds) == set(STATIONS)
    new = set(right.after) - set(right.before)
    assert {"cuda-crt", "cuda-profiler-api", "cuda-version"} <= {
        name.partition("/")[2].rsplit("-", 2)[0] for name in new
    }
    assert any("pathfinder-1.9.0" in name for name in set(right.before) - set(right.after))


def test_kills_at_points_of_the_whole_run_do_no_harm(job: Job, right: Undisturbed) -> None:
    outcomes = [job.killed(point, right) for point in points(KILLS, right, random.Random(SEED))]
    assert [line for outcome in outcomes for line in outcome.complaints] == []
    assert len({o.station for o in outcomes}) >= 5
    assert {o.point.whom for o in outcomes} == {"group", "main"}
