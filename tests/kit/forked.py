"""Commands of ctk as processes forked from one that has imported everything: a run costs no start
of Python.

Each is a process of its own, with its own environment, signals and exit code; what it changes, no
test sees.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest import mock

from ctk.cli.main import main

_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads only when it starts."""


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    timeout: float = 3600,
    mounts: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command line of ctk to its end, with an empty standard input.

    Args:
        arguments: After `ctk`.
        environment: All variables.
        timeout: Seconds after which the test fails: more than a loaded machine needs.
        mounts: A process whose mounts the command sees; by default those of this process.
    """
    if any(
        os.environ.get(n) != environment.get(n)
        for n in {*os.environ, *environment}
        if n.startswith(_AT_START)
    ):
        command = [sys.executable, "-c", "from ctk.cli.main import main; main()", *arguments]
        quiet = subprocess.DEVNULL
        return subprocess.run(
            command, env=environment, stdin=quiet, capture_output=True, text=True, timeout=timeout
        )
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        given = (list(arguments), dict(environment), os.getcwd(), out, err, mounts)
        process = _context().Process(target=_command, args=given)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(list(arguments), timeout)
        return subprocess.CompletedProcess(
            list(arguments), process.exitcode, out.read_text(), err.read_text()
        )


@cache
def _context() -> ForkServerContext:
    """The server is started before the first command, with the modules that `forked_server`
    imports.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["kit.forked_server"])
    with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1])):
        forkserver.ensure_running()
    return context


def _command(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    out: Path,
    err: Path,
    mounts: int | None,
) -> None:
    for number, path in enumerate((Path(os.devnull), out, err)):
        opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    if mounts:
        _enter(mounts)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    main()


def _enter(process: int) -> None:
    """Has this process see the mounts of another one, which is in a user namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in ("user", "mnt"):
        with open(f"/proc/{process}/ns/{namespace}") as file:
            if libc.setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"cannot enter {file.name}")
