"""The `ctk` command starts here, so that Ctrl-C is silent even while its modules are imported."""

from __future__ import annotations

import signal


def run() -> None:
    """Runs the command line. Until `interrupt.install`, an interrupt just ends the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ctk.cli.main import main

    main()
