"""The order of builds: each starts when what it needs is done; what needs a failed one is skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ctk.build.record import Built, Failure
from ctk.core.errors import BuildFailed
from ctk.plan.dag import Build


class Executor(Protocol):
    """Makes builds somewhere. It is entered for the time of one run; leaving it early cancels what has not begun."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *error: object) -> None: ...

    def submit(self, build: Build) -> Future[Built]:
        """Starts a build.

        Returns:
            Its result, in the cache of this checkout. BuildFailed is about this build, any other error about the run.
        """
        ...


Progress = Callable[[str, str], None]


@dataclass
class Ledger:
    """What has become of the builds of a run so far, by id."""

    done: dict[str, Built] = field(default_factory=dict)
    failed: dict[str, Failure] = field(default_factory=dict)
    skipped: dict[str, Failure] = field(default_factory=dict)


def run_all(
    todo: Mapping[str, Build], ledger: Ledger, executor: AbstractContextManager[Executor], progress: Progress
) -> None:
    """Makes builds, dependencies first.

    Args:
        todo: By id, in the order of the plan.
        ledger: Has the builds that were done before; filled in.
        executor: Makes them.
        progress: Told of each build's id and outcome.

    Raises:
        BuildFailed: A build process was killed.
        CtkError: Whatever ends the run in this executor.
    """
    waiting = dict(todo)
    running: dict[Future[Built], str] = {}
    with executor as pool:
        while waiting or running:
            _skip(waiting, ledger, progress)
            ready = [b for b in waiting.values() if all(n in ledger.done for n in b.needs)]
            # Large ones first, so that no core is left with one at the end.
            for build in sorted(ready, key=lambda b: -sum(a.size for a in b.artefacts)):
                running[pool.submit(build)] = waiting.pop(build.id).id
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                _settle(future, running.pop(future), ledger, progress)


def _skip(waiting: dict[str, Build], ledger: Ledger, progress: Progress) -> None:
    for build_id, build in list(waiting.items()):
        lost = [n for n in build.needs if n in ledger.failed or n in ledger.skipped]
        if lost:
            ledger.skipped[build_id] = Failure(build_id, f"it needs {lost[0]}, which was not built")
            progress(build_id, ledger.skipped[build_id].message)
            del waiting[build_id]


def _settle(future: Future[Built], build_id: str, ledger: Ledger, progress: Progress) -> None:
    try:
        built = ledger.done[build_id] = future.result()
        progress(build_id, "taken from the store" if built.cached else f"built in {built.seconds:.1f} s")
    except BuildFailed as error:
        ledger.failed[build_id] = Failure(build_id, error.cause)
        progress(build_id, "FAILED")
    except BrokenExecutor:
        raise BuildFailed(
            f"a build process was killed while {build_id} was at work",
            "run the command again: finished builds are kept (is memory short?)",
        ) from None
