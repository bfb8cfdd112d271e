"""One run at a time in a checkout: the second waits, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from ctk.disk import disk_errors
from ctk.errors import Busy
from ctk.paths import Workspace


@contextmanager
def exclusive(workspace: Workspace, say: Callable[[str], None], wait: float = 3600) -> Iterator[None]:
    """Holds the checkout's lock.

    The lock is the operating system's, so a killed run leaves none behind.

    Args:
        workspace: The checkout.
        say: Told once when another run has the lock.
        wait: Seconds to wait for it.

    Raises:
        Busy: The other run did not end in time.
        NoSpace: The checkout's cache cannot be written.
    """
    lock = FileLock(workspace.cache / "run.lock")
    try:
        with disk_errors(workspace.cache):
            workspace.cache.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
    except Timeout:
        say("another run is at work in this checkout; waiting for it to end")
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise Busy(
                f"another run has been at work in this checkout for more than {wait:.0f} s", "wait for it, or end it"
            ) from None
    try:
        yield
    finally:
        lock.release()
