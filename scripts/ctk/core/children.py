"""Programs that the tool starts: they end when it ends, however it ends itself.

A command that is told to end (Ctrl-C, SIGTERM, SIGHUP) ends its descendants itself. A command that
is killed cannot: a guard, a process of its own, sees the end of a pipe then, and ends what the
command had started. The guard runs this file, so it imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

TOLD_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals of Ctrl-C, of supervisors, and of a terminal that is closed."""
GRACE = 5.0
"""Seconds that a command of `run_in_front` has for its end when it is told to end."""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_POLL = 0.01  # seconds


class _Guard:
    """The guard of a process: its process id, and the pipe to it."""

    def __init__(self) -> None:
        reader, self._pipe = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        streams = [
            (os.POSIX_SPAWN_DUP2, reader, 0),
            *((os.POSIX_SPAWN_DUP2, null, number) for number in (1, 2)),
        ]
        words = [sys.executable, "-I", "-S", __file__]
        try:
            # In a session of its own, a signal to the process group or from a terminal does not
            # reach it.
            self.process = os.posix_spawn(
                sys.executable, words, os.environ, file_actions=streams, setsid=True
            )
        finally:
            os.close(reader)
            os.close(null)
        self.owner = os.getpid()

    def watch(self, process: int) -> None:
        with suppress(BrokenPipeError):  # somebody ended it
            os.write(self._pipe, b"%d\n" % process)


_guard: _Guard | None = None
_is_watched = False


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose parent ends: so they are found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def be_watched() -> None:
    """Says that a guard watches this process already, and so all that it starts."""
    global _is_watched
    _is_watched = True
    adopt_orphans()


def watch(process: int) -> None:
    """Has a child and its descendants ended when this process ends.

    Also if a signal ends it that nothing can catch.
    """
    global _guard
    if _is_watched:
        return
    if _guard is None or _guard.owner != os.getpid():  # a forked process has its parent's
        adopt_orphans()
        _guard = _Guard()
    _guard.watch(process)


def start(words: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a program, as `subprocess.Popen` does, and watches it."""
    process = subprocess.Popen(words, **options)
    watch(process.pid)
    return process


def run_bytes(
    words: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a program to its end, with an empty standard input; its output is captured.

    Raises:
        OSError: It cannot be started.
        subprocess.TimeoutExpired: It did not end within `timeout` seconds; it and its descendants
            are ended.
    """
    pipe = subprocess.PIPE
    with start(
        words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            end_trees([process.pid])
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def run_program(
    words: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """`run_bytes` with the output as text; what is not UTF-8 is replaced."""
    done = run_bytes(words, env=env, cwd=cwd, timeout=timeout)
    out, err = (output.decode("utf-8", "replace") for output in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


class _Told(BaseException):
    """A signal told this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_in_front(words: Sequence[str | Path], **options: Any) -> tuple[int, int]:
    """Runs a program on the streams of this process, and passes on the signals to end.

    Then the program has `GRACE` seconds for its end. What still runs after them, or was left
    behind, is ended.

    Returns:
        The exit code, as shells have it, and the number of the signal, 0 if none came.
    """
    try:
        with _raised():
            code = start(words, **options).wait()
            return (code if code >= 0 else 128 - code), 0
    except _Told as told:
        # A terminal has sent Ctrl-C to the program too: a second one would interrupt how it ends.
        if told.number != signal.SIGINT or not _is_in_foreground():
            _send(told.number, _children())
        _wait_for_end(_children, GRACE)
        end_children()
        return 128 + told.number, told.number


@contextmanager
def _raised() -> Iterator[None]:
    """Raises `_Told` for the signals that tell this process to end, if they are on."""

    def tell(number: int, _: object) -> None:
        raise _Told(number)

    before = {number: signal.getsignal(number) for number in TOLD_TO_END}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, tell)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Whether Ctrl-C in the terminal reaches every process of this one's group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def end_children() -> None:
    """Kills all descendants of this process."""
    _end(_children)


def end_trees(roots: Iterable[int]) -> None:
    """Kills processes and all their descendants."""
    known = [*roots]

    def trees() -> set[int]:
        found = set(known)
        for root in known:
            found.update(_descendants(root))
        return found

    _end(trees)


def _children() -> set[int]:
    """All descendants of this process but its guard."""
    found = set(_descendants(os.getpid()))
    if _guard:
        found.discard(_guard.process)
    return found


def _end(find: Callable[[], set[int]]) -> None:
    """Kills the processes that `find` gives, until it gives no other.

    They are stopped first: one that is killed while it starts another would leave that behind.
    """
    killed: set[int] = set()
    while True:
        stopped: set[int] = set()
        while found := find() - killed - stopped:
            stopped |= found
            _send(signal.SIGSTOP, found)
        if not stopped:
            return
        killed |= stopped
        _send(signal.SIGKILL, stopped)
        # It may be about to write into a folder that is removed next. One that waits for a disk
        # lives longer.
        _wait_for_end(killed.copy, 1)


def _send(number: int, processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _wait_for_end(find: Callable[[], set[int]], seconds: float) -> None:
    until = time.monotonic() + seconds
    while any(map(_is_alive, find())) and time.monotonic() < until:
        time.sleep(_POLL)


def _is_alive(process: int) -> bool:
    return bool(_command(process))


def _command(process: int) -> bytes:
    """The command line of a process; empty for a dead one."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(parent: int) -> Iterator[int]:
    """The process ids of all descendants, parents first; only on Linux, where builds run.

    Dead ones are among them: one that just ends has its children for a moment still.
    multiprocessing's resource tracker is not, as it ends by itself.
    """
    for threads in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            children = [int(word) for word in threads.read_text().split()]
        except OSError:  # the thread has just ended
            continue
        for child in children:
            if b"multiprocessing.resource_tracker" not in _command(child):
                yield child
                yield from _descendants(child)


def _birth(process: int) -> str:
    """When a process started, so that a later process with its id is not taken for it.

    "" if there is none.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[19]  # starttime of proc(5), counted from the field behind the name


def guard(pipe: IO[str]) -> None:
    """Reads process ids until their writer has ended; then ends what still runs of them.

    Descendants, too.
    """
    births = {}
    for line in pipe:
        process = int(line)
        births[process] = _birth(process)
    end_trees(process for process, birth in births.items() if birth and birth == _birth(process))


if __name__ == "__main__":
    guard(sys.stdin)
