"""The page of benchmarks: figures that were measured, with their history as lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctk.site import figures
from ctk.site.content import Site
from ctk.site.figures import Figure
from ctk.site.page import Page, render

WIDTH, HEIGHT, MARGIN = 320, 96, 12  # of a line, and what is free around it


@dataclass(frozen=True)
class Series:
    """The figures of one row on one kind of machine, oldest first.

    Attributes:
        points: Their places in the picture; fewer than two make no line.
    """

    row: str
    unit: str
    machine: str
    figures: tuple[Figure, ...]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> Figure:
        return self.figures[-1]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with what it measured.

    Attributes:
        about: The first paragraph of its own text; "" where it is gone.
    """

    name: str
    about: str
    series: tuple[Series, ...]


def pages(site: Site) -> Iterator[Page]:
    """The page, with a sentence instead of pictures where nothing was recorded."""
    found, wrong = figures.load(site.workspace)
    yield render(
        site,
        "benchmarks.html",
        "benchmarks.html",
        title="Benchmarks",
        description="How long things take, measured and kept over time.",
        benchmarks=[_benchmark(site, name, found) for name in sorted({figure.benchmark for figure in found})],
        wrong=wrong,
        ratio=figures.RATIO,
        width=WIDTH,
        height=HEIGHT,
    )


def _benchmark(site: Site, name: str, found: Sequence[Figure]) -> Benchmark:
    groups: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in found:
        if figure.benchmark == name:
            groups.setdefault((figure.row, figure.unit, figure.machine), []).append(figure)
    ordered = sorted(groups.items(), key=lambda item: item[0][1] != figures.RATIO)  # what is comparable comes first
    series = tuple(Series(*key, tuple(own), line([f.value for f in own])) for key, own in ordered)
    return Benchmark(name, _about(site, name), series)


def _about(site: Site, name: str) -> str:
    try:
        text = (site.workspace.root / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        return " ".join((ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0].split())
    except (OSError, ValueError, SyntaxError):
        return ""


def line(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Places of values in the picture, from left to right; 0 is at its foot, unless a value is below."""
    low, high = min(0.0, *values), max(0.0, *values)
    room, across = HEIGHT - 2 * MARGIN, WIDTH - 2 * MARGIN
    step = across / max(len(values) - 1, 1)
    tall = high - low or 1.0
    return tuple((MARGIN + step * n, HEIGHT - MARGIN - room * (v - low) / tall) for n, v in enumerate(values))
