"""Builds on the workers of a Dask cluster: orders and results go through the scheduler, files through a store.

A build is finished when the store has its note, whose packages have the names that the plan promises and the hashes
that the note states. A worker needs this package and rattler-build, and no checkout: a work order names every file that
a build reads by its place in the checkout and its sha256.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import logging
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any

import rattler_build

from ctk.build.runner import (
    Built,
    at_work,
    build_key,
    cached,
    clear_build_folders,
    keep,
    log_file,
    make,
    read_note,
    write_log,
)
from ctk.core.address import real
from ctk.core.checkout import Workspace
from ctk.core.errors import (
    BadValue,
    BuildFailed,
    ClusterFailed,
    CtkError,
    NoSpace,
    RecipeError,
    describe,
    without_credentials,
)
from ctk.core.files import FULL, disk_errors, file_sha256, hold_folder
from ctk.core.process import end_with
from ctk.fetch.admission import note_of
from ctk.fetch.fetch import laid_out
from ctk.plan.plan import Build
from ctk.plan.recipes import recipe_commit

if TYPE_CHECKING:
    from distributed import Client


_A_STORE = (
    "a store is a folder that every worker sees, such as file:///shared/ctk, or an object store such as s3://bucket"
)
_SAME = "install the same revision of ctk on the scheduler and every worker"
_STEP = "what is finished is kept: mend the cluster and run the command again, or leave --dask out"
_TRIES = 2  # of a build on one worker, whose process was killed
_SUBMISSIONS = 2  # of a build whose workers died
_ROUNDS = 3  # in which the store may lose files before a build fails
_ANSWERS = 5  # seconds in which a scheduler answers
_JOINS = 30  # seconds in which a first worker joins, and after which a cluster without any is given up
_UPLOADS = 4
_TASK, _FAILURE, _STDERR = "task.pickle", "failure.txt", "stderr.txt"


class Store:
    """An open store.

    Args:
        url: As fsspec reads it; a path is a folder.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        except ImportError:
            raise missing_extra("fsspec") from None
        self.shown = without_credentials(url)
        try:
            self._fs, self._root = url_to_fs(url)
        except ImportError as error:  # fsspec knows the protocol, and its package is not installed
            raise BadValue(f"the store {self.shown} cannot be opened: {error}", "install that package") from None
        except Exception as error:
            raise BadValue(
                f"the store {self.shown} cannot be opened: {without_credentials(str(error))}", _A_STORE
            ) from None
        if self._fs.protocol == "memory":
            raise BadValue(f"the store {self.shown} is seen by no other process", _A_STORE)
        # An object appears whole in an object store; a file is there as soon as it is opened.
        self._renames = isinstance(self._fs, LocalFileSystem)
        self.url = f"file://{self._root}" if self._renames else url

    def put(self, file: Path, sha256: str | None = None) -> str:
        """Adds a file, unless one of its sha256 and size is there; returns its sha256."""
        sha256 = sha256 or file_sha256(file)
        path = self._blob(sha256)
        with self._errors():
            self._fs.invalidate_cache()
            if not self._fs.exists(path) or self._fs.size(path) != file.stat().st_size:
                with self._whole(path) as place:
                    self._fs.put_file(str(file), place)
        return sha256

    def get(self, sha256: str, target: Path) -> bool:
        """Reads a file; False where it is absent, or has another sha256."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            try:
                self._fs.get_file(self._blob(sha256), str(target))
            except FileNotFoundError:
                return False
            if file_sha256(target) == sha256:
                return True
            target.unlink()
            self._remove(self._blob(sha256))
            return False

    def publish(self, key: str, note: dict[str, Any]) -> None:
        """Marks a build as finished; its packages must be in the store. The last of several writers wins."""
        with self._errors(), self._whole(self._note(key)) as place:
            self._fs.pipe_file(place, json.dumps(note, indent=1).encode())

    def finished(self, key: str) -> Any:
        """The note of a finished build, None without one."""
        self._fs.invalidate_cache()
        try:
            with self._errors():
                return json.loads(self._fs.cat_file(self._note(key)))
        except (FileNotFoundError, ValueError):
            return None

    def _blob(self, sha256: str) -> str:
        return f"{self._root}/sha256/{sha256[:2]}/{sha256}"

    def _note(self, key: str) -> str:
        return f"{self._root}/builds/{key}.json"

    @contextmanager
    def _whole(self, path: str) -> Iterator[str]:
        """Where to write a file that appears under its path as a whole."""
        self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        if not self._renames:
            yield path
            return
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _remove(self, path: str) -> None:
        with suppress(OSError, ValueError):  # gone, or not ours to remove: nobody trusts it anyway
            self._fs.rm(path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            full = error.errno in FULL
            raise NoSpace(
                f"the store {self.shown} {'is full' if full else 'fails'}: {without_credentials(str(error))}",
                "free some space there" if full else "make it readable and writable for this machine and every worker",
            ) from None


def missing_extra(name: str) -> ClusterFailed:
    """The error for a package that only a cluster needs."""
    return ClusterFailed(
        f"builds on a cluster need {name}, which is not installed here",
        "install the extra: .venv/bin/python -m pip install --editable '.[cluster]'",
    )


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
        files: Place in the checkout -> sha256, of recipe files, shared ones too, variant files, artefacts, and notes of
            what was found in these.
    """

    store: str  # URL
    engine: str  # of the client; that of the worker must be the same
    build: Build  # its recipe's folder and its variant files are relative to the checkout
    key: str  # of the build
    level: int  # zstd compression level of the packages
    files: Mapping[str, str]
    programs: frozenset[str]  # those of them that are executable


@dataclass(frozen=True)
class WorkResult:
    """The outcome of a work order; without anything in it, the packages are in the store."""

    absent: tuple[str, ...] = ()  # hashes of files that the store lacks
    error: str = ""  # why the build failed
    log: str = ""  # of rattler-build


def work_order(build: Build, workspace: Workspace, level: int, store: str) -> WorkOrder:
    """The order for a build of a checkout."""

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
    notes = (note_of(a, workspace).file for a in build.artefacts)
    files |= {note.relative_to(workspace.root).as_posix(): file_sha256(note) for note in notes}
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
    """Makes the build of an order; runs on the worker."""
    if engine() != order.engine:
        raise ClusterFailed(f"the worker {_name()} has {engine()}, and this machine has {order.engine}", _SAME)
    workspace = Workspace(_home() / uuid.uuid4().hex)
    try:
        with disk_errors(workspace.root), at_work(workspace):
            return _make(order, workspace, Store(order.store))
    except ClusterFailed:
        raise
    except CtkError as error:
        return WorkResult(error=f"on {_name()}: {error.cause}")
    finally:
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
        raise ClusterFailed(f"the worker {_name()} reads {build.id} in another way than this machine", _SAME)
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


_idle: list[subprocess.Popen[bytes]] = []
"""Build processes of this worker that wait for their next build."""


def _run_process(root: Path) -> tuple[int, str]:
    """Makes the build of a folder in a process of its own; returns its exit code and what it wrote to stderr.

    rattler-build holds the GIL, and the scheduler takes a worker that does not answer for dead. (Dask's worker
    processes may not use multiprocessing.) A process makes one build after another: what it imports takes longer than
    many a build.
    """
    try:
        process = _idle.pop()
    except IndexError:
        process = _start_process()
    assert process.stdin and process.stdout
    done = b""
    with suppress(BrokenPipeError):  # it was killed
        process.stdin.write(f"{root}\n".encode())
        done = process.stdout.readline()
    if done:
        _idle.append(process)
        code = 0
    else:
        with process:
            code = process.wait()
    stderr = root / _STDERR
    return code, stderr.read_text(encoding="utf-8", errors="replace") if stderr.exists() else ""


def _start_process() -> subprocess.Popen[bytes]:
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.Popen(
        [sys.executable, "-m", "ctk.build.cluster", str(os.getpid())],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )


def _main(parent: int) -> None:
    end_with(parent)  # nobody wants the build of a killed worker any more
    # No script gets the pipes: one that outlives its killed process would hold them open.
    orders, answers = os.fdopen(os.dup(0)), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    gc.freeze()  # what was imported is not looked through when the process ends
    for line in orders:
        _serve(Path(line.rstrip("\n")))
        os.write(answers, b"\n")


def _serve(root: Path) -> None:
    """Makes the build of one order, in a build process."""
    with (root / _STDERR).open("wb") as file:
        os.dup2(file.fileno(), 2)
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


class Cluster:
    """A connected cluster whose workers were checked; enter it to close it.

    Args:
        address: Of the scheduler, such as ``tcp://scheduler:8786``.
        url: Of the store, as every worker sees it.
    """

    def __init__(self, address: str, url: str) -> None:
        self._address = address
        self._store = Store(real(url))
        self._client = _connect(real(address))
        self._uploading = Semaphore(_UPLOADS)
        try:
            self._wait_for_a_worker(
                f"no worker has joined the scheduler at {address} within {_JOINS} s",
                f"start some: dask worker {address} --nthreads 1",
            )
            self._check_ctk()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives up what is at work; `make` raises in the threads that wait for it."""
        self._client.close()

    def make(self, build: Build, workspace: Workspace, level: int) -> Built:
        """Has a build made and brings its packages into the cache of this checkout.

        Raises:
            BuildFailed: With the end of rattler-build's log.
            ClusterFailed: The cluster is lost, or a worker does not fit.
            NoSpace: The store or the disk is full.
        """
        if earlier := self._take(build, workspace, level, cached=True):
            return earlier
        order = work_order(build, workspace, level, self._store.url)
        for _ in range(_ROUNDS):
            for name, sha256 in order.files.items():
                with self._uploading:
                    self._store.put(workspace.root / name, sha256)
            result = self._result(order)
            if result.log:
                write_log(build.id, result.log, workspace)
            if result.error:
                raise BuildFailed(result.error, "mend the recipe")
            if not result.absent and (built := self._take(build, workspace, level, cached=False)):
                return built
        raise BuildFailed(
            f"{build.id}: the store {self._store.shown} does not give back what was put there",
            "check that the store keeps what is written",
        )

    def _result(self, order: WorkOrder) -> WorkResult:
        from distributed import KilledWorker

        killed = ""
        for _ in range(_SUBMISSIONS):
            # A key of its own: Dask must not answer with an earlier result.
            key = f"{order.build.id}-{uuid.uuid4().hex[:8]}"
            asked = self._client.submit(fulfil, order, key=key, pure=False)
            try:
                return self._wait(asked)
            except KilledWorker as error:  # as many as the scheduler allows; another build of theirs may be at fault
                killed = str(error)
            except ClusterFailed:
                raise
            except Exception as error:
                return WorkResult(error=f"{order.build.id}: a worker failed: {describe(error)}")
        return WorkResult(error=f"{order.build.id}: {killed}; is memory short there?")

    def _wait(self, asked: Any) -> WorkResult:
        """The result of a Dask future, or the error of its task."""
        while True:
            try:
                result: WorkResult = asked.result(timeout=_JOINS)
                return result
            except (Exception, CancelledError, asyncio.CancelledError) as error:
                if asked.status == "error":  # it is the task's own
                    raise
                if asked.status != "pending" or not isinstance(error, TimeoutError):
                    raise ClusterFailed(
                        f"the connection to the scheduler at {self._address} was lost: {describe(error)}", _STEP
                    ) from None
            self._wait_for_a_worker(f"the cluster at {self._address} has no worker left", _STEP)

    def _take(self, build: Build, workspace: Workspace, level: int, *, cached: bool) -> Built | None:
        """Brings a finished build from the store into the cache; None where the store does not have all of it."""
        key = build_key(build, level)
        built = read_note(self._store.finished(key), build, key, workspace, cached=cached)
        packages = built.sha256 if built else {}
        folder = workspace.builds / f".tmp-{key}-store"
        with disk_errors(workspace.cache):
            try:
                promised = {f"{o.subdir}/{o.file_name}" for o in build.outputs}
                whole = packages.keys() == promised
                whole = whole and all(self._store.get(sha256, folder / name) for name, sha256 in packages.items())
                return keep(folder, built) if built and whole else None
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _wait_for_a_worker(self, cause: str, step: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_JOINS)
        except TimeoutError:
            raise ClusterFailed(cause, step) from None

    def _check_ctk(self) -> None:
        """Raises ClusterFailed unless scheduler and workers have this ctk: all of them unpickle orders."""
        with tempfile.TemporaryDirectory(prefix="ctk-probe-") as folder:
            file = Path(folder) / "probe"
            file.write_text("Can you read this?\n")
            probe = self._store.put(file)
        answers: Mapping[str, Any] = self._client.run(unfit, engine(), self._store.url, probe, on_error="return")
        wrong = []
        try:
            if (has := self._client.run_on_scheduler(engine)) != engine():
                wrong.append(f"the scheduler has {has}, and this machine has {engine()}")
        except Exception as error:  # whatever it meets when it looks for ctk
            wrong.append(f"the scheduler has no ctk that fits: {describe(error)}")
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                answer = f"cannot build with this ctk: {describe(answer)}"
            if answer:
                wrong.append(f"the worker {address} {answer}")
        if wrong:
            raise ClusterFailed("\n".join(wrong), f"{_SAME}, and name a store that they all see with --store")


def _connect(address: str) -> Client:
    try:
        from distributed import Client
        from distributed.comm.core import connect
    except ImportError:
        raise missing_extra("distributed") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters becomes an error of ours

    async def knock() -> None:
        await (await asyncio.wait_for(connect(address, timeout=_ANSWERS), _ANSWERS)).close()

    try:
        asyncio.run(knock())  # a client waits for ever where something listens that is no scheduler
        return Client(address, timeout=_ANSWERS, set_as_default=False, name="ctk")
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterFailed(
            f"no Dask scheduler answers at {address}: {describe(error)}",
            "check the address, and that `dask scheduler` runs there; without --dask, builds run on this machine",
        ) from None


if __name__ == "__main__":
    _main(int(sys.argv[1]))
