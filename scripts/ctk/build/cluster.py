"""Builds on the workers of a Dask cluster: orders and results go through the scheduler, files through the store.

A build is finished when the store has a note of it, whose packages have the names that the plan promises and the hashes
that the note states. A build that the store has already is taken from there.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from ctk.build import worker
from ctk.build.runner import Built, build_key, keep, read_note, write_log
from ctk.build.store import Store, missing_extra
from ctk.core.checkout import Workspace
from ctk.core.errors import BuildFailed, ClusterFailed
from ctk.core.files import disk_errors
from ctk.core.retry import describe
from ctk.plan.plan import Build

if TYPE_CHECKING:
    from distributed import Client

_ANSWERS = 5  # seconds in which a scheduler answers
_JOINS = 30  # seconds in which a first worker joins, and after which a cluster without any is given up
_UPLOADS = 4
_SUBMISSIONS = 2  # of a build whose workers died
_ROUNDS = 3  # in which the store may lose files before a build fails
_STEP = "what is finished is kept: mend the cluster and run the command again, or leave --dask out"


class Cluster:
    """A connected cluster whose workers were checked; enter it to close it.

    Args:
        address: Of the scheduler, such as ``tcp://scheduler:8786``.
        url: Of the store, as every worker sees it.

    Raises:
        ClusterFailed: Nobody answers there, there are no workers, or one is not like this machine.
        BadValue, NoSpace: The store cannot be opened, or not be written.
    """

    def __init__(self, address: str, url: str) -> None:
        self._address = address
        self._store = Store(url)
        self._client = _connect(address)
        self._uploading = Semaphore(_UPLOADS)
        try:
            self._wait_for_a_worker(
                f"no worker has joined the scheduler at {address} within {_JOINS} s",
                f"start some: dask worker {address} --nthreads 1",
            )
            self._check_workers()
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
        order = worker.work_order(build, workspace, level, self._store.url)
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

    def _result(self, order: worker.WorkOrder) -> worker.WorkResult:
        from distributed import KilledWorker

        killed = ""
        for _ in range(_SUBMISSIONS):
            # A key of its own: Dask must not answer with an earlier result.
            key = f"{order.build.id}-{uuid.uuid4().hex[:8]}"
            asked = self._client.submit(worker.fulfil, order, key=key, pure=False)
            try:
                return self._wait(asked)
            except KilledWorker as error:  # as many as the scheduler allows; another build of theirs may be at fault
                killed = str(error)
            except ClusterFailed:
                raise
            except Exception as error:
                return worker.WorkResult(error=f"{order.build.id}: a worker failed: {describe(error)}")
        return worker.WorkResult(error=f"{order.build.id}: {killed}; is memory short there?")

    def _wait(self, asked: Any) -> worker.WorkResult:
        """The result of a Dask future, or the error of its task."""
        while True:
            try:
                result: worker.WorkResult = asked.result(timeout=_JOINS)
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
        note = self._store.finished(key)
        if note is None:
            return None
        built = read_note(note, build, key, workspace, cached=cached)
        packages = built.sha256 if built else {}
        folder = workspace.builds / f".tmp-{key}-store"
        with disk_errors(workspace.cache):
            try:
                promised = {f"{o.subdir}/{o.file_name}" for o in build.outputs}
                whole = packages.keys() == promised
                if built and whole and all(self._store.get(s, folder / n) for n, s in packages.items()):
                    return keep(folder, built)
                self._store.forget(key)
                return None
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _wait_for_a_worker(self, cause: str, step: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_JOINS)
        except TimeoutError:
            raise ClusterFailed(cause, step) from None

    def _check_workers(self) -> None:
        with tempfile.TemporaryDirectory(prefix="ctk-probe-") as folder:
            file = Path(folder) / "probe"
            file.write_text("Can you read this?\n")
            probe = self._store.put(file)
        answers: Mapping[str, Any] = self._client.run(
            worker.unfit, worker.engine(), self._store.url, probe, on_error="return"
        )
        wrong = []
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                answer = f"cannot build with this ctk: {describe(answer)}"
            if answer:
                wrong.append(f"the worker {address} {answer}")
        if wrong:
            raise ClusterFailed("\n".join(wrong), f"{worker.SAME}, and name a store that they all see with --store")


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
