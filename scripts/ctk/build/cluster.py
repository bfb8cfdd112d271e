"""Builds on the workers of a Dask cluster.

Orders and results go through the scheduler, files through a store. A build is finished when the
store has its note, and packages with the names of the plan and the hashes of the note. A worker
needs this package and rattler-build, and no checkout: a work order names every file of the build by
its place in the checkout and its sha256. Dask chooses the workers, notices dead ones, and gives
their builds to others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any

from ctk.build.finished import Built, build_key, read_note, tools
from ctk.build.one import at_work, clear_build_folders, processes
from ctk.build.runner import keep, log_file, make, write_log
from ctk.core.checkout import Workspace, lacks_package
from ctk.core.disk import FULL, disk_errors
from ctk.core.errors import (
    BadValue,
    BuildFailed,
    ClusterFailed,
    CtkError,
    NoSpace,
    NotReady,
    describe,
)
from ctk.core.files import file_sha256
from ctk.core.locks import hold_folder, release_folder
from ctk.core.secrets import without_credentials
from ctk.fetch.fetch import derived_at, laid_out
from ctk.plan.plan import Build
from ctk.plan.recipes import recipe_commit

if TYPE_CHECKING:
    from distributed import Client

CONNECT_TIMEOUT = 5  # seconds in which a scheduler answers
_A_STORE = (
    "a store is a folder that every worker sees, such as file:///shared/ctk, or an object store"
    " such as s3://bucket"
)
_REACHABLE = (
    "check its address and login, and that this machine and every worker may read and write it"
)
_FREE = "free some space there and run the command again: finished builds are kept in the store"
_INSUFFICIENT = 507  # HTTP: Insufficient Storage
_SAME = "install the same revision of ctk on the scheduler and every worker"
_STEP = "finished builds are kept: fix the cluster and run the command again, or omit --dask"


class Store:
    """An open store.

    Args:
        url: As fsspec reads it; a path is a folder.
    """

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.shown = without_credentials(url)
        try:
            self._fs, self._root = url_to_fs(url)
        except (
            Exception
        ) as error:  # of fsspec, or of the package for this protocol, which may be missing
            raise BadValue(
                f"the store {self.shown} cannot be opened: {without_credentials(str(error))}",
                _A_STORE,
            ) from None
        # An object appears whole in an object store; a file is there as soon as it is opened.
        self._renames = isinstance(self._fs, LocalFileSystem)
        # The root of an object store begins with a bucket. It has no folders, and where one is to
        # be made, s3fs makes a bucket: of a mistyped name, too.
        self._has_folders = str(self._root).startswith("/")
        self.url = f"file://{self._root}" if self._renames else url

    def put(self, file: Path, sha256: str | None = None) -> str:
        """Adds a file, unless the store has it; returns its sha256. `get` removes a damaged one."""
        sha256 = sha256 or file_sha256(file)
        path = self._blob(sha256)
        with self._errors():
            self._fs.invalidate_cache()
            if not self._fs.exists(path):
                with self._absent_place(), self._whole(path) as place:
                    self._fs.put_file(str(file), place)
        return sha256

    def get(self, sha256: str, target: Path) -> bool:
        """Reads a file; False if it is absent, or has another sha256: then it is removed."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._errors():
            try:
                self._fs.get_file(self._blob(sha256), str(target))
            except FileNotFoundError:
                return False
            if file_sha256(target) == sha256:
                return True
            target.unlink()
            with suppress(
                OSError, ValueError
            ):  # gone, or not ours to remove: nobody trusts it anyway
                self._fs.rm(self._blob(sha256))
            return False

    def publish(self, key: str, note: dict[str, Any]) -> None:
        """Marks a build as finished; its packages must be in the store.

        The last of several writers wins.
        """
        with self._errors(), self._absent_place(), self._whole(self._note(key)) as place:
            self._fs.pipe_file(place, json.dumps(note, indent=1).encode())

    def finished(self, key: str) -> Any:
        """The note of a finished build; None without one."""
        self._fs.invalidate_cache()
        try:
            with self._errors():
                note = self._fs.cat_file(self._note(key))
            return json.loads(note)
        except (FileNotFoundError, ValueError):
            return None

    def _blob(self, sha256: str) -> str:
        return f"{self._root}/sha256/{sha256[:2]}/{sha256}"

    def _note(self, key: str) -> str:
        return f"{self._root}/builds/{key}.json"

    @contextmanager
    def _whole(self, path: str) -> Iterator[str]:
        """Gives the place to write a file, which then appears under its path as a whole."""
        if self._has_folders:
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

    @contextmanager
    def _absent_place(self) -> Iterator[None]:
        """Turns the error of a place that is not there to be written to into NoSpace."""
        try:
            yield
        except FileNotFoundError as error:
            said = without_credentials(str(error))
            step = "make the bucket or the folder first, or name another store with --store"
            raise NoSpace(f"the store {self.shown} is not there: {said}", step) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns errors of the store into NoSpace, but those of files that are not there.

        They are of any kind: a bucket without login raises errors of its client's library.
        """
        try:
            yield
        except (FileNotFoundError, CtkError):
            raise
        except Exception as error:
            said = describe(error)
            fault, step = "fails", _REACHABLE
            if _is_full(error):
                fault, step = "is full", _FREE
            raise NoSpace(f"the store {self.shown} {fault}: {said}", step) from None


def _is_full(error: Exception) -> bool:
    """Whether a store has no room left.

    s3fs gives the answer of a server as the cause of its error: 507 is MinIO's, the code of
    quotas is Ceph's.
    """
    if getattr(error, "errno", None) in FULL:
        return True
    answer = getattr(error.__cause__ or error, "response", None)
    if not isinstance(answer, Mapping):
        return False
    if answer.get("Error", {}).get("Code") == "QuotaExceeded":
        return True
    status: object = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status == _INSUFFICIENT


# An order for a worker.


@dataclass(frozen=True)
class WorkOrder:
    """A build for a worker.

    Attributes:
        files: Place in the checkout -> sha256, of recipe files, shared ones too, variant files, and
            artefacts.
    """

    store: str  # URL
    tools: Mapping[str, str]  # of the client; those of the worker must be the same
    build: Build  # its recipe's folder and its variant files are relative to the checkout
    files: Mapping[str, str]


@dataclass(frozen=True)
class WorkResult:
    """The outcome of a work order."""

    error: str = ""  # why the build failed; without an error, the store has its packages
    log: str = ""  # of rattler-build


def work_order(build: Build, workspace: Workspace, store: str) -> WorkOrder:
    """The order for a build of a checkout."""
    root = workspace.root.resolve()

    def place(path: Path) -> Path:
        return path.resolve().relative_to(root)

    sources = [*build.recipe.files(), *build.variant_files]
    files = {place(file).as_posix(): file_sha256(file) for file in sources}
    for artefact in build.artefacts:
        laid = laid_out(artefact, workspace).relative_to(workspace.root)
        files[laid.as_posix()] = artefact.sha256
    for source in build.derived:
        made = derived_at(source, workspace)
        files[made.relative_to(workspace.root).as_posix()] = file_sha256(made)
    # A worker has no git.
    recipe = replace(build.recipe, commit=recipe_commit(build.recipe))
    known = replace(build, recipe=recipe)
    return WorkOrder(store, tools(), _moved(known, place), files)


def _moved(build: Build, place: Callable[[Path], Path]) -> Build:
    """The same build with other places of its recipe and its variant files."""
    recipe = replace(build.recipe, folder=place(build.recipe.folder))
    return replace(build, recipe=recipe, variant_files=tuple(map(place, build.variant_files)))


# On the worker.


def fulfil(order: WorkOrder) -> WorkResult:
    """Makes the build of an order.

    Raises:
        ClusterFailed: This worker has other tools, or cannot open the store or build.
        NoSpace: The store fails or is full, or the disk of this worker is full.
        BrokenExecutor: The build process was killed.
    """
    if tools() != order.tools:
        raise ClusterFailed(
            f"the worker {socket.gethostname()} has {tools()}, and this run {order.tools}", _SAME
        )
    home = Path(tempfile.gettempdir()) / f"ctk-workers-{os.getuid()}"
    # Also removes the folders of killed workers, with what they left in memory.
    workspace = Workspace(hold_folder(home, lambda left: clear_build_folders(Workspace(left))))
    try:
        with disk_errors(workspace.root), at_work(workspace):
            return _make(order, workspace, Store(order.store))
    # The next build here would have the same end. Dask tries each once more, elsewhere if it can.
    except NoSpace as error:
        raise NoSpace(f"on {socket.gethostname()}: {error.cause}", error.step) from None
    except (BadValue, NotReady) as error:
        raise ClusterFailed(
            f"the worker {socket.gethostname()} cannot build: {error.cause}", error.step
        ) from None
    except CtkError as error:
        log = log_file(order.build.id, workspace)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        return WorkResult(error=f"on {socket.gethostname()}: {error.cause}", log=text)
    finally:
        release_folder(workspace.root)


def _make(order: WorkOrder, workspace: Workspace, store: Store) -> WorkResult:
    root = workspace.root
    for name, sha256 in order.files.items():
        if not store.get(sha256, root / name):
            raise _lost(name, order.build, store)
    built = _in_process(_moved(order.build, root.joinpath), workspace)
    for name, sha256 in built.sha256.items():
        store.put(built.home / name, sha256)
    # Last: a reader of the note finds its packages, whatever another worker does at the same time.
    store.publish(built.key, built.note)
    return WorkResult()


def _lost(name: str, build: Build, store: Store) -> BuildFailed:
    return BuildFailed(
        f"{build.id}: the store {store.shown} does not return {name}, which was put there: check"
        " that nothing removes its files, and run the command again",
        _STEP,
    )


_own = local()
"""The build process of each thread, which stays for the next build: it takes long to start."""


def _in_process(build: Build, workspace: Workspace) -> Built:
    """Makes a build in another process.

    rattler-build holds the GIL, and Dask takes a silent worker for dead.
    """
    if not hasattr(_own, "process"):
        multiprocessing.current_process().daemon = (
            False  # a worker below a nanny is one, and may start no process
        )
        _own.process = processes(1, Path(os.devnull))
    try:
        built: Built = _own.process.submit(make, build, workspace, os.cpu_count() or 1).result()
        return built
    except BrokenExecutor:
        del _own.process
        raise BrokenExecutor(f"its process on {socket.gethostname()} was killed") from None


# On the machine of the run.


class Cluster(AbstractContextManager["Cluster"]):
    """A connected cluster; enter it to close it.

    Args:
        address: Of the scheduler, such as ``tcp://scheduler:8786``.
        url: Of the store, as every worker sees it.
        say: Gets a message when no worker is left.
    """

    def __init__(
        self, address: str, url: str, say: Callable[[str], None] = lambda message: None
    ) -> None:
        try:
            import distributed  # noqa: F401
        except ModuleNotFoundError as error:
            raise lacks_package("builds on a cluster", error, "ctk[cluster]") from None
        self._address, self._say = address, say
        self._store = Store(url)
        self._client = _connect(address)
        if not self._client.nthreads():
            self._say_no_worker()
        self._client.subscribe_topic("all", self._noticed)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives up the builds at work; `make` raises in the threads that wait for them."""
        self._client.close()

    def make(self, build: Build, workspace: Workspace) -> Built:
        """Has a build made and brings its packages into the cache of this checkout.

        Raises:
            BuildFailed: With the end of rattler-build's log.
            ClusterFailed: The scheduler is lost, or a worker has another ctk.
            NoSpace: The store or the disk is full.
        """
        if earlier := self._take(build, workspace, cached=True):
            return earlier
        order = work_order(build, workspace, self._store.url)
        for name, sha256 in order.files.items():
            self._store.put(workspace.root / name, sha256)
        result = self._result(order)
        if result.log:
            write_log(build.id, result.log, workspace)
        if result.error:
            raise BuildFailed(result.error, "fix the recipe")
        if built := self._take(build, workspace, cached=False):
            return built
        raise _lost("its packages", build, self._store)

    def _result(self, order: WorkOrder) -> WorkResult:
        from distributed import KilledWorker

        try:
            # Not pure: Dask must not answer with an earlier result. Deaths of workers do not count
            # as retries.
            result: WorkResult = self._client.submit(fulfil, order, pure=False, retries=1).result()
            return result
        except (CancelledError, asyncio.CancelledError) as error:
            raise ClusterFailed(
                f"the connection to the scheduler at {self._address} was lost: {describe(error)}",
                _STEP,
            ) from None
        except (ClusterFailed, NoSpace):
            raise
        except (KilledWorker, BrokenExecutor) as error:
            return WorkResult(f"{order.build.id}: {error}; it may have run out of memory there")
        except Exception as error:  # also of a scheduler or worker that cannot load this ctk
            raise ClusterFailed(
                f"a worker failed at {order.build.id}: {describe(error)}", _SAME
            ) from error

    async def _noticed(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Says when no worker is left; Dask gives the builds to the next one that joins."""
        if event[1].get("action") == "remove-worker" and not await self._client.nthreads():
            self._say_no_worker()

    def _say_no_worker(self) -> None:
        self._say(
            f"no worker at {self._address}; waiting for one: dask worker {self._address}"
            " --nthreads 1"
        )

    def _take(self, build: Build, workspace: Workspace, *, cached: bool) -> Built | None:
        """Brings a finished build from the store into the cache.

        None if the store does not have all of it.
        """
        key = build_key(build)
        built = read_note(self._store.finished(key), build, key, workspace, cached=cached)
        packages = built.sha256 if built else {}
        folder = workspace.builds / f".tmp-{key}-store"
        with disk_errors(workspace.cache):
            try:
                promised = {f"{o.subdir}/{o.file_name}" for o in build.outputs}
                whole = packages.keys() == promised
                whole = whole and all(
                    self._store.get(sha256, folder / name) for name, sha256 in packages.items()
                )
                return keep(folder, built) if built and whole else None
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _connect(address: str) -> Client:
    from distributed import Client
    from distributed.comm.core import connect

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its errors are reported as ours

    async def knock() -> None:
        await (
            await asyncio.wait_for(connect(address, timeout=CONNECT_TIMEOUT), CONNECT_TIMEOUT)
        ).close()

    try:
        asyncio.run(knock())  # a client waits for ever for a listener that is not a scheduler
        return Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False, name="ctk")
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterFailed(
            f"no Dask scheduler answers at {address}: {describe(error)}",
            "check the address, and that `dask scheduler` runs there; without --dask, builds run on"
            " this machine",
        ) from None
