"""Builds in processes of this machine."""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from ctk.build.record import Built
from ctk.build.runner import make
from ctk.core.checkout import Workspace
from ctk.core.process import end_with, starting
from ctk.plan.dag import Build


class LocalPool:
    """An executor (`ctk.build.schedule`) that builds in a pool of processes.

    Args:
        workspace: The checkout.
        level: zstd compression level of the packages.
        jobs: How many builds share the memory.
        processes: Of the pool; no more than there are builds.
    """

    def __init__(self, workspace: Workspace, level: int, jobs: int, processes: int) -> None:
        self._arguments = (workspace, level, jobs)
        log = workspace.cache / "logs" / "build-processes.log"
        # rattler-build starts threads, which do not survive a fork.
        context = get_context("spawn")
        begin = (log, os.getpid())
        self._pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=begin)

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def submit(self, build: Build) -> Future[Built]:
        with starting():  # the first one starts the processes
            return self._pool.submit(make, build, *self._arguments)


def _begin(log: Path, parent: int) -> None:
    """What each build process does first."""
    end_with(parent)
    _write_stderr_to(log)


def _write_stderr_to(log: Path) -> None:
    """rattler-build draws progress bars on a terminal, which would run into ours."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
