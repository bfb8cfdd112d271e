"""The main job as a process that is disturbed: from the same start each time, with what nothing
disturbed leaves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from kit.whole import State, problems, state
from kit.world import NEW, OLD, Fault, World, command, ctk

INSIDE = Path(__file__).with_name("inside")
STEPS = ("start", "fetch", "build", "audit", "index", "package tests", "publish", "end")
"""As the lines of `ctk build` name them.

What comes before the package index is asked, and after the last line.
"""
PLACES = {
    "output/.channel.new": "publish",
    "output/.channel-states": "index",
    ".tests.json": "package tests",
    ".cache/notes/scans": "audit",
    ".cache/notes/audits": "audit",
    ".cache/sha256": "fetch",
    ".cache/artefacts": "fetch",
    ".cache/builds": "build",
}
"""Part of a path -> the step that changes it; the first that fits."""
_PATIENCE = 300.0  # seconds in which orphans must have ended


@dataclass(frozen=True)
class Point:
    """Where a run is killed: some seconds into a step, or before a change of the disk."""

    whom: str  # ``group`` for every process, ``main`` for the one that was started
    step: str = ""
    seconds: float = 0.0
    change: str = ""  # such as ``worker:3``: see inside/sitecustomize.py

    def __str__(self) -> str:
        where = (
            f"before change {self.change}"
            if self.change
            else f"{self.seconds:.2f} s into {self.step}"
        )
        return f"{self.whom} {where}"


@dataclass(frozen=True)
class Undisturbed:
    """What a run does that nothing disturbs."""

    before: State  # the channel at its start
    after: State
    seconds: dict[str, float]  # step -> how long it takes
    changes: dict[str, list[str]]  # step -> its changes of the disk, as `Point.change` has them

    def moment(self, fraction: float) -> tuple[str, float]:
        """The step, and the seconds into it, at which a part of the whole time is over."""
        passed = fraction * sum(self.seconds.values())
        for step in STEPS[:-1]:
            if passed <= self.seconds[step]:
                return step, passed
            passed -= self.seconds[step]
        return STEPS[-1], passed


@dataclass(frozen=True)
class Outcome:
    """What a kill did."""

    point: Point
    step: str  # at which the run was then; ``end`` when it was faster than the kill
    # ``channel``, ``next run``, ``other bytes`` or ``orphan`` -> what is wrong.
    harm: dict[str, list[str]]

    @property
    def complaints(self) -> list[str]:
        lines = [f"{kind}: {line}" for kind, found in self.harm.items() for line in found]
        return [f"{self.point} ({self.step}): {line}" for line in lines]


class Job:
    """The main job in a world, from the same start each time.

    Args:
        world: Of which the old release is built, and the new one locked.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._start = world.root.with_name(f"{world.root.name}-start")
        _copy(world.root, self._start)

    def undisturbed(self) -> Undisturbed:
        """Runs it once without a fault."""
        self.rewind()
        before = state(self.world.workspace.channel)
        log = self.world.root.with_name("changes")
        log.unlink(missing_ok=True)
        run = Run(self.world, CTK_FAULT_LOG=str(log))
        code = run.wait()
        assert code == 0, run.said
        begun = [*run.begun(), time.monotonic()]
        seconds = {name: begun[i + 1] - begun[i] for i, name in enumerate(STEPS)}
        changes: dict[str, list[str]] = {}
        for line in log.read_text().splitlines():
            role, number, _, paths = line.split(" ", 3)
            step = next((s for part, s in PLACES.items() if part in paths), None)
            if step:
                changes.setdefault(step, []).append(f"{role}:{number}")
        return Undisturbed(before, state(self.world.workspace.channel), seconds, changes)

    def killed(self, point: Point, right: Undisturbed) -> Outcome:
        """Runs it, kills it at a point, and runs it again."""
        self.rewind()
        extra = (
            {"CTK_FAULT_KILL": point.change, "CTK_FAULT_WHOM": point.whom} if point.change else {}
        )
        run = Run(self.world, **extra)
        if point.step:
            run.kill(point)
        run.wait()
        step = run.step(time.monotonic()) if run.was_killed else "end"
        channel = self.world.workspace.channel
        broken = problems(channel, self.world.base)
        if state(channel) not in (right.before, right.after):
            broken.append("the channel is neither the old one nor the new one")
        done = ctk(self.world, *self.world.build(OLD, NEW))
        found = state(channel)
        harm = {
            "channel": (
                broken
                + [f"after the next run: {line}" for line in problems(channel, self.world.base)]
            ),
            "next run": [f"exit {done.returncode}: {done.stderr}"] if done.returncode else [],
            "other bytes": sorted(
                name for name in {*found, *right.after} if found.get(name) != right.after.get(name)
            ),
            "orphan": list(run.left()),
        }
        return Outcome(point, step, harm)

    def rewind(self) -> None:
        """Makes the checkout what it was at the start."""
        _copy(self._start, self.world.root)


class Run:
    """A run of the main job in a process group of its own.

    What it prints is read with the time of each line.
    While it runs, the index takes a moment for each artefact, so that a kill finds it half there.
    """

    _SLOW = Fault(match="files/", pause=0.1)

    def __init__(self, world: World, **environment: str) -> None:
        world.index.faults.append(self._SLOW)
        path = os.pathsep.join(p for p in (str(INSIDE), os.environ.get("PYTHONPATH", "")) if p)
        self.process = subprocess.Popen(
            command(world.build(OLD, NEW)),
            env=world.environment(PYTHONPATH=path, **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._world, self._start = world, time.monotonic()
        self._lines: list[tuple[float, str]] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return "".join(line for _, line in self._lines)

    @property
    def was_killed(self) -> bool:
        return self.process.returncode == -signal.SIGKILL

    def begun(self) -> list[float]:
        """When each step began, of those that did: fetch with the first request, others with the
        line before.
        """
        asked = [r.when for r in self._world.index.requests if r.when > self._start]
        times = {
            s: at for s in STEPS[1:] for at, line in self._lines if line[9:].startswith(f"{s}: ")
        }
        return [self._start, *asked[:1], *times.values()]

    def step(self, when: float) -> str:
        """The step that was at work at a time."""
        return STEPS[sum(at <= when for at in self.begun()) - 1]

    def reach(self, step: str) -> None:
        """Waits until a step begins, or the run ends."""
        while len(self.begun()) <= STEPS.index(step) and self.process.poll() is None:
            time.sleep(0.001)

    def kill(self, point: Point) -> None:
        """Kills at the moment of a point, unless the run has ended before."""
        self.reach(point.step)
        time.sleep(point.seconds)
        if self.process.poll() is None:
            (os.killpg if point.whom == "group" else os.kill)(self.process.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code; orphans may live on."""
        code = self.process.wait(900)
        while self._reader.is_alive() and not group_of(
            self.process.pid
        ):  # orphans hold the pipe open
            self._reader.join(0.05)
        self._world.index.faults.remove(self._SLOW)
        return code

    def left(self) -> Iterator[str]:
        """Processes of its group that do not end within `_PATIENCE`; they are ended."""
        deadline = time.monotonic() + _PATIENCE
        while (found := group_of(self.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid, name in found.items():
            yield name
            os.kill(pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.append((time.monotonic(), line))


def group_of(leader: int) -> dict[int, str]:
    """The living processes of a process group: id -> command line."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = place.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                found[int(place.name)] = place.joinpath("cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue  # it has just ended
    return found


def _copy(source: Path, target: Path) -> None:
    """A copy with its links, hard ones too."""
    subprocess.run(["rm", "-rf", str(target)], check=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
