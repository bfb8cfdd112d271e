"""The `ctk` command starts here, so that Ctrl-C is silent even while its modules are imported."""

from __future__ import annotations

import gc
import signal
import sys


def run() -> None:
    """Runs the command line. Until `interrupt.install`, an interrupt just ends the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ctk.cli.main import main

    try:
        main()
    finally:
        if "lief" not in sys.modules:  # its binding says of each object that is not looked through that it leaked
            gc.freeze()  # the end would look through all of them once more
