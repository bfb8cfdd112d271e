"""Ends a run at an exact point: before the n-th change that one of its processes makes to the
checkout's files.

Python imports this when its folder is on PYTHONPATH, in the main process and in each build process.
What rattler itself writes is not seen here; points in time (`kills`) reach that.

CTK_FAULT_LOG   Append each change to this file: whose, which, the event and its paths.
CTK_FAULT_KILL  ``main:17`` or ``worker:3`` ends the run there ...
CTK_FAULT_WHOM  ... its ``group``, or its ``main`` process only.
"""

from __future__ import annotations

import os
import signal
import sys

CHANGES = {
    "os.rename",
    "os.link",
    "os.symlink",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.chmod",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_role = "worker" if "--multiprocessing-fork" in sys.orig_argv else "main"
_root = os.environ.get("CTK_ROOT", "/nowhere")
_log = os.environ.get("CTK_FAULT_LOG")
_whose, _, _number = os.environ.get("CTK_FAULT_KILL", "").partition(":")
_whom = os.environ.get("CTK_FAULT_WHOM", "group")
_seen = 0


def _paths(arguments: tuple[object, ...]) -> str:
    return " ".join(os.fsdecode(a) for a in arguments if isinstance(a, str | bytes | os.PathLike))


def _is_change(event: str, arguments: tuple[object, ...]) -> bool:
    if event == "open":
        path, mode, flags = arguments
        writes = (
            any(c in mode for c in "wax+")
            if isinstance(mode, str)
            else bool(int(flags or 0) & WRITING)
        )  # type: ignore[call-overload]
        return writes and _root in str(path)
    return event in CHANGES and _root in _paths(arguments)


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    global _seen
    if event not in CHANGES and event != "open":
        return
    if not _is_change(event, arguments):
        return
    _seen += 1
    if _log:
        with open(_log, "a") as file:
            file.write(f"{_role} {_seen} {event} {_paths(arguments)}\n")
    if _role == _whose and _seen == int(_number):
        if _whom == "group":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid() if _role == "main" else os.getppid(), signal.SIGKILL)


if _log or _whose:
    sys.addaudithook(_watch)
