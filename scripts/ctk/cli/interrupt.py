"""Ctrl-C ends the process and its children at once: readers never see half of anything, even when a run is killed."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import NoReturn

from ctk.core import console
from ctk.core.errors import Stopped
from ctk.core.process import end_children, hard_exit


def install() -> None:
    """Has an interrupt end the process. Where interrupts are switched off they stay so."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, stop)


def stop(*_: object) -> NoReturn:
    """Ends everything, with one sentence. An exception would wait for pools, and these for their downloads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    error = Stopped("stopped; what was finished is kept", "run the same command again: it continues")
    try:
        end_children()
        with contextlib.suppress(Exception):  # it may have interrupted a print
            console.finish(error)
        print(f"\n{error.cause}", file=sys.stderr)
    finally:
        hard_exit(error.exit_code)
