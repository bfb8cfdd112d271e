"""A clock that jumps while a run is at work, and one that is wrong from the start: the same bytes come out.

A small library stands between the run and the C library's clock, in every process of it, Python or not. What it moves
is the time of day. Times that the kernel writes (of files) and the clock by which waiting is measured are not moved;
nor are they on a machine whose time is set.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.checkout import Workspace
from ctk.core.errors import NotReady
from kit.job import Job, Run, Undisturbed
from kit.small_channels import build, digit, sound
from kit.whole import problems, state
from kit.world import command

pytest_plugins = ["fault_fixtures", "kit.channel_fixtures"]

SOURCE = Path(__file__).with_name("clock.c")
DAY = 86400


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the library that moves the clock has to be compiled, and there is no C compiler")
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE)], check=True)
    return made


class Clock:
    """The clock of the runs that are given `environment`; it can be set while they work."""

    def __init__(self, library: Path, place: Path) -> None:
        self._place = place
        self.environment = {"LD_PRELOAD": str(library), "CTK_CLOCK": str(place)}
        self.move(0)

    def move(self, seconds: int) -> None:
        """Makes it that many seconds fast."""
        with self._place.open("r+b" if self._place.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))  # in place: the runs have it mapped

    def run(self, root: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of ctk in a checkout, with this clock."""
        environment = {**os.environ, **self.environment, "CTK_ROOT": str(root), "COLUMNS": "160"}
        return subprocess.run(command(words), env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def clock(library: Path, tmp_path: Path) -> Clock:
    return Clock(library, tmp_path / "seconds")


def test_the_clock_is_moved_for_python_and_for_programs(clock: Clock) -> None:
    clock.move(-400 * DAY)
    for words in (["date", "+%s"], [sys.executable, "-c", "import time; print(int(time.time()))"]):
        shown = subprocess.run(
            words, env={**clock.environment, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
        )
        assert abs(int(shown.stdout) - (time.time() - 400 * DAY)) < DAY, words


@pytest.mark.parametrize("jumps", [(400 * DAY, -400 * DAY), (-12000 * DAY, 3 * DAY)], ids=["forward", "back"])
def test_a_clock_that_jumps_in_the_middle_of_a_run_changes_nothing(
    job: Job, right: Undisturbed, clock: Clock, jumps: tuple[int, int]
) -> None:
    """At the first request to the index, and again while builds are at work."""
    run = Run(job.world, **clock.environment)
    for step, seconds in zip(("fetch", "build"), jumps, strict=True):
        run.reach(step)
        clock.move(seconds)
    assert run.wait() == 0, run.said
    channel = job.world.workspace.channel
    assert problems(channel, job.world.base) == []
    assert state(channel) == right.after


def test_ten_publishes_in_eight_days_leave_a_sound_folder_and_a_wrong_clock_changes_nothing_in_it(
    clock: Clock, two_states: Workspace, tmp_path: Path
) -> None:
    www, root = tmp_path / "www", two_states.root
    publish = ("publish", "--to", str(www), "--exact", "--keep", "2", "--keep-days", "3")
    said = ""
    for number in range(10):
        clock.move(number * 8 * DAY // 9)
        build(two_states.channel, sound(digit(1)), sound(digit(2 * number + 2)))
        done = clock.run(root, *publish)
        assert done.returncode == 0, done.stderr
        said += done.stdout
    assert "1 deleted after 3 days without use" in said
    checked = clock.run(root, "check", str(www))
    assert checked.returncode == 0, checked.stdout
    before = state(www)
    for days in (-12000, 400, 5000):
        clock.move(days * DAY)
        refused = clock.run(root, *publish)
        assert (refused.returncode, state(www)) == (NotReady.exit_code, before)
        assert "the clock of this machine says" in refused.stderr


def test_a_clock_that_is_years_slow_stops_no_command_that_reads_what_nvidia_says(clock: Clock) -> None:
    clock.move(-12000 * DAY)
    done = clock.run(ROOT, "release", "list")
    assert done.returncode == 0, done.stderr
