"""Ctrl-C, at any moment of the commands that take long: 130, one sentence, no process left, and the next run continues.

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
from command_list import RECIPE, line

from ctk.core.errors import Stopped
from kit.job import group_of
from kit.whole import problems
from kit.world import NEW, Fault, World, ctk
from kit.world import command as command_line

pytest_plugins = ["command_fixtures"]

SEED = 7
PATIENCE = 300.0
"""Seconds after which something hangs. How fast a command ends is not judged here: a machine may be busy."""
LONG = {
    # Who gets the signal -> the command: with processes and the index, with threads, and with a solver.
    "build": ("group", "build --base {base} {both}"),
    "build-recipe": ("main", f"build-recipe {RECIPE} --base {{base}} --output {{folder}}/packages"),
    "env create": ("main", "env create cuda-crt python --prefix {folder}/env --base {base}"),
}


@pytest.fixture
def slow(world: World) -> Iterator[World]:
    """An index that takes a moment for each file and page; nothing that was fetched or built is there."""
    world.index.faults.append(Fault(match="", pause=0.1))
    for name in ("sha256", "artefacts", "builds", "notes"):
        subprocess.run(["rm", "-rf", str(world.workspace.cache / name)], check=True)
    yield world
    world.index.faults.clear()


def start(world: World, words: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line(words),
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
    whom, text = LONG[name]
    chance = random.Random(f"{SEED} {name}")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = line(slow, text, tmp_path)
    stopped = 0
    for most in (2.0, 0.5, *[0.0] * 20):  # at once, and again while a busy machine lets the command end before
        if most == 0 and stopped:
            break
        run = start(slow, words, TMPDIR=str(temporary))
        try:
            while not any(path.is_dir() for path in temporary.glob("*/*")) and run.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, most))
            if run.poll() is None:
                interrupt(run, whom)
            err = run.communicate(timeout=PATIENCE)[1]  # a process that lives on would hold the pipes open
        finally:
            left = living(run)
            for process in left:
                os.kill(process, signal.SIGKILL)
            run.kill()
        assert left == {}, name
        assert "Traceback" not in err
        if run.returncode:  # it may have been faster
            assert run.returncode == Stopped.exit_code, err
            said = "stopped; what was finished is kept\nnext: run the same command again: it continues\n"
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
