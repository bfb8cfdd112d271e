"""Uploads one package after another, each within a time: rattler itself waits for an answer for ever.

It holds the interpreter's lock while it waits, so it does that in a process of its own, which can be ended.
"""

from __future__ import annotations

import os
from multiprocessing import TimeoutError as TooLate
from multiprocessing import get_context
from pathlib import Path

import rattler_build

from ctk.core.process import end_with, starting

SLOWEST = 50_000  # bytes in a second: a server that takes fewer is taken for one that has stopped


class Uploader:
    """Uploads to one channel of a server; use it as a context.

    Args:
        server: URL of a server that speaks prefix.dev's protocol.
        channel: Name of the channel there.
        attest: Whether a signed attestation goes with each package.
        patience: Seconds for each package, beside the time for its bytes.
    """

    def __init__(self, server: str, channel: str, attest: bool, patience: float) -> None:
        self._target, self._patience = (server, channel, attest), patience

    def __enter__(self) -> Uploader:
        # rattler starts threads, which do not survive a fork.
        with starting():
            self._pool = get_context("spawn").Pool(1, initializer=end_with, initargs=(os.getpid(),))
        self._pool.apply(_started)  # the time for that is not the server's
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.terminate()
        self._pool.join()

    def problem_with(self, file: Path) -> str:
        """Uploads a package unless the server has it; what went wrong, or ""."""
        patience = self._patience + file.stat().st_size / SLOWEST
        try:
            return self._pool.apply_async(_upload, (str(file), *self._target)).get(patience)
        except TooLate:
            return f"no answer in {patience:.0f} s"


def _started() -> None:
    """Nothing: whoever gets the answer knows that the process has begun."""


def _upload(file: str, server: str, channel: str, attest: bool) -> str:
    try:
        rattler_build.upload_package_to_prefix(
            [file], server, channel, skip_existing=True, generate_attestation=attest, store_github_attestation=attest
        )
    except rattler_build.RattlerBuildError as error:
        return str(error) or type(error).__name__
    return ""
