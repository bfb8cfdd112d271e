"""A Dask scheduler and workers as processes of their own, on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QUIET = ["--no-dashboard"]


class Loopback:
    """A scheduler, and the workers that a test starts.

    Args:
        folder: For the workers' files.
        environment: Of the processes, besides this one's.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, "TMPDIR": str(folder), **environment}
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), *QUIET]
        self.scheduler = self._start("scheduler", *words)
        wait_for(file)
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a worker; it joins soon."""
        return self._start(
            "worker",
            self.address,
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--no-nanny",
            *QUIET,
            *words,
            **environment,
        )

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def _start(self, kind: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{kind}-{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + kind, *words],
                env={**self._environment, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self.processes.append(process)
        return process


@contextmanager
def loopback(folder: Path, workers: int = 2, **environment: str) -> Iterator[Loopback]:
    """A scheduler with workers, ended with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Loopback(folder, **environment)
    try:
        for _ in range(workers):
            cluster.worker()
        yield cluster
    finally:
        cluster.stop()


def wait_for(file: Path, seconds: float = 300) -> None:
    """Until a file is there, and not empty."""
    end = time.monotonic() + seconds
    while not (file.exists() and file.stat().st_size):
        if time.monotonic() > end:
            raise AssertionError(f"{file} did not appear within {seconds} s")
        time.sleep(0.02)


@contextmanager
def silent_port() -> Iterator[str]:
    """The address of something that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
