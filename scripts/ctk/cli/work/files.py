"""What commands do with files in the place of specs: solve, create an environment, build."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctk.cli.options import Selection
from ctk.cli.work import machines
from ctk.cli.work.files_read import (
    Order,
    Read,
    better_toolkit,
    build_line,
    lacking_python,
    machine_words,
    no_python,
    not_here,
    python_of,
    python_of_none,
    read_all,
)
from ctk.cli.work.files_show import show_elsewhere, show_pick, show_rows
from ctk.cli.work.files_write import write_for_channel
from ctk.cli.work.picks import REASON_LINES, ChannelOptions, reason_for_programs
from ctk.core import console
from ctk.core.checkout import workspace
from ctk.core.console import Reporter, listing
from ctk.core.errors import Unsolvable
from ctk.envfile.model import Tool
from ctk.envfile.row import Answer
from ctk.envfile.solved import Part
from ctk.lock.model import release_locks
from ctk.package.records import spec_name
from ctk.solve.advice import checkout_of
from ctk.solve.solve import ASKING
from ctk.solve.why import solve_or_say_why

_FEW = 5  # names in a sentence


def solve_files(
    paths: Sequence[Path], order: Order, new: Path | None, *, with_reasons: bool
) -> None:
    """Shows what the lines of files are here, and what they give on a machine."""
    lines = None if with_reasons else REASON_LINES
    files: list[dict[str, Any]] = []
    for path in paths:
        with _document_of_file(files):
            report = Reporter()
            read = read_all(path, order, report)
            show_rows(read, report)
            if new is not None:
                write_for_channel(read, order.options, new, report)
            show_pick(read, report, lines)


@contextmanager
def _document_of_file(files: list[dict[str, Any]]) -> Iterator[None]:
    """Moves what is said of a file from the document into an entry of its list of files."""
    document = console.mode().document
    document.clear()
    try:
        yield
    finally:
        files.append(dict(document))
        document.clear()
        document["files"] = files


def solve_fleet_of(path: Path, order: Order, fleet: machines.StatedMachines) -> None:
    """Shows the fewest environments for a fleet that have what a file asks for."""
    report = Reporter()
    read = read_all(path, order, report)
    show_rows(read, report)
    asked = read.solved.scenario.specs
    specs = tuple(spec for spec in asked if spec_name(spec) not in ASKING)
    if read.solved.part is Part.CUDA:
        report.line("the answers are for the packages about CUDA: add the others to each command")
    show_elsewhere(read, report)
    machines.solve_fleet(specs, fleet, order.options)


def create_from(
    path: Path, prefix: Path, order: Order, create: Callable[[list[str]], None]
) -> None:
    """Creates an environment that has what a file asks for of conda.

    Args:
        path: The file.
        prefix: The folder of the new environment, for messages.
        order: Its environment in the file, and the machine.
        create: Creates an environment with specs.

    Raises:
        Unsolvable: The channels lack packages, or have no solution.
    """
    report = Reporter()
    read = read_all(path, order, report)
    show_rows(read, report)
    solved = read.solved
    lacking = [*solved.missing, *not_here(read)]
    if lacking:
        cause = f"no channel has {listing(lacking, most=_FEW)}"
        raise Unsolvable(cause, _step_without_all(read, prefix))
    if solved.pick and solved.part is Part.CUDA:
        raise Unsolvable(_no_whole(read), _step_without_all(read, prefix))
    if solved.is_planned and read.catalogue.channels != solved.catalogue.channels:
        raise Unsolvable(
            f"not all of {path} is built here", f"build it first: `{build_line(read)}`"
        )
    if not solved.scenario.specs:
        raise Unsolvable(f"{path} asks for no package of conda", "name packages of conda in it")
    names = {line.name for line in read.environment.lines}
    added = [spec for spec in solved.scenario.specs if {spec_name(spec)} & {*ASKING} - names]
    if added:
        report.line(f"{listing(added)} is added, which asks for CUDA builds")
    create(list(solved.scenario.specs))
    left = _of_pip(read)
    if left:
        report.result(of_pip=left)
        report.line(f"not installed, as they are for pip: {listing(left, most=_FEW)}")


def _no_whole(read: Read) -> str:
    """That a file has a solution for its lines about CUDA alone, in words."""
    if read.solved.without:
        python = listing(read.solved.without)
        return f"the lines about CUDA of {read.file.path} have no solution with {python} here"
    return f"all lines of {read.file.path} together have no solution here"


def _step_without_all(read: Read, prefix: Path) -> str:
    """What to do about a file of which the channels cannot give all."""
    steps = ["name a base channel that has more with --base"]
    if read.solved.without:
        steps.append("write another Python into the file")
    if read.solved.pick:
        words = ["ctk", "env", "create", *read.solved.scenario.specs, "--prefix", str(prefix)]
        words += machine_words(read)
        steps.append(f"create what is about CUDA alone: `{shlex.join(words)}`")
    return ", or ".join(steps)


def _of_pip(read: Read) -> list[str]:
    """The requirements of a file that pip is to install: no package takes their place."""
    answered = {row.line: row for row in read.rows}
    left = []
    for line in read.environment.lines:
        row = answered.get(line)
        if line.tool is Tool.PIP and (row is None or row.specs is None or row.is_elsewhere):
            left.append(line.text)
    return left


def selection(chosen: Selection, path: Path, base: str) -> Selection:
    """What of a file this checkout makes, as `ctk build` selects it: for --file.

    If the command line names no release, the releases are those that the file pins, or the one that
    the stated machine gets.

    Raises:
        Unsolvable: There is nothing to make.
    """
    report, place = Reporter(), workspace()
    driver, _, gpu = (chosen.drivers or [""])[0].partition(":")
    stated_gpu = gpu or (chosen.gpus or [""])[0]
    platform = chosen.platforms[0] if chosen.platforms else None
    options = ChannelOptions((), base, is_planned=False)
    order = Order(chosen.environment, (platform, driver or None, stated_gpu or None), options)
    read = read_all(path, order, report)
    show_rows(read, report, is_building=True)
    if python := python_of_none(read):
        raise Unsolvable(no_python(python), f"let {path} accept one of these")
    packages = _made_here(read)
    if not packages:
        raise Unsolvable(
            f"no recipe here makes a package that {path} asks for",
            f"see what its lines are: `{shlex.join(['ctk', 'solve', str(path)])}`",
        )
    report.line(f"to build: {listing(packages)}")
    chosen = replace(chosen, packages=packages)
    if lacking_python(read) and not (chosen.pythons or chosen.all_pythons):
        report.line(f"for Python {python_of(read)}, which it asks for")
        chosen = replace(chosen, pythons=[python_of(read)])
    if chosen.releases or chosen.all_releases:
        return chosen
    known = [lock.minor for lock in release_locks(place).values()]
    if pinned := _pinned_releases(read, known):
        report.line(f"for toolkit {listing(pinned)}, which it pins")
        return replace(chosen, releases=pinned, drivers=None, gpus=None)
    solved = read.solved
    with reason_for_programs():
        pick = solved.pick or solve_or_say_why(solved.scenario, solved.catalogue, REASON_LINES)
    toolkit = better_toolkit(read) or pick.toolkit
    # The file may ask for less than the newest toolkit of the machine: `cuda-version=12`.
    is_one_machine = len(chosen.drivers or ()) == 1 and len(chosen.gpus or ()) < 2
    if toolkit and toolkit in known and is_one_machine:
        report.line(f"for toolkit {toolkit}, which this machine gets with it")
        return replace(chosen, releases=[toolkit], drivers=None, gpus=None)
    return chosen


def _made_here(read: Read) -> list[str]:
    """The packages of a file that recipes here make, and that are not of the base channel."""
    maker_of = checkout_of(read.catalogue).maker
    names = [
        spec_name(spec)
        for row in read.rows
        if row.answer not in (Answer.BASE, Answer.HIDDEN)
        for spec in row.asked
    ]
    return list(dict.fromkeys(name for name in names if maker_of(name)))


def _pinned_releases(read: Read, known: Collection[str]) -> list[str]:
    """The releases that a file pins, of those that are locked."""
    pins = [spec for row in read.rows for spec in row.asked if spec_name(spec) == "cuda-version"]
    minors = [minor for pin in pins for minor in re.findall(r"\d+\.\d+", pin)]
    return list(dict.fromkeys(minor for minor in minors if minor in known))
