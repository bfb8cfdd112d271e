"""rattler's own solver, for many scenarios: one gateway, several solves at a time.

The solves run outside Python's lock, so that tasks of one event loop keep all cores busy; processes were not faster
(``benchmarks/verify.py``).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from rattler import Gateway
from rattler.exceptions import SolverError

from ctk.core.process import run
from ctk.solve.solve import Scenario, channel_url, reading, solve_records
from ctk.verify.run import Record, SolverAnswer

# Answers come in batches of so many: enough to keep the cores busy, few enough to show progress.
_BATCH = 512


class RattlerSolver:
    """rattler, as `ctk solve` uses it, with eight jobs at a time for each core, so that none waits for Python."""

    name = "rattler"

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or 8 * (os.cpu_count() or 1)

    def solve_all(self, scenarios: Iterable[Scenario], channels: Sequence[Path]) -> Iterator[SolverAnswer]:
        gateway, sources, waiting = Gateway(), [channel_url(channel) for channel in channels], iter(scenarios)
        with reading(channels):
            while batch := list(islice(waiting, _BATCH)):
                yield from run(self._batch(batch, sources, gateway))

    async def _batch(self, scenarios: Sequence[Scenario], sources: list[str], gateway: Gateway) -> list[SolverAnswer]:
        waiting, answers = iter(scenarios), []

        async def work() -> None:
            for scenario in waiting:
                answers.append(await _solve(scenario, sources, gateway))

        working = asyncio.gather(*(work() for _ in range(self._jobs)))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            # Interrupted. Solves under way end in milliseconds, and need this loop to hand over their answers.
            deque(waiting, maxlen=0)
            await working
            raise
        return answers


async def _solve(scenario: Scenario, sources: list[str], gateway: Gateway) -> SolverAnswer:
    try:
        records = await solve_records(scenario, sources, gateway)
    except SolverError as error:
        return SolverAnswer(scenario, problem=str(error))
    return SolverAnswer(
        scenario, {r.name.normalized: Record(str(r.version), str(r.build), str(r.channel)) for r in records}
    )
