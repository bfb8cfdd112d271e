"""The end of this process, and coroutines of rattler."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from ctk.core.locks import release_folders

T = TypeVar("T")


def hard_exit(code: int) -> NoReturn:
    """Ends this process at once, after it has removed its temporary files and flushed its output.

    The interpreter's own end would print the objects that bindings leak, and aborts while a thread
    of rattler returns a result.
    """
    release_folders()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a closed pipe or a full disk: the command has reported it
            stream.flush()
    os._exit(code)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, for coroutines of rattler.

    Asyncio is imported only here, as most commands do not need it.
    """
    import asyncio

    return asyncio.run(work)
