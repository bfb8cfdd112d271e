"""What a command starts ends with it, however it ends: told to, killed, or in its own time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="it reads /proc; the tool runs programs on Linux"
)

PATIENCE = 120.0
"""Seconds after which something hangs. How fast a process ends is not judged."""
TOLD = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
POOL = """
import subprocess, sys
from ctk.core.pool import ProcessPool

def work():
    subprocess.run(sys.argv[1:])

if __name__ == "__main__":
    ProcessPool(1).submit(work).result()
"""
PROGRAM = """
import sys
from ctk.core.children import run_program
run_program(sys.argv[1:])
"""
CHILDREN = {
    "a child of a shell": "sleep {0}; true",
    "one in a session of its own": "setsid sleep {0}; true",
    "one in the background": "sleep {0} & wait",
    "one that ignores what it is told": "trap '' TERM HUP INT; sleep {0}; true",
}


@pytest.fixture(autouse=True)
def heeds_its_terminal() -> Iterator[None]:
    """`nohup` has SIGHUP ignored, what is started inherits that, and ctk leaves it so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def seconds() -> Iterator[str]:
    """How long a process sleeps: a number by which it is found, and no other is."""
    number = f"7{os.getpid()}{time.monotonic_ns() % 10**6:06}"
    yield number
    for process in sleeping(number):
        os.kill(process, signal.SIGKILL)


def sleeping(seconds: str) -> list[int]:
    """The living processes that sleep for this number of seconds."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(file.parent.name))
        except OSError:
            continue  # it has just ended
    return found


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def started(words: list[str], seconds: str) -> subprocess.Popen[str]:
    """A process of ours in a group of its own, once its child sleeps."""
    run = subprocess.Popen(
        words,
        env={**os.environ, "CTK_ROOT": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A run in the background of a shell has interrupts switched off, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    wait_for(lambda: bool(sleeping(seconds)) or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    return run


def env_run(folder: Path, script: str) -> list[str]:
    (folder / "conda-meta").mkdir(parents=True)
    (folder / "conda-meta" / "history").touch()
    main = "from ctk.cli.main import main; main()"
    return [
        sys.executable,
        "-c",
        main,
        "env",
        "run",
        "--json",
        str(folder),
        "--",
        "sh",
        "-c",
        script,
    ]


@pytest.mark.parametrize("name", TOLD)
@pytest.mark.parametrize("kind", CHILDREN)
def test_env_run_passes_a_signal_on_and_prints_its_document(
    kind: str, name: str, seconds: str, tmp_path: Path
) -> None:
    script = CHILDREN[kind].format(seconds)
    run = started(env_run(tmp_path / "env", script), seconds)
    run.send_signal(getattr(signal, name))
    out, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == TOLD[name]
    document = json.loads(out)
    assert document["command"] == ["sh", "-c", script]
    assert document["exit_code"] == document["error"]["exit_code"] == TOLD[name]
    assert sleeping(seconds) == []


def test_a_command_that_is_told_to_end_may_end_in_its_own_way(seconds: str, tmp_path: Path) -> None:
    script = f"trap 'echo saved >&2; exit 3' TERM; sleep {seconds} & wait"
    run = started(env_run(tmp_path / "env", script), seconds)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=PATIENCE)
    assert "saved" in err
    assert run.returncode == TOLD["SIGTERM"]
    assert sleeping(seconds) == []


@pytest.mark.parametrize("kind", CHILDREN)
@pytest.mark.parametrize("starter", ["env run", "pool", "program"])
def test_what_a_killed_process_had_started_ends(
    starter: str, kind: str, seconds: str, tmp_path: Path
) -> None:
    """A pool's processes are those that build: `ctk build` and `ctk build-recipe` run scripts in
    them.
    """
    script = CHILDREN[kind].format(seconds)
    words = env_run(tmp_path / "env", script)
    if starter != "env run":
        file = tmp_path / "starter.py"
        file.write_text(POOL if starter == "pool" else PROGRAM)
        words = [sys.executable, str(file), "sh", "-c", script]
    run = started(words, seconds)
    run.kill()
    run.communicate(timeout=PATIENCE)  # a process that lives on would hold the pipes open
    wait_for(lambda: not sleeping(seconds))


def test_a_pools_process_keeps_what_its_script_lets_go(seconds: str, tmp_path: Path) -> None:
    """A daemon's parent has ended before: no tree leads to it but that of the process which adopts
    it.
    """
    file = tmp_path / "starter.py"
    file.write_text(POOL)
    script = f"(setsid sleep {seconds} &); sleep {seconds}"
    run = started([sys.executable, str(file), "sh", "-c", script], seconds)
    wait_for(lambda: len(sleeping(seconds)) == 2)
    run.kill()
    run.communicate(timeout=PATIENCE)
    wait_for(lambda: not sleeping(seconds))


def test_a_program_that_takes_too_long_ends_with_its_children(seconds: str) -> None:
    from ctk.core.children import run_program

    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", f"sleep {seconds}; true"], timeout=0.2)
    wait_for(lambda: not sleeping(seconds))


def test_no_other_module_starts_programs() -> None:
    """What is started in another way would live on when a command is killed."""
    starters = re.compile(
        r"^\s*(?:import subprocess|from subprocess import)|\bos\.(?:posix_spawn|system|popen|fork)",
        re.M,
    )
    only_errors = {"subprocess.TimeoutExpired", "subprocess.CompletedProcess"}
    found = set()
    for file in (ROOT / "scripts" / "ctk").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        used = set(re.findall(r"\bsubprocess\.\w+", text))
        if starters.search(text) and (not used or used - only_errors):
            found.add(file.relative_to(ROOT / "scripts" / "ctk").as_posix())
    assert found == {"core/children.py"}
