"""The install selector: its questions, and what a solver answers to each, as `ctk solve --explain` says.

Machines that are alike to a solver are one question, solved once. Whatever is said *about* a pick still has the
machine's own numbers in it. Answers are solved on all cores, a package
and Python at a time, and packed for the page, which looks them up: nothing is left for a browser to work out.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version as installed_version
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rattler import RepoDataRecord
from ruamel.yaml import YAML

from ctk.core.errors import SolverFailed, check_names
from ctk.core.files import replace_file
from ctk.core.platforms import NOARCH
from ctk.core.process import end_with, starting
from ctk.lock.model import ReleaseLock
from ctk.solve.machine import impossible, python_specs
from ctk.solve.solve import ANY_DRIVER, Catalogue, GroupedCatalogue, MachineClasses, Pick, Scenario, channel_name
from ctk.solve.why import COMPAT, explain, find_reason, fit_in_words
from ctk.verify.oracle import version
from ctk.verify.scenarios import Machine, facts, matrix

CODE = ("solve", "site/answers")
"""The rooms and modules that decide what an answer says: when one of them changes, all is solved again."""

ALWAYS = ("cuda-version", "python", "python_abi")
"""Packages that a pick may have besides the one that was asked for."""

_OLDEST_DRIVER = "1.0"  # older than any
_GPUS = Path(__file__).with_name("gpus.yaml")
# Halves of packages that nobody installs by name: what a cross-compiler takes for its target, and the files that the
# two builds of a package share.
_HALVES = re.compile(r".*_(?:linux|win)-\w+|.*-files|python_abi")

T = TypeVar("T", bound=Hashable)


class SelectorQuestion(NamedTuple):
    """One combination of the selector's fields; "" leaves a Python or a pin to the solver."""

    package: str
    driver: str | None  # the newest CUDA version that the driver supports, or None without a driver
    arch: str | None  # compute capability, or None where no client detects the GPU
    python: str  # 3.13, 3.14t
    pin: str  # of cuda-version, a major or a minor

    def scenario(self, subdir: str) -> Scenario:
        """What a client is given, as ``ctk solve PACKAGE cuda-version=PIN --python PYTHON``."""
        specs = (self.package, *pin_specs(self.pin), *(python_specs(self.python) if self.python else ()))
        return Scenario(specs, subdir, self.driver, self.arch)


@dataclass(frozen=True)
class Axes:
    """The values of each field for one platform, oldest first; their combinations are what is solved."""

    subdir: str
    drivers: tuple[str | None, ...]  # None, then one that is too old for every toolkit, then the others
    gpus: tuple[str | None, ...]  # None, then compute capabilities; the last is newer than every toolkit
    pythons: tuple[str, ...]  # "", then those that the base channel has
    pins: tuple[str, ...]  # "", then CUDA majors, then the minors in the channel
    packages: tuple[str, ...]
    older: bool = False  # a driver older than the first is the same question: no rule of the channel tells them apart
    newer: bool = False  # the same of one newer than the last
    impossible: Mapping[Machine, str] = field(default_factory=dict)  # machine that cannot exist -> why; never solved

    @property
    def machines(self) -> list[Machine]:
        """Every driver with every GPU, and the machine without a driver."""
        return [(driver, gpu) for driver in self.drivers for gpu in self.gpus if driver or not gpu]

    def questions(self, package: str, python: str) -> Iterator[SelectorQuestion]:
        """Every question about one package with one Python."""
        for pin, (driver, arch) in product(self.pins, self.machines):
            yield SelectorQuestion(package, driver, arch, python, pin)


def axes(
    catalogue: Catalogue,
    locks: Iterable[ReleaseLock],
    tags: Iterable[str],
    packages: Collection[str] = (),
    pythons: Collection[str] = (),
) -> Axes:
    """The axes of a catalogue of this channel and its base, for its platform.

    The facts of the locks say which drivers and GPUs exist; the wheel tags, oldest first, are the Pythons that packages
    are built for. `packages` and `pythons`, where given, are the only ones.
    """
    known, offered = matrix(facts(locks), tags, [catalogue.subdir]), installed_by_name(catalogue)
    check_names("package", packages, offered)
    check_names("Python", pythons, catalogue.pythons)
    names = tuple(name for name in offered if not packages or name in packages)
    minors = sorted((t.version for t in catalogue.toolkits), key=version)
    alike = MachineClasses(catalogue.query([f"{name} *" for name in (*names, *ALWAYS)], recursive=True))
    _, oldest, *_, newest = known.drivers
    machines = product(known.drivers, known.gpus)
    return Axes(
        catalogue.subdir,
        known.drivers,
        known.gpus,
        ("", *(p for p in known.pythons if p in catalogue.pythons and (not pythons or p in pythons))),
        ("", *dict.fromkeys(minor.split(".")[0] for minor in minors), *minors),
        names,
        older=alike.is_same_driver(_OLDEST_DRIVER, str(oldest)),
        newer=alike.is_same_driver(str(newest), ANY_DRIVER),
        impossible={machine: why for machine in machines if (why := impossible(*machine))},
    )


def installed_by_name(catalogue: Catalogue) -> list[str]:
    """The packages of the channel that somebody would ask for."""
    other = f"_{'win' if catalogue.subdir.startswith('linux') else 'linux'}-"
    return sorted(name for name in catalogue.own_names if not is_half(name) and other not in name)


def is_half(name: str) -> bool:
    """Whether nobody installs a package by its name: other packages bring it."""
    return bool(_HALVES.fullmatch(name))


def pin_specs(pin: str) -> tuple[str, ...]:
    return (f"cuda-version={pin}",) if pin else ()


def gpu_names() -> dict[str, str]:
    """Name of a GPU -> its compute capability, as NVIDIA lists them; the newest first."""
    return {name: arch for arch, names in YAML(typ="safe").load(_GPUS).items() for name in names}


Picked = tuple[str, str, str, int, str]
"""One package of a pick: name, version, build, bytes to download (0 where it is not built yet) and channel."""


class SelectorAnswer(NamedTuple):
    """The answer to one question; without packages where it has no solution."""

    packages: tuple[Picked, ...]  # by name
    toolkit: str  # CTK minor, or ""
    fit: str  # native, compat, or ""
    title: str  # ``CUDA 13.0: everything works on this machine``, or why there is no solution
    reasons: tuple[str, ...]  # as ``--explain`` prints them; the next step where there is no solution


Answered = Iterator[tuple[SelectorQuestion, SelectorAnswer]]


def answers(catalogue: GroupedCatalogue, axes: Axes, package: str, python: str) -> Answered:
    """Every answer about one package with one Python, in the order of the axes."""
    catalogue.ask(_foreseen(catalogue, axes, package, python))
    for question in axes.questions(package, python):
        if why := axes.impossible.get((question.driver, question.arch)):
            yield question, SelectorAnswer((), "", "", why, ())
        else:
            yield question, answer(catalogue, question.scenario(axes.subdir))


def answer(catalogue: Catalogue, scenario: Scenario) -> SelectorAnswer:
    """The answer to one request for one machine."""
    pick = catalogue.pick(scenario)
    if pick is None:
        sentence, step = find_reason(scenario, catalogue)
        return SelectorAnswer((), "", "", sentence, (step,))
    reasons = tuple(explain(pick, catalogue))
    return SelectorAnswer(_packages(pick.records), pick.toolkit, pick.fit, headline(pick, catalogue), reasons)


def headline(pick: Pick, catalogue: Catalogue) -> str:
    """What a pick means for somebody who does not know the words native and compat."""
    if not pick.toolkit:
        return "no CUDA toolkit is needed"
    if pick.fit == "native":
        return f"CUDA {pick.toolkit}: everything works on this machine"
    words = fit_in_words(pick, catalogue).removeprefix("compat: ").removeprefix("compat, ")
    if words == COMPAT:
        words = "programs compiled for this GPU work, PTX does not"
    return f"CUDA {pick.toolkit}: {words}".removesuffix(": ")


@lru_cache(maxsize=4096)
def _packages(records: tuple[RepoDataRecord, ...]) -> tuple[Picked, ...]:
    """The packages of a pick; the same object for the machines that have one pick."""
    return tuple(
        (r.name.normalized, str(r.version), str(r.build), r.size or 0, channel_name(str(r.channel))) for r in records
    )


def _foreseen(catalogue: GroupedCatalogue, axes: Axes, package: str, python: str) -> Iterator[Scenario]:
    """Nearly all of the solves that the answers for one Python will need, so that they can be done together."""
    for driver, arch in (*(m for m in axes.machines if m not in axes.impossible), (ANY_DRIVER, None)):
        for pin in axes.pins:
            yield SelectorQuestion(package, driver, arch, python, pin).scenario(axes.subdir)
        bare = SelectorQuestion(package, driver, arch, python, "").scenario(axes.subdir)
        for toolkit in catalogue.toolkits:
            yield bare.also(f"cuda-version={toolkit.version}")
            yield bare.also(f"cuda-version={toolkit.version}=native_*")


def packed(answered: Answered) -> dict[str, Any]:
    """The answers about one package and Python, in the order of the axes, small enough for a page to load.

    Returns:
        records: [name, version, build, bytes, channel] of each package of any pick
        picks: lists of places in `records`
        lines: lists of places in `texts`
        texts: parts of sentences, which stand with a space between them
        answers: [pick or -1, toolkit, fit, title, reasons]; a title is a place in `lines`, reasons a list of such
        rows: for one driver and pin: the answers by GPU, as [answer, how many GPUs, answer, how many ...]
        grid: pin -> for each driver the place of its row
    """
    kinds: dict[SelectorAnswer, int] = {}
    rows: dict[tuple[int, ...], int] = {}
    grid: dict[str, list[int]] = {}
    for (pin, _), group in groupby(answered, lambda pair: (pair[0].pin, pair[0].driver)):
        row = [_place(kinds, answer) for _, answer in group]
        runs = [number for place, same in groupby(row) for number in (place, len(list(same)))]
        grid.setdefault(pin, []).append(_place(rows, tuple(runs)))
    records: dict[Picked, int] = {}
    picks: dict[tuple[int, ...], int] = {}
    lines: dict[str, int] = {}
    numbered = []
    for packages, toolkit, fit, title, reasons in kinds:
        members = tuple(_place(records, package) for package in packages)
        pick = _place(picks, members) if members else -1
        numbered.append([pick, toolkit, fit, _place(lines, title), [_place(lines, line) for line in reasons]])
    texts: dict[str, int] = {}
    # Lines are cut at their stops: many have parts in common.
    parts = [[_place(texts, part) for part in re.split(r"(?<=[.;:,]) ", line)] for line in lines]
    named: dict[str, Collection[Any]] = {
        "records": records,
        "picks": picks,
        "lines": parts,
        "texts": texts,
        "answers": numbered,
        "rows": rows,
    }
    return {**{name: list(values) for name, values in named.items()}, "grid": grid}


def _place(places: dict[T, int], thing: T) -> int:
    """The number of a thing among different ones, in the order in which they came."""
    return places.setdefault(thing, len(places))


@dataclass(frozen=True)
class Work:
    """One package with one Python, on one platform, which is solved at a time."""

    axes: Axes
    channels: tuple[Path | str, ...]  # folders or URLs, the most important first
    package: str
    python: str  # "" leaves it to the solver
    kept: Path | None = None  # keeps the answers between runs; None for a channel behind a URL, which may change

    @property
    def size(self) -> int:
        """How many questions it is."""
        return len(self.axes.pins) * len(self.axes.machines)

    @property
    def name(self) -> str:
        """Such as ``linux-64/cuda-core/3.13``, or ``linux-64/cuda-core/any``."""
        return f"{self.axes.subdir}/{self.package}/{self.python or 'any'}"


def plan_work(axes: Axes, channels: Sequence[Path | str], cache: Path) -> list[Work]:
    """The work for one platform."""
    digest, work = _digest(axes, channels), []
    for package, python in product(axes.packages, axes.pythons):
        name = hashlib.sha256(f"{digest}\0{package}\0{python}".encode()).hexdigest()[:32]
        kept = cache / "site" / f"{name}.json" if digest else None
        work.append(Work(axes, tuple(channels), package, python, kept))
    return work


def _digest(axes: Axes, channels: Sequence[Path | str]) -> str:
    """A digest of all that answers depend on: metadata, questions and code; "" with a channel behind a URL."""
    digest = hashlib.sha256(repr((axes.drivers, axes.gpus, axes.pins, axes.impossible)).encode())
    for channel in channels:
        if not isinstance(channel, Path):
            return ""
        for subdir in (axes.subdir, NOARCH):
            with suppress(FileNotFoundError):
                digest.update((channel / subdir / "repodata.json").read_bytes())
            digest.update(f"\0{channel.name}/{subdir}\0".encode())
    digest.update(installed_version("py-rattler").encode())
    for module in CODE:
        place = Path(__file__).parents[1] / module
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def solved(
    work: Sequence[Work], jobs: int, advance: Callable[[float, str], None]
) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    """Does the work in any order in so many processes, and yields each piece with its `packed` answers.

    `advance` is told how many questions have been answered, and about what.
    """
    waiting = []
    for piece in work:
        kept: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # not there, or cut short
            if piece.kept:
                kept = json.loads(piece.kept.read_text(encoding="ascii"))
        if not kept:
            waiting.append(piece)
        else:
            advance(piece.size, f"{piece.name}, as before")
            yield piece, kept
    if jobs == 1 or len(waiting) < 2:
        for piece in waiting:
            yield piece, solve_one(piece)
            advance(piece.size, piece.name)
    else:
        yield from _in_processes(waiting, jobs, advance)


def _in_processes(
    work: Sequence[Work], jobs: int, advance: Callable[[float, str], None]
) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    # Spawned: rattler has threads, which a fork would lose.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(work)), spawn, end_with, (os.getpid(),)) as pool:
        with starting():
            futures = {pool.submit(solve_one, piece): piece for piece in work}
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
    catalogue = GroupedCatalogue(work.channels, work.axes.subdir, [work.package, *ALWAYS])
    text = json.dumps(packed(answers(catalogue, work.axes, work.package, work.python)), separators=(",", ":"))
    if work.kept:
        with suppress(OSError):  # what cannot be kept is solved again
            work.kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(work.kept, text.encode())
    content: Mapping[str, Any] = json.loads(text)
    return content
