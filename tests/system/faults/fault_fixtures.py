"""What the tests of faults share: the main job in a checkout of its own, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ctk.core.platforms import this_platform
from kit.job import Job, Undisturbed
from kit.world import NEW, built_world, publish_release, serve


@pytest.fixture(scope="session")
def made_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    if this_platform() != "linux-64":
        pytest.skip(
            "the job is built for the platform that runs it, and its packages are for linux-64"
        )
    with serve() as index:
        world = built_world(tmp_path_factory.mktemp("faults") / "checkout", index)
        publish_release(world, NEW, "1.9.3")
        yield Job(world)


@pytest.fixture(scope="session")
def right(made_job: Job) -> Undisturbed:
    """What the job does when nothing disturbs it."""
    return made_job.undisturbed()


@pytest.fixture
def job(made_job: Job, right: Undisturbed) -> Iterator[Job]:
    """The job at its start, and an index without faults."""
    made_job.rewind()
    yield made_job
    made_job.world.index.faults.clear()
