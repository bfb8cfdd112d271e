"""A file solved for a machine: whole if the channels have all that it names, else its CUDA part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ctk.core.errors import BadValue
from ctk.core.platforms import NOARCH
from ctk.envfile.built import as_if_built, built_for
from ctk.envfile.model import Line, Tool
from ctk.envfile.row import Row
from ctk.package.records import spec_name
from ctk.solve.advice import asking_for_cuda, checkout_of, planned_of
from ctk.solve.solve import ASKING, PYTHON, Catalogue, Pick, Scenario, parse_spec


class Part(StrEnum):
    """What of a file was solved."""

    WHOLE = "whole"  # all that it wants from conda
    CUDA = "cuda"  # its lines about CUDA, and its Python


@dataclass(frozen=True)
class Solved:
    """The pick for a file.

    Attributes:
        part: What of the file it is for.
        scenario: The request and the machine.
        pick: The packages; None without a solution.
        missing: The packages that the file names and no channel has, in its order.
        catalogue: The channels: those that were asked, or with all that can be built here.
        without: The specs of Python that its CUDA part cannot have here.
    """

    part: Part
    scenario: Scenario
    pick: Pick | None
    missing: tuple[str, ...]
    catalogue: Catalogue
    without: tuple[str, ...] = ()

    @property
    def is_planned(self) -> bool:
        """Whether the pick has packages that are to be built yet, or no solution without them."""
        return checkout_of(self.catalogue).is_planned


def solve_lines(
    lines: Sequence[Line], rows: Sequence[Row], catalogue: Catalogue, machine: Scenario
) -> Solved:
    """Solves the lines of an environment for a machine, with the answers in the place of lines.

    What is not built is taken as it would be.

    Args:
        lines: The lines of the environment.
        rows: The answers to those about CUDA, from the same channels.
        catalogue: The channels.
        machine: The machine; its specs are not looked at.
    """
    solved = _solved(lines, rows, built_for(rows, catalogue), machine)
    if not solved.without or solved.pick is None or planned_of(catalogue) is None:
        return solved
    names = [spec_name(spec) for row in rows for spec in row.asked]
    for_python = _solved(lines, rows, as_if_built(catalogue, names), machine)
    return solved if for_python.without else for_python


def _solved(
    lines: Sequence[Line], rows: Iterable[Row], catalogue: Catalogue, machine: Scenario
) -> Solved:
    answered = {row.line: row for row in rows}
    fitting = [line for line in lines if line.is_for(catalogue.subdir)]
    rest = [line for line in fitting if line not in answered and line.tool is Tool.CONDA]
    there = catalogue.names([catalogue.subdir, NOARCH])
    missing = tuple(line.name for line in rest if line.name not in there or not _is_spec(line))
    cuda = [spec for line in fitting if line in answered for spec in answered[line].asked]
    if not cuda:
        return Solved(Part.CUDA, replace(machine, specs=()), None, missing, catalogue)
    if not missing:
        whole: list[str] = []
        for line in fitting:
            if line in answered:
                whole += answered[line].asked
            elif line.tool is Tool.CONDA:
                whole.append(line.spec)
        scenario = _asking(machine, whole, catalogue)
        if pick := catalogue.pick(scenario):
            return Solved(Part.WHOLE, scenario, pick, (), catalogue)
    scenario = _asking(machine, cuda, catalogue)
    without: list[str] = []
    for python in (line.spec for line in rest if line.name in PYTHON and line.name in there):
        with_python = replace(scenario, specs=(*scenario.specs, python))
        if catalogue.solves(with_python):
            scenario = with_python
        else:
            without.append(python)
    pick = catalogue.pick(scenario)
    return Solved(Part.CUDA, scenario, pick, missing, catalogue, tuple(without))


def _asking(machine: Scenario, specs: Iterable[str], catalogue: Catalogue) -> Scenario:
    """The machine with a request, which asks for CUDA builds where there is a driver."""
    scenario = replace(machine, specs=_without_repeats(specs))
    is_asking = any(spec_name(spec) in ASKING for spec in scenario.specs)
    if not machine.driver or is_asking:
        return scenario
    asking = asking_for_cuda(scenario, catalogue)
    return asking if catalogue.solves(asking) else scenario


def _without_repeats(specs: Iterable[str]) -> tuple[str, ...]:
    """Specs once each, and no bare name beside a spec that pins it."""
    every = list(dict.fromkeys(specs))
    pinned = {parse_spec(spec).name for spec in every if parse_spec(spec).pinned}
    return tuple(spec for spec in every if spec not in pinned)


def _is_spec(line: Line) -> bool:
    """Whether conda can read what a line asks for."""
    try:
        parse_spec(line.spec)
    except BadValue:
        return False
    return True
