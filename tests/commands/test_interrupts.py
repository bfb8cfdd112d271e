"""Ctrl-C, at any moment of the commands that take long: 130, one sentence, no process left, and the next run continues.

A terminal sends the signal to every process of the command, a supervisor to the first one only.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from command_list import RECIPE, line
from job import group_of
from whole import problems
from world import NEW, OLD, Fault, World, ctk
from world import command as command_line

from ctk.core.errors import Stopped

pytest_plugins = ["command_fixtures"]

SEED = 7
PATIENCE = 300.0
"""Seconds after which something hangs. How fast a command ends is not judged here: a machine may be busy."""
LONG = {
    "fetch": "fetch {new}",
    "build": "build --base {base} {both}",
    "build-recipe": f"build-recipe {RECIPE} --base {{base}} --output {{folder}}/packages",
    "audit": "audit --base {base}",
    "rebuild": "rebuild --all",
    "channel check": "channel check",
    "publish": "publish --to {folder}/www",
    "plan": "plan {both}",
    "solve": "solve cuda-crt --base {base}",
    "site build": "site build {folder}/site --base {base}",
    "verify": "verify --channel {channel} --all",
    "env create": "env create cuda-crt python --prefix {folder}/env --base {base}",
    "env pack": "env pack cuda-crt python -o {folder}/crt.run --base {base} --force",
    "release check": "release check",
    "release add": f"release add {OLD}",
    "release diff": f"release diff {OLD} {NEW}",
}
ALWAYS = {
    ("build", "main"),
    ("build", "group"),
    ("build-recipe", "main"),
    ("env create", "main"),
    ("release diff", "group"),
    ("solve", "main"),
}
"""One command of each way to wait: processes, threads, the index, a solver. All others are swept."""
WITHOUT_END = {"verify"}
"""They take an hour, so nothing waits for their next run."""


@pytest.fixture
def slow(world: World) -> Iterator[World]:
    """An index that takes a moment for each file and page; nothing that was fetched or built is there."""
    world.index.faults.append(Fault(match="", pause=0.1))
    for name in ("sha256", "artefacts", "admitted", "builds", "audit", "surfaces", "rendered"):
        subprocess.run(["rm", "-rf", str(world.workspace.cache / name)], check=True)
    yield world
    world.index.faults.clear()


def popen(words: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A run in the background of a shell has interrupts switched off, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def start(world: World, words: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    return popen(command_line(words), world.environment(**environment))


def start_code(code: str, *words: str) -> subprocess.Popen[str]:
    """A Python program, which has said that it has begun."""
    clean = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    run = popen([sys.executable, "-c", code, *words], clean)
    assert run.stdout is not None
    assert run.stdout.readline() == "begun\n"
    return run


def interrupt(run: subprocess.Popen[str], whom: str) -> None:
    (os.killpg if whom == "group" else os.kill)(run.pid, signal.SIGINT)


def living(run: subprocess.Popen[str]) -> dict[int, str]:
    """The processes of a run that live on; a killed one takes a moment."""
    deadline = time.monotonic() + PATIENCE
    while (found := group_of(run.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("name", "whom"),
    [
        pytest.param(name, whom, id=f"{name}-{whom}", marks=[] if (name, whom) in ALWAYS else pytest.mark.sweep)
        for name in LONG
        for whom in ("main", "group")
    ],
)
def test_a_command_ends_and_leaves_nothing_behind(name: str, whom: str, slow: World, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name} {whom}")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = line(slow, LONG[name], tmp_path)
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
            assert err.count("stopped; what was finished is kept") == 1
            stopped += 1
        assert list(temporary.iterdir()) == []
        assert problems(slow.workspace.channel, slow.base) == []
    assert stopped, "all of them were faster than the interrupt"
    if name not in WITHOUT_END:
        done = ctk(slow, *words)
        assert done.returncode == 0, done.stderr
        hidden = [path for path in tmp_path.rglob("*") if path.name.startswith((".tmp", ".crt.run."))]
        assert hidden == []


def test_an_interrupt_is_an_error_of_the_document(slow: World) -> None:
    slow.index.faults[:] = [Fault(match="", delay=60)]
    asked = len(slow.index.requests)
    run = start(slow, ["fetch", *slow.plan(NEW), "--json"])
    while len(slow.index.requests) == asked:  # from here on it waits for an answer
        assert run.poll() is None
        time.sleep(0.01)
    interrupt(run, "main")
    out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == Stopped.exit_code, err
    error = json.loads(out)["error"]
    assert (error["kind"], error["exit_code"]) == ("Stopped", Stopped.exit_code)


@pytest.mark.parametrize("module", ["ctk.core.errors", "ctk.cli.main", ""])
def test_an_interrupt_before_the_command_begins_is_no_traceback(module: str) -> None:
    """`ctk.cli.run`, where the installed program begins: as long as nothing can be said, nothing is.

    Args:
        module: While it is imported; or once all are.
    """
    run = start_code(
        """
import os, signal, sys
from ctk.cli import run
print("begun", flush=True)
def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
class Finder:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            interrupt()
sys.meta_path.insert(0, Finder())
if not sys.argv[1]:
    import ctk.core.checkout
    ctk.core.checkout.remember_environment = interrupt
run()
""",
        module,
    )
    out, err = run.communicate(timeout=PATIENCE)
    assert (run.returncode, out, err) == (-signal.SIGINT, "", "")


def test_what_a_started_process_has_started_ends_as_well() -> None:
    run = start_code("""
import subprocess, sys
from ctk.cli import interrupt
interrupt.install()
inner = "import subprocess, time; subprocess.Popen(['sleep', '600']); print('begun', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", inner]).wait()
""")
    assert len(group_of(run.pid)) == 3
    os.kill(run.pid, signal.SIGINT)
    run.communicate(timeout=PATIENCE)
    assert living(run) == {}


def test_in_the_background_of_a_shell_interrupts_stay_switched_off() -> None:
    code = """
import signal
from ctk.cli import interrupt
interrupt.install()
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.stdout == "True\n"
