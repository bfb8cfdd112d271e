"""Builds on the workers of a Dask cluster: orders go through the scheduler, files through the store.

What makes a build finished is a note in the store, whose packages have the names that the plan promises and the hashes
that the note states. What the store has already is taken from there, whoever made it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ctk.build import worker
from ctk.build.order import Order, contents, engine, order, to_json
from ctk.build.record import Built, build_key, keep
from ctk.build.runner import log_file
from ctk.build.store import Store, missing_extra
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, ClusterFailed
from ctk.core.files import disk_errors
from ctk.core.retry import describe
from ctk.plan.dag import Build

if TYPE_CHECKING:
    from distributed import Client

_ANSWERS = 5  # seconds in which a scheduler answers
_JOINS = 30  # seconds in which a first worker joins, and after which a cluster without any is given up
_IN_FLIGHT = 256  # builds that the scheduler knows at once
_UPLOADS = 4
_STEP = "what is finished is kept: mend the cluster and run the command again, or leave --dask out"


class Cluster:
    """A connected cluster whose workers were asked who they are; enter it to close it.

    Args:
        address: Of the scheduler, such as ``tcp://scheduler:8786``.
        url: Of the store, as every worker sees it.

    Raises:
        ClusterFailed: Nobody answers there, there are no workers, or one is not like this machine.
        BadValue, NoSpace: The store cannot be opened, or not be written.
    """

    def __init__(self, address: str, url: str) -> None:
        self.address = address
        self.store = Store(url)
        self._client = _connect(address)
        try:
            self._check_workers()
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def executor(self, workspace: Workspace, level: int) -> ClusterPool:
        """An executor (`ctk.build.schedule`) for one run."""
        return ClusterPool(self, self._client, workspace, level)

    @property
    def workers(self) -> int:
        """How many there are now."""
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def _check_workers(self) -> None:
        with tempfile.TemporaryDirectory(prefix="ctk-probe-") as folder:
            file = Path(folder) / "probe"
            file.write_text("Can you read this?\n")
            probe = self.store.put(file)
        try:
            self._client.wait_for_workers(1, timeout=_JOINS)
        except TimeoutError:
            raise ClusterFailed(
                f"no worker has joined the scheduler at {self.address} within {_JOINS} s",
                f"start some: dask worker {self.address} --nthreads 1",
            ) from None
        wanted = engine()
        found: Mapping[str, Any] = self._client.run(worker.introduce, self.store.url, probe, on_error="return")
        wrong = []
        for address, answer in found.items():
            if isinstance(answer, BaseException):
                wrong.append(f"the worker {address} cannot build with this ctk: {describe(answer)}")
                continue
            host, has, sees_store = answer
            name = f"{address} on {host}"
            if has != wanted:
                wrong.append(f"the worker {name} has {has}, and this machine has {wanted}")
            elif not sees_store:
                wrong.append(f"the worker {name} does not see the store {self.store.shown}")
        if wrong:
            raise ClusterFailed(
                "\n".join(wrong),
                "install the same revision of ctk on every worker, and name a store that they all see with --store",
            )


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


class ClusterPool:
    """One run on a cluster. Each build is a thread that waits: for uploads, for a worker, for the packages."""

    def __init__(self, cluster: Cluster, client: Client, workspace: Workspace, level: int) -> None:
        self._cluster, self._client, self._store = cluster, client, cluster.store
        self._workspace, self._level = workspace, level
        self._run = uuid.uuid4().hex[:12]
        self._threads = ThreadPoolExecutor(_IN_FLIGHT)
        self._uploads = ThreadPoolExecutor(_UPLOADS)
        self._uploaded: dict[str, Future[str]] = {}
        self._lock = Lock()
        self._asked: set[Any] = set()
        self._leaving = False

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._leaving = True
        for pool in (self._uploads, self._threads):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._asked:
            self._client.cancel(list(self._asked), force=True)
        self._threads.shutdown()
        self._store.end(self._run)

    def submit(self, build: Build) -> Future[Built]:
        return self._threads.submit(self._make, build)

    def _make(self, build: Build) -> Built:
        earlier = self._take(build, cached=True)
        if earlier:
            return earlier
        made = order(build, self._workspace, self._level, self._run, self._store.url)
        files = {sha: file for file, sha in contents(made, self._workspace).items()}
        self._upload(files)
        for _ in range(worker.TRIES):
            answer = self._ask(made)
            if answer.kind == "built":
                built = self._take(build, cached=False)
                if built:
                    return built
            elif answer.kind == "absent":
                self._upload({sha: files[sha] for sha in answer.absent}, again=True)
            else:
                raise self._error(build, answer)
        raise BuildFailed(
            f"{build.id}: the store {self._store.shown} does not give back what was put there",
            "check that the store keeps what is written",
        )

    def _error(self, build: Build, answer: worker.Answer) -> BuildFailed | ClusterFailed:
        if answer.kind == "unfit":
            return ClusterFailed(answer.message, "install the same revision of ctk on every worker")
        if answer.kind == "died":
            return BuildFailed(
                f"{build.id}: both workers that began it died: {answer.message}", "is memory short there?"
            )
        if answer.log:
            log = log_file(build.id, self._workspace)
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(answer.log, encoding="utf-8")
        return BuildFailed(answer.message, "mend the recipe")

    def _upload(self, files: Mapping[str, Path], again: bool = False) -> None:
        with self._lock:
            for sha, file in files.items():
                if again or sha not in self._uploaded:
                    self._uploaded[sha] = self._uploads.submit(self._store.put, file, sha)
            waiting = [self._uploaded[sha] for sha in files]
        for upload in waiting:
            upload.result()

    def _ask(self, made: Order) -> worker.Answer:
        from distributed import KilledWorker

        killed = 0
        while True:
            # A key of its own: Dask must not answer from what another run or try has asked.
            key = f"{made.build.id}-{made.key[:8]}-{uuid.uuid4().hex[:8]}"
            asked = self._client.submit(worker.fill, to_json(made), key=key, pure=False)
            self._asked.add(asked)
            try:
                return worker.ANSWER.validate_json(self._wait(asked))
            except KilledWorker:  # the scheduler has given up; the marks say how often a worker really began
                killed += 1
                died = self._store.marks(self._run, made.key)
                if max(killed, len(died)) >= worker.TRIES:
                    return worker.Answer("died", " and ".join(died.values()))
            except (Exception, asyncio.CancelledError) as error:
                if self._leaving:
                    raise CancelledError from None
                if isinstance(error, ClusterFailed):
                    raise
                if asked.status == "error":  # it is the worker's own
                    return worker.Answer("failed", f"{made.build.id}: a worker failed: {describe(error)}")
                raise ClusterFailed(
                    f"the connection to the scheduler at {self._cluster.address} was lost: {describe(error)}", _STEP
                ) from None
            finally:
                self._asked.discard(asked)

    def _wait(self, asked: Any) -> str:
        empty = 0
        while True:
            try:
                answer: str = asked.result(timeout=_JOINS / 2)
                return answer
            except TimeoutError:
                if asked.status == "error":
                    raise
                empty = 0 if self._cluster.workers else empty + 1
                if empty == 2:
                    raise ClusterFailed(f"the cluster at {self._cluster.address} has no worker left", _STEP) from None

    def _take(self, build: Build, cached: bool) -> Built | None:
        """Brings a finished build of the store into this checkout's cache; None where the store has none that holds."""
        key = build_key(build, self._level)
        note = self._store.finished(key)
        if note is None:
            return None
        packages = note.get("packages")
        folder = self._workspace.builds / f".tmp-{key}-store"
        with disk_errors(self._workspace.cache):
            try:
                promised = {f"{o.subdir}/{o.file_name}" for o in build.outputs}
                if not isinstance(packages, dict) or set(packages) != promised:
                    self._store.forget(key)
                    return None
                if not all(self._store.get(sha, folder / name) for name, sha in packages.items()):
                    self._store.forget(key)
                    return None
                seconds = float(note.get("seconds", 0.0))
                return keep(folder, Built(build.id, key, self._workspace.builds / key, packages, seconds, cached))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
