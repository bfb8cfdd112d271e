"""Ctrl-C: ends a command within a second, whatever is under way.

Python raises KeyboardInterrupt in the main thread, but only between two of its own steps: not while rattler computes,
a thread waits for a server or a pool for its processes. So a thread is told of the signal by the system
(`set_wakeup_fd`). It ends the processes that were started, gives the main thread a moment to put things in order, and
then ends the whole process. That does no harm: what is visible is whole at any moment, even when a run is killed, which
tests/faults tries.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory, _TemporaryFileWrapper, gettempdir
from typing import NoReturn

from ctk import output
from ctk.errors import Stopped

GRACE = 0.2  # seconds for the main thread
_ROUNDS = 20

_seen = threading.Event()
_ending = threading.Lock()


def install() -> None:
    """Makes this process end that way; once, from the main thread. Where interrupts are switched off they stay so."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    sys.unraisablehook = _unraisable
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(told,), name="interrupts", daemon=True).start()


def ignore() -> None:
    """From here on nothing is left to be stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _unraisable(problem: sys.UnraisableHookArgs) -> None:
    """An interrupt that met the main thread in a finalizer says nothing: the watching thread ends the process."""
    if not issubclass(problem.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(problem)


def came() -> bool:
    """Whether this run was interrupted: an error that follows is a consequence."""
    return _seen.is_set()


def is_cause_of(error: BaseException) -> bool:
    """Whether an error comes of an interrupt: Python makes others of it, such as while it is importing a class."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found is not None


def end() -> NoReturn:
    """Says that the run was stopped, and ends the process with all that it started; it does not return."""
    with _ending:
        try:
            _seen.set()
            error = Stopped("stopped; what was finished is kept", "run the same command again: it continues")
            with contextlib.suppress(Exception):
                end_descendants(os.getpid())
            with contextlib.suppress(Exception):
                _tidy()
            with contextlib.suppress(Exception):
                output.finish(error)
                sys.stdout.flush()
            with contextlib.suppress(Exception):
                print(f"\n{error.cause}", file=sys.stderr, flush=True)
        finally:  # whatever the state in which the run is met
            os._exit(Stopped.exit_code)


def _tidy() -> None:
    """Removes temporary files and folders whose `with` does not come to its end; a thread may still be filling one."""
    for place in _temporary():
        if place.is_relative_to(gettempdir()):
            moved = place.with_name(f"{place.name}.stopped")
            with contextlib.suppress(OSError):
                place.rename(moved)
            for left in (moved, place):
                shutil.rmtree(left, ignore_errors=True)
                with contextlib.suppress(OSError):
                    left.unlink(missing_ok=True)


def _temporary() -> list[Path]:
    """What is there of them. Any object may be half made, by a thread that goes on, or stand for one that is gone.

    So it is asked for its own type, which `isinstance` does not do, and for what it has, which no `__getattr__` sees.
    """
    kinds = (TemporaryDirectory, _TemporaryFileWrapper)
    names = [vars(thing).get("name") for thing in gc.get_objects() if issubclass(type(thing), kinds)]
    return [Path(name) for name in names if isinstance(name, str)]


def _watch(told: int) -> None:
    while signal.SIGINT not in os.read(told, 64):
        pass
    _seen.set()
    with contextlib.suppress(Exception):
        end_descendants(os.getpid())
    # A second one ends it at once.
    select.select([told], [], [], GRACE)
    end()


def end_descendants(parent: int) -> None:
    """Kills every process that this one started, and theirs: first stopped, so that none starts another meanwhile.

    multiprocessing's tracker of resources ends by itself, after it has freed them.
    """
    found: set[int] = set()
    for _ in range(_ROUNDS):
        new = _descendants(parent) - found
        if not new:
            break
        _send(new, signal.SIGSTOP)
        found |= new
    _send(found, signal.SIGKILL)


def _send(processes: set[int], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, what)


def _descendants(parent: int) -> set[int]:
    """Linux says whose child each process is; elsewhere nothing is built."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state, owner = place.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z" and b"resource_tracker" not in place.joinpath("cmdline").read_bytes():
                children.setdefault(int(owner), []).append(int(place.name))
    found: set[int] = set()
    todo = [parent]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found
