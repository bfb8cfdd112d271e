"""The answers of the install selector: what a solver picks for every question, and why, as `ctk solve --explain` says.

Nothing is left for a browser to work out: it looks an answer up by the values that were chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from rattler import RepoDataRecord

from ctk.site.alike import AlikeCatalogue, Unasked
from ctk.site.axes import Axes, Question, pin_specs
from ctk.solve.catalogue import ANY_DRIVER
from ctk.solve.machine import python_specs
from ctk.solve.solve import Scenario, channel_name
from ctk.solve.why import explain, find_reason, toolkit_in_words


@dataclass(frozen=True)
class Package:
    """One package of a pick.

    Attributes:
        name, version, build: As in the channel.
        size: Bytes to download; 0 where the package is not built yet.
        channel: The last part of the channel's address.
    """

    name: str
    version: str
    build: str
    size: int
    channel: str


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Attributes:
        packages: What would be installed, by name; none where the request has no solution.
        toolkit: The CTK minor, or "".
        fit: ``native``, ``compat`` or "".
        title: ``toolkit 13.0, native: ...``, or why there is no solution.
        reasons: A line for each toolkit that was passed over and for the one that was picked, as ``--explain`` prints
            them; what to do about it where there is no solution.
    """

    packages: tuple[Package, ...]
    toolkit: str
    fit: str
    title: str
    reasons: tuple[str, ...]


def answers(catalogue: AlikeCatalogue, axes: Axes, package: str, python: str) -> Iterator[tuple[Question, Answer]]:
    """Every answer about one package with one Python, in the order of the axes.

    Works in rounds: what no round before could foresee is gathered, and solved together.

    Args:
        catalogue: The channels, for the axes' platform.
        axes: What is asked.
        package: About which package.
        python: With which Python; "" leaves it to the solver.

    Raises:
        Unsolvable: A channel cannot be read.
    """
    catalogue.ask(_foreseen(catalogue, axes, package, python))
    found: dict[Question, Answer] = {}
    questions = waiting = list(axes.questions(package, python))
    while waiting:
        unasked: list[Scenario] = []
        catalogue.only_known = True
        for question in waiting:
            try:
                found[question] = answer(catalogue, question.scenario(axes.subdir))
            except Unasked as missing:
                unasked.append(missing.scenario)
        catalogue.only_known = False
        catalogue.ask(unasked)
        waiting = [question for question in waiting if question not in found]
    yield from ((question, found[question]) for question in questions)


def answer(catalogue: AlikeCatalogue, scenario: Scenario) -> Answer:
    """The answer to one request for one machine."""
    pick = catalogue.pick(scenario)
    if pick is None:
        cause = find_reason(scenario, catalogue)
        return Answer((), "", "", cause.sentence, (cause.step,))
    reasons = tuple(explain(pick, catalogue))
    return Answer(_packages(pick.records), pick.toolkit, pick.fit, toolkit_in_words(pick, catalogue), reasons)


@lru_cache(maxsize=4096)
def _packages(records: tuple[RepoDataRecord, ...]) -> tuple[Package, ...]:
    """The packages of a pick; the same object for the machines that have one pick."""
    return tuple(
        Package(r.name.normalized, str(r.version), str(r.build), r.size or 0, channel_name(str(r.channel)))
        for r in records
    )


def _foreseen(catalogue: AlikeCatalogue, axes: Axes, package: str, python: str) -> Iterator[Scenario]:
    """The solves that the answers for one Python will need, nearly all of them, so that they can be done together."""
    bare = (package, *(python_specs(python) if python else ()))
    pinned = [spec for toolkit in catalogue.toolkits for spec in pin_specs(toolkit.version)]
    for driver, arch in (*axes.machines, (ANY_DRIVER, None)):
        machine = Scenario((), axes.subdir, driver, arch)
        for pin in axes.pins:
            yield replace(machine, specs=Question(package, driver, arch, python, pin).specs)
        for spec in pinned:
            yield replace(machine, specs=(*bare, spec))
            yield replace(machine, specs=(*bare, f"{spec}=native_*"))
