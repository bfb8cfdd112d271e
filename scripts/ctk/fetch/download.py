"""Downloads a file with a known hash; a later try or run continues one that broke off."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ctk.index import LARGEST, Interrupted

if TYPE_CHECKING:  # slow to import
    from ctk.index.transfer import Remote, Transfer

T = TypeVar("T")

_CONTINUES = "run the command again; it continues where it stopped"
_ALGORITHMS = {64: "sha256", 32: "md5"}  # digits -> name


@dataclass(frozen=True)
class Wanted:
    """A file to download.

    Attributes:
        digest: Its sha256 in hexadecimal digits, or its md5 if a channel has no sha256; "" if
            nothing is known.
        size: In bytes; None if that is not known.
        most: Bytes that it may have if its size is not known.
    """

    remote: Remote
    digest: str
    size: int | None
    most: int = LARGEST

    @property
    def algorithm(self) -> str:
        return _ALGORITHMS.get(len(self.digest), "sha256")

    @property
    def limit(self) -> int:
        return self.most if self.size is None else self.size


@dataclass(frozen=True)
class Received:
    """What came: its digest by the algorithm that was asked for, and its size in bytes."""

    digest: str
    size: int

    def is_right(self, wanted: Wanted) -> bool:
        is_right_size = self.size <= wanted.limit and wanted.size in (None, self.size)
        return is_right_size and wanted.digest in ("", self.digest)


def download(
    wanted: Wanted, part: Path, transfer: Transfer, progress: Callable[[int], None]
) -> Received:
    """Completes a partial file. If that is the wrong file, all of it is fetched once more.

    Args:
        wanted: The file.
        part: The partial file, which may be there. It stays, whatever came.
        transfer: The client.
        progress: Is called with the number of bytes that arrived.

    Raises:
        CtkError: The error of the transfer's service; the next call continues.
    """

    def kept() -> int:
        return part.stat().st_size if part.exists() else 0

    def attempt() -> Received:
        return transfer.retry.run(lambda: _continue(wanted, part, transfer, progress), kept)

    received = attempt()
    if not received.is_right(wanted):
        # A server or a proxy may have mixed up a file, or the partial file may be of another one.
        part.unlink()
        received = attempt()
    return received


def _continue(
    wanted: Wanted, part: Path, transfer: Transfer, progress: Callable[[int], None]
) -> Received:
    """Completes a partial file.

    Raises:
        Interrupted: The answer ended too early; the next call continues.
    """
    hasher, size = hashlib.new(wanted.algorithm), 0
    if part.exists() and part.stat().st_size > wanted.limit:
        part.unlink()
    elif part.exists():
        part.chmod(0o644)
        with part.open("rb") as file:
            hasher = hashlib.file_digest(file, wanted.algorithm)
        size = part.stat().st_size
        if size == wanted.size:
            return Received(hasher.hexdigest(), size)
    with transfer.stream(wanted.remote, size) as (is_partial, total, blocks):
        if size and not is_partial:
            hasher, size = hashlib.new(wanted.algorithm), 0
        with part.open("ab" if size else "wb") as target:
            for block in blocks:
                target.write(block)
                hasher.update(block)
                size += len(block)
                progress(len(block))
                if size > wanted.limit:
                    break
    # A file of another size is complete, but another file.
    if size < wanted.limit and (total is None or size < total) and wanted.size is not None:
        what = f"{wanted.remote.what} breaks off after {size} of {wanted.size} bytes"
        raise Interrupted(what, _CONTINUES)
    return Received(hasher.hexdigest(), size)


def at_once(jobs: int, work: Callable[[T], object], items: Sequence[T]) -> None:
    """Does some work for all items, in this many threads.

    What runs when another item fails is finished first, so that nothing fetched is lost. What has
    not begun would fail the same way, or be wasted.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            pool.shutdown(cancel_futures=True)
        for future in futures:
            if not future.cancelled():
                future.result()
