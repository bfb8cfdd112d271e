"""One run at a time in a checkout, and at a channel: the second waits, and says so.

The locks are the operating system's, so a killed run leaves none behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ctk.core.disk import disk_errors
from ctk.core.errors import Busy
from ctk.core.paths import Workspace


@contextmanager
def exclusive(workspace: Workspace, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """Holds the checkout's lock.

    Args:
        workspace: The checkout.
        say: Told once when another run has the lock.
        wait: Seconds to wait for it.

    Raises:
        Busy: The other run did not end in time.
        NoSpace: The checkout's cache cannot be written.
    """
    with _held(workspace.cache / "run.lock", "in this checkout", say, wait):
        yield


@contextmanager
def publishing(channel: Path, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """Holds the lock of a channel, from reading its state to replacing it: other checkouts may publish there, too.

    Args:
        channel: Its folder, made or not.
        say: Told once when another run has the lock.
        wait: Seconds to wait for it.

    Raises:
        Busy: The other run did not end in time.
        NoSpace: The folder around the channel cannot be written.
    """
    with _held(channel.with_name(f".{channel.name}.lock"), f"at {channel}", say, wait):
        yield


@contextmanager
def _held(file: Path, where: str, say: Callable[[str], None], wait: float) -> Iterator[None]:
    lock = FileLock(file)
    try:
        with disk_errors(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
    except Timeout:
        say(f"another run is at work {where}; waiting for it to end")
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise Busy(
                f"another run has been at work {where} for more than {wait:.0f} s", "wait for it, or end it"
            ) from None
    try:
        yield
    finally:
        lock.release()
