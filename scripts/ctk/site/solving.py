"""Solves the selector's questions on all cores, a package and Python at a time, and each once."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ctk.core.errors import SolverFailed
from ctk.core.files import replace_file
from ctk.core.platforms import NOARCH
from ctk.core.process import end_with, starting
from ctk.site.alike import ALWAYS, AlikeCatalogue
from ctk.site.answers import answers
from ctk.site.axes import Axes
from ctk.site.shard import place, shard

WORDS = (
    "solve",
    *("site/alike", "site/answers", "site/axes", "site/shard"),
)
"""The modules that decide what an answer says: when one of them changes, all is solved again."""


@dataclass(frozen=True)
class Work:
    """What is solved at a time: one package with one Python, on one platform.

    Attributes:
        axes: The questions.
        channels: What they are asked of: folders or URLs, the most important first.
        package: About which package.
        python: With which Python, or "".
        kept: Where the answers are kept between runs; None where they cannot be, as a channel behind a URL may change.
    """

    axes: Axes
    channels: tuple[Path | str, ...]
    package: str
    python: str
    kept: Path | None = None

    @property
    def size(self) -> int:
        """How many questions it is."""
        return len(self.axes.pins) * len(self.axes.machines)

    @property
    def name(self) -> str:
        """Such as ``linux-64/cuda-core/3.13``."""
        return place(self.axes.subdir, self.package, self.python)


def plan_work(axes: Axes, channels: Sequence[Path | str], cache: Path) -> list[Work]:
    """The work for one platform."""
    made = _made_of(axes, channels)

    def kept(*parts: str) -> Path | None:
        return cache / "site" / f"{_digest(made, *parts)}.json" if made else None

    return [
        Work(axes, tuple(channels), package, python, kept(package, python))
        for package in axes.packages
        for python in axes.pythons
    ]


def solved(
    work: Sequence[Work], jobs: int, advance: Callable[[float, str], None]
) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    """Does the work, in any order.

    Args:
        work: What to solve.
        jobs: Processes.
        advance: Told of how many questions have been answered, and about what.

    Yields:
        Each piece of work with what `ctk.site.shard.shard` made of its answers.

    Raises:
        Unsolvable: A channel cannot be read.
        SolverFailed: A process was killed.
    """
    waiting = []
    for piece in work:
        known = _known(piece)
        if known is None:
            waiting.append(piece)
        else:
            advance(piece.size, f"{piece.name}, as before")
            yield piece, known
    if jobs == 1 or len(waiting) < 2:
        for piece in waiting:
            yield piece, solve_one(piece)
            advance(piece.size, piece.name)
        return
    # Spawned: rattler has threads, which a fork would lose.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(waiting)), spawn, end_with, (os.getpid(),)) as pool:
        with starting():
            futures = {pool.submit(solve_one, piece): piece for piece in waiting}
        try:
            for future in as_completed(futures):
                piece = futures[future]
                yield piece, future.result()
                advance(piece.size, piece.name)
        except BaseException as error:
            # Interrupted, or one failed: nobody waits for the others.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise SolverFailed(
                    "a process that solved was killed; most often memory ran out",
                    "run the command again with --jobs 1: what was solved is kept",
                ) from None
            raise


def solve_one(work: Work) -> Mapping[str, Any]:
    """Solves one piece of work, and keeps what it found."""
    catalogue = AlikeCatalogue(work.channels, work.axes.subdir, [work.package, *ALWAYS])
    found = shard(answers(catalogue, work.axes, work.package, work.python))
    if work.kept:
        with suppress(OSError):  # what cannot be kept is solved again
            work.kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(work.kept, json.dumps(found, separators=(",", ":")).encode())
    # As it is read back: with lists for tuples.
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def _known(work: Work) -> Mapping[str, Any] | None:
    if work.kept:
        with suppress(OSError, ValueError):  # not there, or cut short
            return json.loads(work.kept.read_text(encoding="ascii"))  # type: ignore[no-any-return]
    return None


def _made_of(axes: Axes, channels: Sequence[Path | str]) -> str | None:
    """A digest of all that answers depend on: the metadata, the questions, and our own words."""
    digest = hashlib.sha256(repr((axes.drivers, axes.gpus, axes.pins)).encode())
    for channel in channels:
        if not isinstance(channel, Path):
            return None
        for subdir in (axes.subdir, NOARCH):
            with suppress(FileNotFoundError):
                digest.update((channel / subdir / "repodata.json").read_bytes())
            digest.update(f"\0{channel.name}/{subdir}\0".encode())
    digest.update(version("py-rattler").encode())
    for module in WORDS:
        place = Path(__file__).parents[1] / module
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
