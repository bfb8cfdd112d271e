"""The `ctk` command starts here, so that Ctrl-C is silent even while its modules are imported."""

from __future__ import annotations

import signal


def run() -> None:
    """Runs the command line. While it is being imported, an interrupt just ends the process."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ctk.cli.main import main

    signal.signal(signal.SIGINT, usual)
    main()
