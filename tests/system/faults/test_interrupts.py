"""Ctrl-C, at any moment of the commands that take long: 130, one sentence, no process left, and the
next run continues.

A terminal sends the signal to every process of the command, a supervisor to the first one only.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conftest import ROOT
from ctk.core.errors import Stopped
from kit.job import Job, group_of
from kit.whole import problems
from kit.world import NEW, OLD, Fault, World, command, ctk

pytest_plugins = ["fault_fixtures"]

SEED = 7
PATIENCE = 300.0
"""Seconds after which something hangs.

How fast a command ends is not judged here: a machine may be busy.
"""
RECIPE = ROOT / "tests" / "channel" / "cli" / "recipe"
LONG = {"build": "group", "build-recipe": "main", "env create": "main"}
"""Command -> who gets the signal: with processes and the index, with threads, and with a solver."""


@pytest.fixture
def slow(job: Job) -> Iterator[World]:
    """An index that takes a moment for each file and page.

    Nothing that was fetched or built is there.
    """
    world = job.world
    world.index.faults.append(Fault(match="", pause=0.1))
    for name in ("sha256", "artefacts", "builds", "notes"):
        subprocess.run(["rm", "-rf", str(world.workspace.cache / name)], check=True)
    yield world
    world.index.faults.clear()


def words_of(name: str, world: World, folder: Path) -> list[str]:
    """The words of a command of `LONG`."""
    if name == "build":
        return world.build(OLD, NEW)
    if name == "build-recipe":
        return [name, str(RECIPE), "--base", str(world.base), "--output", str(folder / "packages")]
    return [
        "env",
        "create",
        "cuda-crt",
        "python",
        "--prefix",
        str(folder / "env"),
        "--base",
        str(world.base),
    ]


def start(world: World, words: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(words),
        env=world.environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A run in the background of a shell has interrupts switched off, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def interrupt(run: subprocess.Popen[str], whom: str) -> None:
    (os.killpg if whom == "group" else os.kill)(run.pid, signal.SIGINT)


def living(run: subprocess.Popen[str]) -> dict[int, str]:
    """The processes of a run that live on; a killed one takes a moment."""
    deadline = time.monotonic() + PATIENCE
    while (found := group_of(run.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("name", LONG)
def test_a_command_ends_and_leaves_nothing_behind(name: str, slow: World, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name}")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = words_of(name, slow, tmp_path)
    stopped = 0
    for most in (
        2.0,
        0.5,
        *[0.0] * 20,
    ):  # at once, and again while a busy machine lets the command end before
        if most == 0 and stopped:
            break
        run = start(slow, words, TMPDIR=str(temporary))
        try:
            while not any(path.is_dir() for path in temporary.glob("*/*")) and run.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, most))
            if run.poll() is None:
                interrupt(run, LONG[name])
            # A process that lives on would hold the pipes open.
            err = run.communicate(timeout=PATIENCE)[1]
        finally:
            left = living(run)
            for process in left:
                os.kill(process, signal.SIGKILL)
            run.kill()
        assert left == {}, name
        assert "Traceback" not in err
        if run.returncode:  # it may have been faster
            assert run.returncode == Stopped.exit_code, err
            said = (
                "stopped\nnext: run the same command again; downloads, and what `ctk build`"
                " finished, are kept\n"
            )
            assert err.count(said) == 1 and "Warning" not in err
            stopped += 1
        assert list(temporary.iterdir()) == []
        assert problems(slow.workspace.channel, slow.base) == []
    assert stopped, "all of them were faster than the interrupt"
    done = ctk(slow, *words)
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".tmp")] == []


def test_an_interrupt_is_an_error_of_the_document(slow: World) -> None:
    slow.index.faults[:] = [Fault(match="", delay=60)]
    asked = len(slow.index.requests)
    run = start(slow, ["build", "--fetch-only", *slow.plan(NEW), "--json"])
    while len(slow.index.requests) == asked:  # from here on it waits for an answer
        assert run.poll() is None
        time.sleep(0.01)
    interrupt(run, "main")
    out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == Stopped.exit_code, err
    error = json.loads(out)["error"]
    assert (error["kind"], error["exit_code"]) == ("Stopped", Stopped.exit_code)
