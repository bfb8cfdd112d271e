"""A build on a worker of a Dask cluster, which needs this package and rattler-build, and no checkout.

A work order names every file that a build reads by its place in the checkout and its sha256. The worker makes a
checkout of them, has a process of its own make the build, and puts the packages into the store.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

import rattler_build

from ctk.build.runner import build_key, cached, log_file, make
from ctk.build.sbom import recipe_commit
from ctk.build.store import Store
from ctk.core.checkout import Workspace
from ctk.core.errors import ClusterFailed, CtkError, RecipeError, without_credentials
from ctk.core.files import clear_build_folders, disk_errors, file_sha256, hold_folder
from ctk.core.process import end_with
from ctk.fetch.fetch import laid_out
from ctk.plan.plan import Build

SAME = "install the same revision of ctk on every worker"
_TRIES = 2
_TASK, _FAILURE = "task.pickle", "failure.txt"


@lru_cache
def engine() -> str:
    """What must be the same wherever a run builds: a digest of this package's modules, and rattler-build's version."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0{file_sha256(file)}\1".encode())
    return f"ctk {digest.hexdigest()[:12]} with rattler-build {rattler_build.rattler_build_version()}"


@dataclass(frozen=True)
class WorkOrder:
    """What a worker needs to know for one build.

    Attributes:
        store: URL.
        engine: Of the client; that of the worker must be the same.
        build: Its recipe's folder and its variant files are relative to the checkout.
        key: Of the build.
        level: zstd compression level of the packages.
        files: Place in the checkout -> sha256, of recipe files, shared ones too, variant files and artefacts.
        programs: Those of them that are executable.
    """

    store: str
    engine: str
    build: Build
    key: str
    level: int
    files: Mapping[str, str]
    programs: frozenset[str]


@dataclass(frozen=True)
class WorkResult:
    """The outcome of a work order; without anything in it, the packages are in the store.

    Attributes:
        absent: Hashes of files that the store lacks.
        error: Why the build failed.
        log: Of rattler-build.
    """

    absent: tuple[str, ...] = ()
    error: str = ""
    log: str = ""


def work_order(build: Build, workspace: Workspace, level: int, store: str) -> WorkOrder:
    """The order for a build of a checkout.

    Raises:
        RecipeError: It reads a file outside the checkout.
    """

    def place(path: Path) -> Path:
        try:
            return path.resolve().relative_to(workspace.root.resolve())
        except ValueError:
            raise RecipeError(
                f"{path} is not in the checkout, so no worker can have it",
                "keep what recipes read inside the checkout",
            ) from None

    sources = {place(f).as_posix(): f for f in (*build.recipe.files(), *build.variant_files)}
    files = {name: file_sha256(f) for name, f in sources.items()}
    files |= {laid_out(a, workspace).relative_to(workspace.root).as_posix(): a.sha256 for a in build.artefacts}
    moved = replace(
        build,
        recipe=replace(build.recipe, folder=place(build.recipe.folder), commit=recipe_commit(build.recipe)),
        variant_files=tuple(map(place, build.variant_files)),
    )
    programs = frozenset(name for name, f in sources.items() if f.stat().st_mode & 0o100)
    return WorkOrder(store, engine(), moved, build_key(build, level), level, files, programs)


def unfit(wanted: str, store: str, probe: str) -> str:
    """Why this worker cannot build for a client with this engine and a file in this store; "" where it can."""
    if engine() != wanted:
        return f"on {socket.gethostname()} has {engine()}, and this machine has {wanted}"
    with tempfile.TemporaryDirectory(prefix="ctk-probe-") as folder, suppress(CtkError):
        if Store(store).get(probe, Path(folder) / "probe"):
            return ""
    return f"on {socket.gethostname()} does not see the store {without_credentials(store)}"


def fulfil(order: WorkOrder) -> WorkResult:
    """Makes the build of an order; runs on the worker.

    Raises:
        ClusterFailed: This worker is of another revision.
    """
    if engine() != order.engine:
        raise ClusterFailed(f"the worker {_name()} has {engine()}, and this machine has {order.engine}", SAME)
    workspace = Workspace(_home() / uuid.uuid4().hex)
    try:
        with disk_errors(workspace.root):
            return _make(order, workspace, Store(order.store))
    except ClusterFailed:
        raise
    except CtkError as error:
        return WorkResult(error=f"on {_name()}: {error.cause}")
    finally:
        clear_build_folders(workspace)
        shutil.rmtree(workspace.root, ignore_errors=True)


def _make(order: WorkOrder, workspace: Workspace, store: Store) -> WorkResult:
    root = workspace.root
    absent = tuple(sha for name, sha in order.files.items() if not store.get(sha, root / name))
    if absent:
        return WorkResult(absent)
    for name in order.files:
        (root / name).chmod(0o755 if name in order.programs else 0o644)
    recipe, variants = order.build.recipe, order.build.variant_files
    build = replace(
        order.build,
        recipe=replace(recipe, folder=root / recipe.folder),
        variant_files=tuple(root / f for f in variants),
    )
    if build_key(build, order.level) != order.key:
        raise ClusterFailed(f"the worker {_name()} reads {build.id} in another way than this machine", SAME)
    (root / _TASK).write_bytes(pickle.dumps((build, order.level)))
    for _ in range(_TRIES):
        code, output = _run_process(root)
        if built := cached(build, workspace, order.level):
            for name, sha256 in built.sha256.items():
                store.put(built.home / name, sha256)
            # Last: who reads the note finds its packages, whatever another worker does at the same time.
            store.publish(built.key, built.note)
            return WorkResult()
        if code >= 0:
            failure, log = root / _FAILURE, log_file(build.id, workspace)
            said = "\n".join([f"{build.id}: the build process on {_name()} ended", *output.splitlines()[-10:]])
            return WorkResult(
                error=failure.read_text(encoding="utf-8") if failure.exists() else said,
                log=log.read_text(encoding="utf-8") if log.exists() else "",
            )
        clear_build_folders(workspace)
    return WorkResult(error=f"{build.id}: its process on {_name()} was killed {_TRIES} times; is memory short there?")


def _run_process(root: Path) -> tuple[int, str]:
    """Runs this module in a process of its own; returns its exit code and what it wrote to stderr.

    rattler-build holds the GIL, and the scheduler takes a worker that does not answer for dead. (Dask's worker
    processes may not use multiprocessing.)
    """
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
    stderr = root / "stderr.txt"  # not a pipe: a script that outlives its killed process would hold it open
    with stderr.open("wb") as file:
        code = subprocess.run(
            [sys.executable, "-m", "ctk.build.worker", str(root), str(os.getpid())],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            check=False,
        ).returncode
    return code, stderr.read_text(encoding="utf-8", errors="replace")


def _main(root: Path, parent: int) -> None:
    end_with(parent)  # nobody wants the build of a killed worker any more
    build, level = pickle.loads((root / _TASK).read_bytes())
    try:
        make(build, Workspace(root), level, os.cpu_count() or 1)
    except CtkError as error:
        (root / _FAILURE).write_text(error.cause, encoding="utf-8")


def _name() -> str:
    """Address and host of this worker."""
    from distributed import get_worker

    try:
        return f"{get_worker().address} on {socket.gethostname()}"
    except ValueError:  # called without a cluster
        return f"process {os.getpid()} on {socket.gethostname()}"


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


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
