"""Commands of ctk as processes forked from one that has imported everything: a run costs no start of Python.

Each is a process of its own, with its own environment, signals and exit code; what it changes, no test sees.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import ctk.cli
from ctk.cli.main import main

_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads only when it starts."""

_LATER = ("ctk.index.client", "cyclonedx.validation.json", "unearth.utils")
"""What most commands import only when they need it."""


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float = 600, mounts: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command line of ctk to its end, with an empty standard input.

    Args:
        arguments: After `ctk`.
        environment: All variables.
        timeout: Seconds after which the test fails.
        mounts: A process whose mounts the command sees; by default those of this process.
    """
    if any(os.environ.get(n) != environment.get(n) for n in {*os.environ, *environment} if n.startswith(_AT_START)):
        return _started(arguments, environment, timeout)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as connection:
        out, err = Path(folder, "out"), Path(folder, "err")
        connection.settimeout(timeout)
        connection.connect(_server())
        asked = [list(arguments), dict(environment), os.getcwd(), str(out), str(err), mounts]
        connection.sendall(json.dumps(asked).encode() + b"\n")
        code = int(connection.makefile().readline())
        return subprocess.CompletedProcess(list(arguments), code, out.read_text(), err.read_text())


def _started(
    arguments: Sequence[str], environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from ctk.cli.main import main; main()", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@cache
def _server() -> str:
    """Starts the process that forks; it ends when this one does, as its standard input is closed then."""
    address = str(Path(tempfile.mkdtemp(prefix="ctk-forked-"), "socket"))
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import forked; forked.serve({address!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    atexit.register(process.communicate)
    return address


def serve(address: str) -> None:
    """Answers each connection with the exit code of the command that it names."""
    from ctk.core.checkout import workspace
    from ctk.lock.lock import release_locks

    for name in (*(m.name for m in pkgutil.walk_packages(ctk.cli.__path__, "ctk.cli.")), *_LATER):
        importlib.import_module(name)
    release_locks(workspace())  # of this checkout; parsed once, they are kept by their text
    gc.freeze()  # what is shared with this process is not looked through, and copied for that, when a command ends
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children of this process
    with socket.socket(socket.AF_UNIX) as listening, selectors.DefaultSelector() as waiting:
        listening.bind(address)
        listening.listen(64)
        waiting.register(listening, selectors.EVENT_READ)
        waiting.register(0, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while all(key.fd != 0 for key, _ in waiting.select()):
            connection, _ = listening.accept()
            if os.fork() == 0:
                _answer(connection)
            connection.close()
    shutil.rmtree(Path(address).parent)


def _answer(connection: socket.socket) -> None:
    """In a process of its own: runs one command, and waits for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection, connection.makefile() as lines:
        arguments, environment, folder, out, err, mounts = json.loads(lines.readline())
        process = os.fork()
        if process == 0:
            connection.close()
            for number, path in enumerate((os.devnull, out, err)):
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
            sys.exit()
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    os._exit(0)


def _enter(process: int) -> None:
    """Has this process see the mounts of another one, which is in a user namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in ("user", "mnt"):
        with open(f"/proc/{process}/ns/{namespace}") as file:
            if libc.setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"cannot enter {file.name}")
