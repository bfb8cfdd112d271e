"""The page of picks: which toolkit a driver and a GPU get, as a solver answers from the channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from packaging.version import Version

from ctk.core.errors import CtkError
from ctk.site.content import Site
from ctk.site.page import Page, render
from ctk.verify import channels
from ctk.verify.table import REQUEST, Answers, ask, merged

SHADES = 6  # of each CUDA major in the style sheet
_NOTHING = "-"  # as `ctk.verify.table` writes it


class Cell(NamedTuple):
    """The toolkit of one driver and GPU.

    Attributes:
        text: ``13.0``, or ``none`` where nothing can be installed.
        shade: Class of the style sheet: a letter for the CUDA major, a number that grows with the minor.
        compat: Whether it is the build for what the driver cannot do natively.
    """

    text: str
    shade: str
    compat: bool


class HeatMap(NamedTuple):
    """The answers for one platform, ready to be drawn.

    Attributes:
        gpus: Headings of the columns.
        rows: Heading and cells of each driver.
        heads, lines: The table that says the same in words.
        toolkits: Those of the cells, each once, oldest first.
    """

    platform: str
    gpus: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    toolkits: Sequence[Cell]


def pages(site: Site) -> Iterator[Page]:
    """The page, with a sentence instead of a picture where the solver cannot be asked."""
    maps: tuple[HeatMap, ...] = ()
    problem = ""
    if site.platforms and any(lock.facts for lock in site.releases):  # the facts say which GPUs there are
        try:
            maps = tuple(heat_maps(site))
        except CtkError as error:
            problem = f"{error.cause}. {error.step}".strip()
    yield render(
        site,
        "picks.html",
        "picks.html",
        title="Which toolkit a machine gets",
        description=f"What a solver picks for {REQUEST}, for every driver and every GPU.",
        request=REQUEST,
        maps=maps,
        problem=problem,
    )


def heat_maps(site: Site) -> Iterator[HeatMap]:
    """One for each platform of the channel. Some hundred solves each, which take a second or two.

    Raises:
        Unsolvable: The channel's index cannot be read by a solver.
    """
    with TemporaryDirectory(prefix="ctk-site-") as folder:
        solved = channels.write(channels.built(site.channel), Path(folder))
        for subdir in site.platforms:
            yield heat_map(subdir, ask(solved.folders, site.releases, subdir))


def heat_map(platform: str, answers: Answers) -> HeatMap:
    """The answers as cells with a shade for each toolkit."""
    toolkits = sorted({cell.partition(" ")[0] for cell in answers.cells.values()} - {_NOTHING}, key=Version)
    shades = _shades(toolkits)

    def cell(text: str) -> Cell:
        toolkit, _, fit = text.partition(" ")
        return Cell("none" if toolkit == _NOTHING else toolkit, shades.get(toolkit, "nothing"), fit == "compat")

    heads = {driver: driver or "no driver" for driver in answers.drivers}
    heads[answers.drivers[-1]] += " or newer"
    rows = [(heads[d], [cell(answers.cells[d, g]) for g in answers.gpus]) for d in answers.drivers]
    *known, _newer, _unknown = answers.gpus
    return HeatMap(platform, [*map(str, known), "newer", "unseen"], rows, *merged(answers), [*map(cell, toolkits)])


def _shades(toolkits: Sequence[str]) -> dict[str, str]:
    """Toolkit -> class: the majors take turns with two colours, the minors go from light to strong."""
    shades: dict[str, str] = {}
    majors = groupby(toolkits, key=lambda toolkit: toolkit.partition(".")[0])
    for letter, (_, group) in zip(cycle("ab"), majors, strict=False):
        minors = list(group)
        steps = max(len(minors) - 1, 1)
        shades |= {t: f"{letter}{1 + round(place * (SHADES - 1) / steps)}" for place, t in enumerate(minors)}
    return shades
