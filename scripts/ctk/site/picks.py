"""The page of picks: which toolkit a driver and a GPU get, as a solver answers from the channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

from ctk.core.errors import CtkError
from ctk.site.content import Site
from ctk.site.page import Page, render
from ctk.verify import channels
from ctk.verify.table import REQUEST, Answers, ask, merged

SHADES = 6  # of each CUDA major in the style sheet
_NOTHING = "-"  # as `ctk.verify.table` writes it


@dataclass(frozen=True)
class Cell:
    """One driver and GPU.

    Attributes:
        text: ``13.0``, or ``none`` where nothing can be installed.
        shade: Class of the style sheet: a letter for the CUDA major, a number that grows with the minor.
        compat: Whether it is the build for what the driver cannot do natively.
    """

    text: str
    shade: str
    compat: bool


@dataclass(frozen=True)
class HeatMap:
    """The answers for one platform, ready to be drawn.

    Attributes:
        platform: The subdir.
        gpus: Headings of the columns.
        rows: Heading and cells of each driver.
        heads: Headings of the table that says the same in words.
        lines: Its rows.
        toolkits: What the cells say, each once, oldest first.
    """

    platform: str
    gpus: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    heads: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    toolkits: tuple[Cell, ...]


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

    *known, _newer, _unknown = answers.gpus
    rows = tuple((_driver(d, answers), tuple(cell(answers.cells[d, g]) for g in answers.gpus)) for d in answers.drivers)
    heads, lines = merged(answers)
    gpus = (*(str(gpu) for gpu in known), "newer", "unseen")
    return HeatMap(platform, gpus, rows, heads, lines, tuple(cell(toolkit) for toolkit in toolkits))


def _driver(driver: str | None, answers: Answers) -> str:
    if driver is None:
        return "no driver"
    return f"{driver} or newer" if driver == answers.drivers[-1] else driver


def _shades(toolkits: Sequence[str]) -> dict[str, str]:
    """Toolkit -> class: the majors take turns with two colours, the minors go from light to strong."""
    majors: dict[str, list[str]] = {}
    for toolkit in toolkits:
        majors.setdefault(toolkit.partition(".")[0], []).append(toolkit)
    found = {}
    for number, minors in enumerate(majors.values()):
        steps = max(len(minors) - 1, 1)
        for place, toolkit in enumerate(minors):
            found[toolkit] = f"{'ab'[number % 2]}{1 + round(place * (SHADES - 1) / steps)}"
    return found
