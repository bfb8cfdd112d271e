"""Event loops for rattler: which calls share one, and what an interrupt makes of that."""

from __future__ import annotations

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from ctk.core.process import one_loop, run


async def this_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_calls_inside_share_a_loop_which_is_closed_after_them_and_others_have_their_own() -> None:
    with one_loop():
        first, second = run(this_loop()), run(this_loop())
        assert first is second
        assert not first.is_closed()
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(run, this_loop()).result()
        assert elsewhere is not first
        assert elsewhere.is_closed()
    assert first.is_closed()
    assert run(this_loop()) is not run(this_loop())


def test_an_interrupt_cancels_a_later_call_too_and_the_next_one_works() -> None:
    ended = []

    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(asyncio.get_running_loop())

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with one_loop():
            first = run(this_loop())
            with pytest.raises(KeyboardInterrupt):
                run(interrupted())
            assert ended == [first]
            assert run(this_loop()) is first
    finally:
        signal.signal(signal.SIGINT, before)
