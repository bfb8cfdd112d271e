"""The questions of the install selector, and a solver's answer to each.

The answers are those of `ctk solve --explain`.
A solver is asked once for questions that leave it the same candidates, but texts about a pick have
the numbers of the machine. A Python is chosen only for packages that bring one. Answers are solved
on all cores, by package and Python, and packed for the page, which only looks them up. They are
noted by what decides them, for the next site.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import rattler
from pydantic import TypeAdapter
from rattler import RepoDataRecord

from ctk.core.errors import SolverFailed, refuse_unknown_names
from ctk.core.files import file_sha256
from ctk.core.memo import Memo, memo
from ctk.core.platforms import NOARCH
from ctk.core.pool import ProcessPool
from ctk.lock.model import ReleaseLock
from ctk.package.records import REPODATA
from ctk.plan.names import known_substitutes
from ctk.solve.advice import asking_for_cuda
from ctk.solve.candidates import CandidateClasses
from ctk.solve.fit import LimitedBy, fit_of
from ctk.solve.machine import impossible, python_specs
from ctk.solve.solve import (
    ANY_DRIVER,
    ASKS_NATIVE,
    PYTHON,
    Catalogue,
    ChannelToolkit,
    MachineClasses,
    Pick,
    Scenario,
    channel_name,
    parse_spec,
)
from ctk.solve.why import TAKE_NVCC, explain, find_reason, limit_in_words, refused_ptx
from ctk.verify.oracle import version
from ctk.verify.scenarios import Machine, facts, matrix

CUDA = "cuda-version"
ALWAYS = (CUDA, "python", "python_abi")
"""Packages that a pick may contain besides the requested package."""

NOTES = "answers"
"""The folder of a checkout's notes that has those of answers."""

_OLDEST_DRIVER = "1.0"  # older than every driver
# Packages that nobody installs by name: those of a cross-compiler's target, the files that native
# and compat builds share, and those that only have constraints.
_HALVES = re.compile(
    r".*_(?:linux|win)-\w+|.*-files|python_abi|cuda-gpu-builds|cuda-version-native"
)

T = TypeVar("T", bound=Hashable)


class SelectorQuestion(NamedTuple):
    """A combination of the selector's fields; "" leaves the Python or the pin to the solver."""

    package: str
    driver: str | None  # the newest CUDA version that the driver supports, or None without a driver
    arch: str | None  # compute capability, or None where no client detects the GPU
    python: str  # 3.13, 3.14t
    pin: str  # of cuda-version, a major or a minor

    def scenario(self, subdir: str) -> Scenario:
        """The request to a solver, as ``ctk solve PACKAGE cuda-version=PIN --python PYTHON``."""
        specs = (
            self.package,
            *pin_specs(self.pin),
            *(python_specs(self.python) if self.python else ()),
        )
        return Scenario(specs, subdir, self.driver, self.arch)


@dataclass(frozen=True)
class Axes:
    """The values of each field for a platform, oldest first; all their combinations are solved."""

    subdir: str
    # None, then a driver that is too old for every toolkit, then the others.
    drivers: tuple[str | None, ...]
    # None, then compute capabilities; the last is unknown to every toolkit.
    gpus: tuple[str | None, ...]
    pythons: tuple[str, ...]  # "", then the Pythons of the base channel
    pins: tuple[str, ...]  # "", then CUDA majors, then the minors in the channel
    packages: tuple[str, ...]
    of_python: tuple[str, ...] = ()  # packages that bring a Python, so that it can be chosen
    without_cuda: tuple[str, ...] = ()  # packages that are the same on every machine
    older: bool = False  # whether older drivers than the first get the same answers
    newer: bool = False  # whether newer drivers than the last get the same answers
    # The oldest GPU of the newest CUDA major, and the major before, which knows older ones; None if
    # none does.
    floor: tuple[str, str] | None = None
    # Machine that cannot exist -> why.
    impossible: Mapping[Machine, str] = field(default_factory=dict)

    @property
    def machines(self) -> list[Machine]:
        """Each driver with each GPU, and the machine without a driver."""
        return [(driver, gpu) for driver in self.drivers for gpu in self.gpus if driver or not gpu]

    def pythons_of(self, package: str) -> tuple[str, ...]:
        """The Pythons that can be chosen for a package: "" alone if it brings none."""
        return self.pythons if package in self.of_python else ("",)

    def questions(self, package: str, python: str) -> Iterator[SelectorQuestion]:
        """The questions about a package with a Python."""
        for pin, (driver, arch) in product(self.pins, self.machines):
            yield SelectorQuestion(package, driver, arch, python, pin)


def axes(
    catalogue: Catalogue,
    locks: Iterable[ReleaseLock],
    tags: Iterable[str],
    packages: Collection[str] = (),
    pythons: Collection[str] = (),
) -> Axes:
    """The axes for the platform of a catalogue of this channel and its base.

    Args:
        catalogue: The channels.
        locks: Release locks, whose facts have the drivers and GPUs.
        tags: The wheel tags for which packages are built, oldest first.
        packages: Only these packages.
        pythons: Only these Pythons.
    """
    known = matrix(facts(locks), tags, [catalogue.subdir])
    offered = installed_by_name(catalogue)
    refuse_unknown_names("package", packages, offered)
    refuse_unknown_names("Python", pythons, catalogue.pythons)
    names = tuple(name for name in offered if not packages or name in packages)
    minors = sorted((t.version for t in catalogue.toolkits), key=version)
    requested = (*names, *ALWAYS)
    records = catalogue.query([f"{name} *" for name in requested], recursive=True)
    alike, candidates = MachineClasses(records), CandidateClasses(records)
    _, oldest, *_, newest = known.drivers
    machines = product(known.drivers, known.gpus)
    return Axes(
        catalogue.subdir,
        known.drivers,
        known.gpus,
        (
            "",
            *(p for p in known.pythons if p in catalogue.pythons and (not pythons or p in pythons)),
        ),
        ("", *dict.fromkeys(minor.split(".")[0] for minor in minors), *minors),
        names,
        of_python=tuple(name for name in names if candidates.reach([name]) & {*PYTHON}),
        without_cuda=without_cuda(names, catalogue),
        older=alike.is_same_driver(_OLDEST_DRIVER, str(oldest)),
        newer=alike.is_same_driver(str(newest), ANY_DRIVER),
        floor=floor(catalogue.toolkits),
        impossible={machine: why for machine in machines if (why := impossible(*machine))},
    )


def floor(toolkits: Iterable[ChannelToolkit]) -> tuple[str, str] | None:
    """`Axes.floor` of the toolkits of a channel, newest first."""
    oldest: dict[str, str] = {}
    for major, gpu in (
        (toolkit.version.split(".")[0], gpu) for toolkit in toolkits for gpu in toolkit.gpus
    ):
        oldest[major] = min(oldest.get(major, gpu), gpu, key=version)
    newest, *before = oldest.items() or [("", "")]
    return next(
        ((newest[1], major) for major, gpu in before if version(gpu) < version(newest[1])), None
    )


def installed_by_name(catalogue: Catalogue) -> list[str]:
    """The packages of the channel that users install by name."""
    other = "_win-" if catalogue.subdir.startswith("linux") else "_linux-"
    names = [name for name in catalogue.own_names if other not in name]
    return sorted(name for name in names if not is_half(name))


def without_cuda(names: Sequence[str], catalogue: Catalogue) -> tuple[str, ...]:
    """The packages that bring no toolkit on a machine that can do anything.

    So nobody needs to ask for CUDA builds with them. Of a package without a solution, such as one
    that the base channel lacks a part of, what it may need decides.
    """
    asked = {name: Scenario((name,), catalogue.subdir, ANY_DRIVER) for name in names}
    catalogue.ask(asked.values())

    def is_without(name: str) -> bool:
        if pick := catalogue.pick(asked[name]):
            return not pick.toolkit
        records = catalogue.query([f"{name} *"], recursive=True)
        return CUDA not in CandidateClasses(records).reach([name])

    return tuple(name for name in names if is_without(name))


def is_half(name: str) -> bool:
    """Whether a package is only installed as a dependency."""
    return bool(_HALVES.fullmatch(name))


def pin_specs(pin: str) -> tuple[str, ...]:
    """The spec of a pin; () without one."""
    return (f"cuda-version={pin}",) if pin else ()


Picked = tuple[str, str, str, int, str]
"""A package of a pick: name, version, build, download size in bytes (0 if it is not built yet) and
channel.
"""


class SelectorAnswer(NamedTuple):
    """The answer to a question; without packages if there is no solution."""

    packages: tuple[Picked, ...]  # by name
    toolkit: str  # CTK minor, or ""
    fit: str  # native, compat, or ""
    title: str  # ``CUDA 13.0: everything works on this machine``, or the reason without a solution
    reasons: tuple[str, ...]  # as in ``--explain``; the next step without a solution
    lasts: bool = False  # whether the package can be asked for with `ASKS_NATIVE`
    works: bool = False  # whether everything works on the machine, but for `exception`
    nvcc: tuple[str, ...] = ()  # what to ask for where conda-forge's nvcc is the way
    exception: str = ""


Answered = Iterator[tuple[SelectorQuestion, SelectorAnswer]]


def answers(catalogue: Catalogue, axes: Axes, package: str, python: str) -> Answered:
    """The answers about a package with a Python, in the order of the axes."""
    catalogue.ask(_scenarios(catalogue, axes, package, python))
    for question in axes.questions(package, python):
        if why := axes.impossible.get((question.driver, question.arch)):
            yield question, SelectorAnswer((), "", "", why, ())
        else:
            yield question, answer(catalogue, question.scenario(axes.subdir))


def answer(catalogue: Catalogue, scenario: Scenario) -> SelectorAnswer:
    """The answer to a request on a machine."""
    pick = catalogue.pick(scenario)
    if pick is None:
        reason = find_reason(scenario, catalogue)
        # The page makes the command of this step itself.
        steps = () if reason.step == TAKE_NVCC else (reason.step,)
        return SelectorAnswer((), "", "", reason.cause, steps, nvcc=reason.nvcc)
    reasons = tuple(explain(pick, catalogue))
    packages = _packages(pick.records)
    title = headline(pick, catalogue)
    return SelectorAnswer(
        packages,
        pick.toolkit,
        pick.fit,
        title,
        reasons,
        lasts=_can_last(pick, catalogue),
        works=_works(pick),
        exception=refused_ptx(pick.records, scenario.driver),
    )


def _can_last(pick: Pick, catalogue: Catalogue) -> bool:
    """Whether the request has a solution with `ASKS_NATIVE`.

    Beside CUDA builds alone it fits every native pick, so nothing is solved again for that.
    """
    if pick.fit != "native" or not pick.scenario.driver or not catalogue.records(ASKS_NATIVE):
        return False
    if catalogue.cuda_builds.isdisjoint(record.name.normalized for record in pick.records):
        return True
    return ASKS_NATIVE in asking_for_cuda(pick.scenario, catalogue).specs


def headline(pick: Pick, catalogue: Catalogue) -> str:
    """A pick in a sentence without the words native and compat."""
    if not pick.toolkit:
        return "no CUDA toolkit is needed"
    if refused_ptx(pick.records, pick.scenario.driver):
        return f"CUDA {pick.toolkit} works on this machine"
    if _works(pick):
        return f"CUDA {pick.toolkit}: everything works on this machine"
    fit = fit_of(pick, pick.scenario, catalogue.toolkit(pick.toolkit))
    if fit is None or not pick.fit:
        return f"CUDA {pick.toolkit}"
    if fit.limit is LimitedBy.DRIVER:
        return f"CUDA {pick.toolkit}: programs compiled for this GPU work, PTX does not"
    return f"CUDA {pick.toolkit}: {limit_in_words(fit)}"


def _works(pick: Pick) -> bool:
    """Whether everything of a pick works on its machine, but for `refused_ptx`."""
    return not pick.toolkit or pick.fit == "native"


@lru_cache(maxsize=4096)
def _packages(records: tuple[RepoDataRecord, ...]) -> tuple[Picked, ...]:
    """The packages of a pick; the same object for machines with the same pick."""
    return tuple(
        (r.name.normalized, str(r.version), str(r.build), r.size or 0, channel_name(str(r.channel)))
        for r in records
    )


def _scenarios(catalogue: Catalogue, axes: Axes, package: str, python: str) -> Iterator[Scenario]:
    """Nearly all solves that the answers for a Python need, so that they can be solved together."""
    for driver, arch in (
        *(m for m in axes.machines if m not in axes.impossible),
        (ANY_DRIVER, None),
    ):
        for pin in axes.pins:
            yield SelectorQuestion(package, driver, arch, python, pin).scenario(axes.subdir)
        bare = SelectorQuestion(package, driver, arch, python, "").scenario(axes.subdir)
        for toolkit in catalogue.toolkits:
            yield bare.also(f"cuda-version={toolkit.version}")
            yield bare.also(f"cuda-version={toolkit.version}=native_*")


def packed(answered: Answered) -> dict[str, Any]:
    """The answers about a package and Python, in a small form for the page.

    They are in the order of the axes.

    Returns:
        records: [name, version, build, bytes, channel] of each package of any pick
        picks: lists of indexes in `records`
        lines: lists of indexes in `texts`
        texts: parts of sentences, to be joined with spaces
        answers: [pick or -1, toolkit, fit, title, reasons, 1 if it lasts, 1 if everything works,
            what to ask for with conda-forge's nvcc, if that is the way, the exception, if there
            is one]; title and exception are indexes in `lines`, reasons a list of them
        rows: the answers by GPU for a driver and pin: [answer, number of GPUs, answer, number of
            GPUs, ...]
        grid: pin -> the index of the row of each driver
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
    for packages, toolkit, fit, title, reasons, lasts, works, nvcc, exception in kinds:
        members = tuple(_place(records, package) for package in packages)
        pick = _place(picks, members) if members else -1
        said = [_place(lines, line) for line in (title, *reasons)]
        row_of: list[Any] = [pick, toolkit, fit, said[0], said[1:], int(lasts), int(works)]
        if nvcc or exception:
            row_of.append(list(nvcc))
        if exception:
            row_of.append(_place(lines, exception))
        numbered.append(row_of)
    texts: dict[str, int] = {}
    # Lines are split after punctuation, since many have parts in common.
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
    """The index of a value in `places`, where a new value is added."""
    return places.setdefault(thing, len(places))


_PACKED = TypeAdapter(dict[str, Any])


@cache
def _code_digest() -> str:
    """A digest of this tool and of the solver's version: both decide what an answer says."""
    root = Path(__file__).parents[1]
    files = sorted(p for p in root.rglob("*") if p.suffix in (".py", ".yaml"))
    parts = [f"{file.relative_to(root)} {file_sha256(file)}" for file in files]
    return hashlib.sha256("\n".join([*parts, rattler.__version__]).encode()).hexdigest()


def _index_digest(folder: Path, subdir: str) -> list[str]:
    """The place of a channel, which answers name, and the content of its index for a platform."""
    found = [str(folder)]
    for name in (subdir, NOARCH):
        index = folder / name / REPODATA
        found.append(file_sha256(index) if index.exists() else "")
    return found


@dataclass(frozen=True)
class Work:
    """A package with a Python, on a platform: a process solves it as a whole."""

    axes: Axes
    channels: tuple[Path | str, ...]  # folders or URLs, by priority
    package: str
    python: str  # "" leaves it to the solver

    @property
    def size(self) -> int:
        """The number of questions."""
        return len(self.axes.pins) * len(self.axes.machines)

    def note(self, notes: Path) -> Memo[dict[str, Any]] | None:
        """The note of its answers in a folder.

        None where a channel is on a server, which may have another index for each solve.
        """
        folders = [channel for channel in self.channels if isinstance(channel, Path)]
        if len(folders) < len(self.channels):
            return None
        indexes = [_index_digest(folder, self.axes.subdir) for folder in folders]
        key = [_code_digest(), indexes, repr(self.axes), self.package, self.python]
        return memo(notes, key, _PACKED)

    @property
    def name(self) -> str:
        """``linux-64/cuda-core/3.13``, or ``linux-64/cuda-core/any``."""
        return f"{self.axes.subdir}/{self.package}/{self.python or 'any'}"


def plan_work(axes: Axes, channels: Sequence[Path | str]) -> list[Work]:
    """The work for one platform."""
    return [
        Work(axes, tuple(channels), package, python)
        for package in axes.packages
        for python in axes.pythons_of(package)
    ]


def solved(
    work: Sequence[Work], jobs: int, advance: Callable[[float, str], None], notes: Path
) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    """Does the work in `jobs` processes, and yields each piece with its `packed` answers.

    The order is any. `advance` is called with a number of answered questions and their name. What
    has a note in the folder `notes` is not solved again.
    """
    left: list[Work] = []
    for piece in work:
        note = piece.note(notes)
        known = note.read() if note else None
        if known is None:
            left.append(piece)
        else:
            yield piece, known
            advance(piece.size, piece.name)
    for piece, found in _solved_now(left, jobs):
        if note := piece.note(notes):
            note.write(found)
        yield piece, found
        advance(piece.size, piece.name)


def _solved_now(work: Sequence[Work], jobs: int) -> Iterator[tuple[Work, dict[str, Any]]]:
    """Does the work in processes; the order is any."""
    if not work:
        return
    with ProcessPool(max(1, min(jobs, len(work)))) as pool:
        futures = {pool.submit(solve_one, piece): piece for piece in work}
        try:
            for future in as_completed(futures):
                piece = futures[future]
                yield piece, future.result()
        except BaseException as error:
            pool.end()  # interrupted, or one failed: nobody waits for the others
            if isinstance(error, BrokenExecutor):
                raise SolverFailed(
                    "a process that solved was killed; most often memory ran out",
                    "run the command again with --jobs 1",
                ) from None
            raise


def solve_one(work: Work) -> dict[str, Any]:
    """Does a piece of work."""
    instead = " ".join(known_substitutes(work.package)).split()  # that a reason may name
    substitutes = [parse_spec(text).name for text in instead]
    names = [work.package, *ALWAYS, ASKS_NATIVE, *substitutes]
    catalogue = Catalogue(work.channels, work.axes.subdir).grouped(names, CandidateClasses)
    return packed(answers(catalogue, work.axes, work.package, work.python))
