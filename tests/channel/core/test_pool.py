"""Pools of processes, when Ctrl-C comes while their processes are started."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from ctk.core.pool import ProcessPool


def test_ctrl_c_that_another_thread_gets_waits_until_the_processes_are_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, a process that was half started printed a traceback below the sentence
    about Ctrl-C.
    """
    # In a shell's background it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started, over = threading.Event(), threading.Event()
    other = threading.Thread(target=over.wait)  # it does not block the signal
    other.start()

    def start(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # the interpreter looks for signals between two of these
            time.sleep(0.001)
        started.set()

    monkeypatch.setattr(ProcessPoolExecutor, "submit", start)
    try:
        with pytest.raises(KeyboardInterrupt):
            ProcessPool(1).submit(int)
        assert started.is_set()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        over.set()
        other.join()
        signal.signal(signal.SIGINT, before)
