"""The answers of the install selector: what a solver picks for every question, and why, as `ctk solve --explain` says.

They are solved on all cores, a package and Python at a time, each once, and packed for the page, which looks an answer
up by the values that were chosen: nothing is left for a browser to work out.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rattler import RepoDataRecord

from ctk.core.errors import SolverFailed
from ctk.core.files import replace_file
from ctk.core.platforms import NOARCH
from ctk.core.process import end_with, starting
from ctk.site.questions import ALWAYS, AlikeCatalogue, Axes, SelectorQuestion, Unasked, pin_specs
from ctk.solve.catalogue import ANY_DRIVER
from ctk.solve.machine import python_specs
from ctk.solve.solve import Scenario, channel_name
from ctk.solve.why import explain, find_reason, toolkit_in_words

CODE = ("solve", "site/answers", "site/questions")
"""The rooms and modules that decide what an answer says: when one of them changes, all is solved again."""

T = TypeVar("T", bound=Hashable)


class PickedPackage(NamedTuple):
    """One package of a pick; bytes to download are 0 where it is not built yet."""

    name: str
    version: str
    build: str
    size: int
    channel: str


@dataclass(frozen=True)
class SelectorAnswer:
    """The answer to one question.

    Attributes:
        packages: What would be installed, by name; none where the request has no solution.
        toolkit: The CTK minor, or "".
        fit: ``native``, ``compat`` or "".
        title: ``toolkit 13.0, native: ...``, or why there is no solution.
        reasons: A line for each toolkit that was passed over and for the one that was picked, as ``--explain`` prints
            them; the next step where there is no solution.
    """

    packages: tuple[PickedPackage, ...]
    toolkit: str
    fit: str
    title: str
    reasons: tuple[str, ...]


Answered = Iterable[tuple[SelectorQuestion, SelectorAnswer]]


@dataclass(frozen=True)
class Work:
    """One package with one Python, on one platform, which is solved at a time.

    Attributes:
        channels: Folders or URLs, the most important first.
        python: "" leaves it to the solver.
        kept: The file that keeps the answers between runs; None for a channel behind a URL, which may change.
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
        """Such as ``linux-64/cuda-core/3.13``, or ``linux-64/cuda-core/any``."""
        return f"{self.axes.subdir}/{self.package}/{self.python or 'any'}"


def answers(catalogue: AlikeCatalogue, axes: Axes, package: str, python: str) -> Answered:
    """Every answer about one package with one Python, in the order of the axes.

    Works in rounds: what no round before could foresee is gathered, and solved together.

    Raises:
        Unsolvable: A channel cannot be read.
    """
    catalogue.ask(_foreseen(catalogue, axes, package, python))
    answered: dict[SelectorQuestion, SelectorAnswer] = {}
    questions = waiting = list(axes.questions(package, python))
    while waiting:
        unasked: list[Scenario] = []
        catalogue.only_known = True
        for question in waiting:
            try:
                answered[question] = answer(catalogue, question.scenario(axes.subdir))
            except Unasked as missing:
                unasked.append(missing.scenario)
        catalogue.only_known = False
        catalogue.ask(unasked)
        waiting = [question for question in waiting if question not in answered]
    return ((question, answered[question]) for question in questions)


def answer(catalogue: AlikeCatalogue, scenario: Scenario) -> SelectorAnswer:
    """The answer to one request for one machine."""
    pick = catalogue.pick(scenario)
    if pick is None:
        cause = find_reason(scenario, catalogue)
        return SelectorAnswer((), "", "", cause.sentence, (cause.step,))
    reasons = tuple(explain(pick, catalogue))
    return SelectorAnswer(_packages(pick.records), pick.toolkit, pick.fit, toolkit_in_words(pick, catalogue), reasons)


@lru_cache(maxsize=4096)
def _packages(records: tuple[RepoDataRecord, ...]) -> tuple[PickedPackage, ...]:
    """The packages of a pick; the same object for the machines that have one pick."""
    return tuple(
        PickedPackage(r.name.normalized, str(r.version), str(r.build), r.size or 0, channel_name(str(r.channel)))
        for r in records
    )


def _foreseen(catalogue: AlikeCatalogue, axes: Axes, package: str, python: str) -> Iterator[Scenario]:
    """Nearly all of the solves that the answers for one Python will need, so that they can be done together."""
    bare = (package, *(python_specs(python) if python else ()))
    pinned = [spec for toolkit in catalogue.toolkits for spec in pin_specs(toolkit.version)]
    for driver, arch in (*axes.machines, (ANY_DRIVER, None)):
        machine = Scenario((), axes.subdir, driver, arch)
        for pin in axes.pins:
            yield replace(machine, specs=SelectorQuestion(package, driver, arch, python, pin).specs)
        for spec in pinned:
            yield replace(machine, specs=(*bare, spec))
            yield replace(machine, specs=(*bare, f"{spec}=native_*"))


def packed(answered: Answered) -> dict[str, Any]:
    """The answers about one package and Python, in the order of the axes, small enough for a page to load.

    Returns:
        records: [name, version, build, bytes, channel] of each package of any pick
        picks: lists of places in `records`
        texts: parts of sentences, which stand with a space between them
        lines: lists of places in `texts`
        answers: [pick or -1, toolkit, fit, title, reasons]; a title is a place in `lines`, reasons a list of such
        rows: for one driver and pin: the answers by GPU, as [answer, how many GPUs, answer, how many ...]
        grid: pin -> for each driver the place of its row
    """
    records: dict[PickedPackage, int] = {}
    picks: dict[tuple[int, ...], int] = {}
    texts: dict[str, int] = {}
    lines: dict[str, int] = {}
    kinds: dict[SelectorAnswer, int] = {}
    rows: dict[tuple[int, ...], int] = {}
    grid: dict[str, list[int]] = {}
    for (pin, _), group in groupby(answered, lambda pair: (pair[0].pin, pair[0].driver)):
        row = [_place(kinds, answer) for _, answer in group]
        runs = [number for place, same in groupby(row) for number in (place, len(list(same)))]
        grid.setdefault(pin, []).append(_place(rows, tuple(runs)))
    packed_answers = []
    for answer in kinds:
        members = tuple(_place(records, package) for package in answer.packages)
        pick = _place(picks, members) if members else -1
        title, *reasons = (_place(lines, line) for line in (answer.title, *answer.reasons))
        packed_answers.append([pick, answer.toolkit, answer.fit, title, reasons])
    # Lines are cut at their stops: many have parts in common.
    packed_lines = [[_place(texts, part) for part in re.split(r"(?<=[.;:,]) ", line)] for line in lines]
    return {
        "records": list(records),
        "picks": list(picks),
        "lines": packed_lines,
        "texts": list(texts),
        "answers": packed_answers,
        "rows": list(rows),
        "grid": grid,
    }


def _place(places: dict[T, int], thing: T) -> int:
    """The number of a thing among different ones, in the order in which they came."""
    return places.setdefault(thing, len(places))


def plan_work(axes: Axes, channels: Sequence[Path | str], cache: Path) -> list[Work]:
    """The work for one platform."""
    digest = _digest(axes, channels)

    def kept(*parts: str) -> Path | None:
        name = hashlib.sha256("\0".join((digest, *parts)).encode()).hexdigest()[:32]
        return cache / "site" / f"{name}.json" if digest else None

    return [
        Work(axes, tuple(channels), package, python, kept(package, python))
        for package in axes.packages
        for python in axes.pythons
    ]


def _digest(axes: Axes, channels: Sequence[Path | str]) -> str:
    """A digest of all that answers depend on: metadata, questions and code; "" with a channel behind a URL."""
    digest = hashlib.sha256(repr((axes.drivers, axes.gpus, axes.pins)).encode())
    for channel in channels:
        if not isinstance(channel, Path):
            return ""
        for subdir in (axes.subdir, NOARCH):
            with suppress(FileNotFoundError):
                digest.update((channel / subdir / "repodata.json").read_bytes())
            digest.update(f"\0{channel.name}/{subdir}\0".encode())
    digest.update(version("py-rattler").encode())
    for module in CODE:
        place = Path(__file__).parents[1] / module
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def solved(
    work: Sequence[Work], jobs: int, advance: Callable[[float, str], None]
) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    """Does the work in any order, and yields each piece with its `packed` answers.

    Args:
        work: What to solve.
        jobs: Processes.
        advance: Told of how many questions have been answered, and about what.

    Raises:
        Unsolvable: A channel cannot be read.
        SolverFailed: A process was killed.
    """
    waiting = []
    for piece in work:
        kept = _kept(piece)
        if kept is None:
            waiting.append(piece)
        else:
            advance(piece.size, f"{piece.name}, as before")
            yield piece, kept
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
    """Solves one piece of work, and keeps its answers."""
    catalogue = AlikeCatalogue(work.channels, work.axes.subdir, [work.package, *ALWAYS])
    content = json.dumps(packed(answers(catalogue, work.axes, work.package, work.python)), separators=(",", ":"))
    if work.kept:
        with suppress(OSError):  # what cannot be kept is solved again
            work.kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(work.kept, content.encode())
    return json.loads(content)  # type: ignore[no-any-return]


def _kept(work: Work) -> Mapping[str, Any] | None:
    if work.kept:
        with suppress(OSError, ValueError):  # not there, or cut short
            return json.loads(work.kept.read_text(encoding="ascii"))  # type: ignore[no-any-return]
    return None
