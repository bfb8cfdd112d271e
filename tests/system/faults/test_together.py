"""Runs at the same time: they take turns, none is lost, and readers never see half of anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

from ctk.core.locks import publishing
from kit.job import Job, Undisturbed
from kit.whole import problems, state
from kit.world import NEW, OLD, World, command, ctk

pytest_plugins = ["fault_fixtures"]


def all_at_once(commands: Sequence[tuple[World, Sequence[str]]]) -> list[str]:
    """Starts them together; what each printed, once all have ended well."""
    started = [
        subprocess.Popen(
            command(words),
            env=world.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for world, words in commands
    ]
    said = [process.communicate(timeout=900)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), said
    return said


def packages_built(said: str) -> int:
    """How many packages a run says that it built."""
    (number,) = re.findall(r"(\d+) built, \d+ unchanged, 0 failed", said)
    return int(number)


class Reader(Thread):
    """Looks at a channel all the time, the way all of ctk does: through the link once.

    Attributes:
        seen: How often it was looked at.
        found: What was wrong.
    """

    def __init__(self, channel: Path, base: Path) -> None:
        super().__init__()
        self.seen, self.found = 0, set[str]()
        self._channel, self._base, self._end = channel, base, Event()

    def run(self) -> None:
        while not self._end.wait(0.1):
            if self._channel.exists():
                self.found |= set(problems(self._channel.resolve(), self._base))
                self.seen += 1

    def end(self) -> None:
        self._end.set()
        self.join()


def test_of_runs_in_one_checkout_one_works_and_the_others_wait_for_it(
    job: Job, right: Undisturbed
) -> None:
    world, number = job.world, 4
    reader = Reader(world.workspace.channel, world.base)
    reader.start()
    said = all_at_once([(world, world.build(OLD, NEW))] * number)
    reader.end()
    assert state(world.workspace.channel) == right.after
    assert reader.found == set()
    assert reader.seen
    *waited, worked = sorted(packages_built(text) for text in said)
    assert waited == [0] * (number - 1), said
    assert worked > 0, said
    assert sum("another run is at work in this checkout" in text for text in said) >= 1


def test_two_checkouts_that_publish_into_one_channel_lose_nothing(
    job: Job, right: Undisturbed, tmp_path: Path
) -> None:
    """Each has a part of the plan.

    A state that one has staged is not swept away by the other, nor is what it made.
    """
    world, channel = job.world, tmp_path / "shared"
    other = replace(world, root=tmp_path / "other")
    shutil.copytree(world.root, other.root, ignore=shutil.ignore_patterns(".cache", "output"))
    arguments = ["--to", str(channel)]
    reader = Reader(channel, world.base)
    # All packages of the old release from the start, so that a client finds something in every
    # state.
    assert ctk(world, *world.build(OLD), *arguments).returncode == 0
    reader.start()
    all_at_once(
        [(world, [*world.build(NEW), *arguments]), (other, [*other.build(OLD), *arguments])] * 2
    )
    reader.end()
    assert reader.found == set()
    assert reader.seen
    assert problems(channel, world.base) == []
    assert state(channel) == right.after


def test_a_run_waits_while_another_checkout_publishes_into_its_channel(
    job: Job, right: Undisturbed
) -> None:
    world, said = job.world, ""
    with publishing(world.workspace.channel, print):
        process = subprocess.Popen(
            command(world.build(OLD, NEW)),
            env=world.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if "another run is at work at" in line:
                break
        assert process.poll() is None, said
        assert state(world.workspace.channel) == right.before
    said += process.communicate(timeout=900)[0]
    assert process.returncode == 0, said
    assert state(world.workspace.channel) == right.after
