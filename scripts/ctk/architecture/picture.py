"""The picture as SVG: a box for each station, an arrow for each import that does not follow from others.

Arrows go the way of the data, from what is imported to what imports it, always downwards. Nothing but shape and text
says anything: colours follow the reader's light or dark setting and can all be the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from ctk.architecture.stations import Station

# All in pixels.
_BOX, _TALL = 168, 54
_ACROSS, _DOWN = 214, 104
_MARGIN, _BAND = 24, 62
_LANE = 11  # between two arrows that pass through the same gap
_HEAD = 7

_STYLE = """
  svg { color-scheme: light dark; }
  .paper { fill: #ffffff; }
  .box { fill: #f4f6f8; stroke: #57606a; stroke-width: 1; }
  .step { stroke: #1f2328; stroke-width: 2.5; }
  .band { fill: none; stroke: #57606a; stroke-dasharray: 5 4; }
  .arrow { fill: none; stroke: #57606a; stroke-width: 1.4; }
  .head { fill: #57606a; }
  text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .name { font-size: 15px; font-weight: 600; }
  .does { font-size: 11.5px; }
  .badge { fill: #1f2328; }
  .number { font-size: 12px; font-weight: 700; fill: #ffffff; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    .box { fill: #1b222b; stroke: #9aa4af; }
    .step { stroke: #e6edf3; }
    .band { stroke: #9aa4af; }
    .arrow { stroke: #9aa4af; }
    .head { fill: #9aa4af; }
    text { fill: #e6edf3; }
    .badge { fill: #e6edf3; }
    .number { fill: #0d1117; }
  }
"""


def draw(
    stations: Sequence[Station], arrows: Mapping[str, Sequence[str]], above: Station, below: Station, title: str
) -> str:
    """The SVG, the same for the same stations and arrows.

    Args:
        stations: Boxes.
        arrows: Importer -> what it imports.
        above: A band over them: it imports every station.
        below: A band under them: every station imports it.
        title: What a reader who does not see the picture is told first; the description lists every arrow.
    """
    columns, rows = (1 + max(place) for place in zip(*((s.column, s.row) for s in stations), strict=True))
    width = 2 * _MARGIN + (columns - 1) * _ACROSS + _BOX
    top = _MARGIN + _BAND + 34
    height = top + (rows - 1) * _DOWN + _TALL + 34 + _BAND + _MARGIN
    drawing = _Drawing(stations, top)
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            ' role="img" aria-labelledby="title description">\n',
            f'<title id="title">{escape(title)}</title>\n',
            f'<desc id="description">{escape(_told(stations, arrows))}</desc>\n',
            f'<style>{_STYLE}</style>\n<rect class="paper" width="{width}" height="{height}"/>\n',
            _band(above, _MARGIN, width),
            *drawing.arrows(arrows),
            *(drawing.box(station) for station in stations),
            _band(below, height - _MARGIN - _BAND, width),
            "</svg>\n",
        ]
    )


class _Drawing:
    """Where everything is."""

    def __init__(self, stations: Sequence[Station], top: int) -> None:
        self._by_name = {station.name: station for station in stations}
        self._taken = {(station.row, station.column) for station in stations}
        self._columns = 1 + max(station.column for station in stations)
        self._top = top

    def box(self, station: Station) -> str:
        x, y = self._left(station.column), self._upper(station.row)
        middle = x + _BOX // 2
        step = " step" if station.step else ""
        lines = [f'<g><rect class="box{step}" x="{x}" y="{y}" width="{_BOX}" height="{_TALL}" rx="6"/>']
        if station.step:
            lines.append(f'<circle class="badge" cx="{x}" cy="{y}" r="11"/>')
            lines.append(f'<text class="number" x="{x}" y="{y + 4}" text-anchor="middle">{station.step}</text>')
        lines.append(f'<text class="name" x="{middle}" y="{y + 23}" text-anchor="middle">{escape(station.name)}</text>')
        lines.append(
            f'<text class="does" x="{middle}" y="{y + 42}" text-anchor="middle">{escape(station.does)}</text></g>'
        )
        return "\n".join(lines) + "\n"

    def arrows(self, given: Mapping[str, Sequence[str]]) -> list[str]:
        pairs = sorted((other, name) for name, others in given.items() for other in others)
        ways = {pair: self._way(*pair) for pair in pairs}
        ends = self._ports(pairs, ways)
        lanes = self._lanes(ways)
        return [
            self._curve([ends[pair][0], *((lanes[pair, row], row) for row, _ in ways[pair]), ends[pair][1]], pair)
            for pair in pairs
        ]

    def _way(self, start: str, end: str) -> list[tuple[int, float]]:
        """The rows between two boxes, and where an arrow passes each: through what is free."""
        one, other = self._by_name[start], self._by_name[end]
        found: list[tuple[int, float]] = []
        for row in range(one.row + 1, other.row):
            straight = one.column + (other.column - one.column) * (row - one.row) / (other.row - one.row)
            last = found[-1][1] if found else straight
            free = [c + half for c in range(self._columns) for half in (0, 0.5) if half or (row, c) not in self._taken]
            free = [place for place in free if place < self._columns - 0.5]
            found.append((row, min(free, key=lambda p: (abs(p - straight) + abs(p - last), p))))
        return found

    def _ports(
        self, pairs: Sequence[tuple[str, str]], ways: Mapping[tuple[str, str], Sequence[tuple[int, float]]]
    ) -> dict[tuple[str, str], tuple[tuple[float, int], tuple[float, int]]]:
        """Where each arrow leaves its box and reaches the other: side by side, in the order of where they come from."""
        leaving, arriving = defaultdict(list), defaultdict(list)
        for pair in pairs:
            start, end = (self._by_name[name] for name in pair)
            way = ways[pair]
            leaving[pair[0]].append((way[0][1] if way else end.column, pair))
            arriving[pair[1]].append((way[-1][1] if way else start.column, pair))
        out, into = self._spread(leaving), self._spread(arriving)
        return {
            pair: ((out[pair], self._by_name[pair[0]].row), (into[pair], self._by_name[pair[1]].row)) for pair in pairs
        }

    def _spread(self, ends: Mapping[str, list[tuple[float, tuple[str, str]]]]) -> dict[tuple[str, str], float]:
        found = {}
        for name, some in ends.items():
            step = min(28.0, (_BOX - 40) / max(1, len(some) - 1))
            middle = self._left(self._by_name[name].column) + _BOX / 2
            for place, (_, pair) in enumerate(sorted(some)):
                found[pair] = middle + (place - (len(some) - 1) / 2) * step
        return found

    def _lanes(
        self, ways: Mapping[tuple[str, str], Sequence[tuple[int, float]]]
    ) -> dict[tuple[tuple[str, str], int], float]:
        """Arrows that pass a row at the same place, side by side."""
        together = defaultdict(list)
        for pair, way in ways.items():
            for row, place in way:
                together[row, place].append(pair)
        return {
            (pair, row): self._left(0) + _BOX / 2 + column * _ACROSS + (place - (len(pairs) - 1) / 2) * _LANE
            for (row, column), pairs in together.items()
            for place, pair in enumerate(sorted(pairs, key=lambda p: (self._by_name[p[1]].column, p)))
        }

    def _curve(self, points: Sequence[tuple[float, int]], pair: tuple[str, str]) -> str:
        """Down through every row between; `points` are x and row."""
        x, row = points[0]
        y = self._upper(row) + _TALL
        path = [f"M{x:g} {y}"]
        for (x, _), (to, row) in pairwise(points):
            is_last = row == points[-1][1]
            end = self._upper(row) - (_HEAD if is_last else 0)
            half = (y + end) / 2
            path.append(f"C{x:g} {half:g} {to:g} {half:g} {to:g} {end:g}")
            y = self._upper(row) + _TALL
            if not is_last:
                path.append(f"V{y}")
        tip = self._upper(row)
        head = f"M{to:g} {tip}l-{_HEAD / 2:g} -{_HEAD}h{_HEAD}z"
        label = escape(f"{pair[0]} to {pair[1]}")
        return (
            f'<g><title>{label}</title><path class="arrow" d="{" ".join(path)}"/><path class="head" d="{head}"/></g>\n'
        )

    def _left(self, column: int) -> int:
        return _MARGIN + column * _ACROSS

    def _upper(self, row: int) -> int:
        return self._top + row * _DOWN


def _band(station: Station, y: int, width: int) -> str:
    middle = width // 2
    return (
        f'<g><rect class="band" x="{_MARGIN}" y="{y}" width="{width - 2 * _MARGIN}" height="{_BAND}" rx="6"/>\n'
        f'<text class="name" x="{middle}" y="{y + 26}" text-anchor="middle">{escape(station.name)}</text>\n'
        f'<text class="does" x="{middle}" y="{y + 46}" text-anchor="middle">{escape(station.does)}</text></g>\n'
    )


def _told(stations: Sequence[Station], arrows: Mapping[str, Sequence[str]]) -> str:
    """The picture in words."""
    said = []
    for station in stations:
        after = f", after {' and '.join(arrows[station.name])}" if arrows.get(station.name) else ""
        said.append(f"{station.name}{f' (step {station.step})' if station.step else ''}: {station.does}{after}.")
    return " ".join(said)
