"""Where the `ctk` command begins: Ctrl-C is silent even before there is anything that could be said."""

from __future__ import annotations

import signal


def main() -> None:
    """Runs the command line. While it is being imported, an interrupt just ends the process."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ctk.cli.main import main as run

    signal.signal(signal.SIGINT, usual)
    run()
