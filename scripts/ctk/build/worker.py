"""What runs on a worker of the cluster: it has the build of an order made, and puts the packages into the store.

A worker needs this package and rattler-build, and no checkout: it makes one for each order, of what the store has.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal

from pydantic import TypeAdapter

from ctk.build import process
from ctk.build.order import Engine, Order, contents, engine, from_json, placed, to_json
from ctk.build.record import Built, build_key, cached, note
from ctk.build.runner import log_file
from ctk.build.store import Store
from ctk.core.checkout import Workspace
from ctk.core.errors import CtkError
from ctk.core.files import clear_build_folders, disk_errors, hold_folder
from ctk.plan.dag import Build

TRIES = 2
"""How often a build is begun in a run: a worker that dies costs one retry."""


@dataclass(frozen=True)
class Answer:
    """What became of an order.

    Attributes:
        kind: ``built``, or ``failed`` with its message and log, ``absent`` with what the store lacks, ``died`` with who
            died at it, ``unfit`` when this worker is not what the order asks for.
    """

    kind: Literal["built", "failed", "absent", "died", "unfit"]
    message: str = ""
    log: str = ""
    absent: tuple[str, ...] = ()


ANSWER = TypeAdapter(Answer)


def introduce(store: str, probe: str) -> tuple[str, Engine, bool]:
    """Host and engine of this worker, and whether it sees what the store has under a sha256."""
    with tempfile.TemporaryDirectory(prefix="ctk-probe-") as folder:
        try:
            seen = Store(store).get(probe, Path(folder) / "probe")
        except CtkError:
            seen = False
    return socket.gethostname(), engine(), seen


def fill(text: str) -> str:
    """Makes the build of an order. Order and `Answer` are JSON, so that no object of one version meets another."""
    try:
        answer = _fill(from_json(text))
    except CtkError as error:
        answer = Answer("failed", f"on {name()}: {error.cause}")
    return ANSWER.dump_json(answer).decode()


def name() -> str:
    """This worker, for people: its address and host."""
    from distributed import get_worker

    try:
        return f"{get_worker().address} on {socket.gethostname()}"
    except ValueError:  # called without a cluster
        return f"process {os.getpid()} on {socket.gethostname()}"


def _fill(order: Order) -> Answer:
    me = name()
    if engine() != order.engine:
        return Answer("unfit", f"the worker {me} has {engine()}, and this run has {order.engine}")
    store = Store(order.store)
    before = store.marks(order.run, order.key)
    if len(before) >= TRIES:
        return Answer("died", " and ".join(before.values()))
    mark = f"{order.key}-{len(before)}-{uuid.uuid4().hex[:8]}"
    store.mark(order.run, mark, me)
    root = _home() / uuid.uuid4().hex
    workspace = Workspace(root)
    try:
        with disk_errors(root):
            answer = _build(order, workspace, store)
    finally:
        clear_build_folders(workspace)
        shutil.rmtree(root, ignore_errors=True)
    if answer is None:  # its process was killed, as a worker can be
        return _fill(order)
    store.unmark(order.run, mark)
    return answer


def _build(order: Order, workspace: Workspace, store: Store) -> Answer | None:
    lacking = [sha for file, sha in contents(order, workspace).items() if not store.get(sha, file)]
    if lacking:
        return Answer("absent", absent=tuple(sorted(set(lacking))))
    for place, blob in order.files.items():
        (workspace.root / place).chmod(0o755 if blob.executable else 0o644)
    build = placed(order, workspace)
    if build_key(build, order.level) != order.key:
        return Answer("unfit", f"the worker {name()} reads {build.id} in another way than this machine")
    (workspace.root / process.ORDER).write_text(to_json(order), encoding="utf-8")
    code, said = _run(workspace.root)
    built = cached(build, workspace, order.level)
    if built:
        _publish(store, built)
        return Answer("built")
    return None if code < 0 else _failure(build, workspace, said)


def _run(root: Path) -> tuple[int, str]:
    """Makes the build in a process apart.

    rattler-build holds the interpreter's lock, and the scheduler takes a worker that does not answer for dead. (Dask's
    worker processes may not use multiprocessing.)
    """
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
    command = [sys.executable, "-m", process.__name__, str(root), str(os.getpid())]
    log = root / "stderr.txt"  # not a pipe: a script that outlives its killed process would hold it open
    with log.open("wb") as said:
        code = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            check=False,
        ).returncode
    return code, log.read_text(encoding="utf-8", errors="replace")


def _failure(build: Build, workspace: Workspace, said: str) -> Answer:
    log = log_file(build.id, workspace)
    try:
        message = (workspace.root / process.FAILURE).read_text(encoding="utf-8")
    except FileNotFoundError:
        message = "\n".join([f"{build.id}: the build process on {name()} ended", *said.splitlines()[-10:]])
    return Answer("failed", message, log.read_text(encoding="utf-8") if log.exists() else "")


def _publish(store: Store, built: Built) -> None:
    for place, sha256 in built.sha256.items():
        store.put(built.home / place, sha256)
    # Last: who reads the note finds the packages of this attempt, whatever another worker does meanwhile.
    store.publish(built.key, note(built))


_starting = Lock()


def _home() -> Path:
    """The folder of this process; those of killed ones are removed, with what they left in memory."""
    with _starting:
        return _new_home()


@lru_cache
def _new_home() -> Path:
    def clear(folder: Path) -> None:
        for root in folder.glob("*"):
            clear_build_folders(Workspace(root))

    return hold_folder(Path(tempfile.gettempdir()) / f"ctk-workers-{os.getuid()}", clear)
