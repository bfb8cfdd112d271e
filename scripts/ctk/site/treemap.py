"""Sizes as rectangles that fill a larger one, each as near to a square as can be.

The squarified layout of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rectangle:
    """A rectangle, its corner nearest to the origin first."""

    x: float
    y: float
    width: float
    height: float

    @property
    def area(self) -> float:
        return self.width * self.height


def squarify(sizes: Sequence[float], whole: Rectangle) -> list[Rectangle]:
    """One rectangle for each size, in the same order, of an area in proportion; together they are the whole.

    Args:
        sizes: Above 0, the largest first; none less than a billionth of another, for floats cannot draw that.
        whole: What they fill.
    """
    if any(size <= 0 for size in sizes) or list(sizes) != sorted(sizes, reverse=True):
        raise ValueError("sizes must be above 0, the largest first")
    found: list[Rectangle] = []
    left, sizes = whole, list(sizes)
    while sizes:
        # Each time anew, of what is really left: rounding never adds up to a step outside.
        rest = [size * left.area / sum(sizes) for size in sizes]
        side = min(left.width, left.height)
        taken = 1
        while taken < len(rest) and _worst(rest[: taken + 1], side) <= _worst(rest[:taken], side):
            taken += 1
        strip, left = _split(rest[:taken], left)
        found += strip
        sizes = sizes[taken:]
    return found


def _worst(areas: Sequence[float], side: float) -> float:
    """How far the least square one of a strip is from a square: its longer side by its shorter one."""
    depth = sum(areas) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in areas)


def _split(areas: Sequence[float], room: Rectangle) -> tuple[list[Rectangle], Rectangle]:
    """A strip along the shorter side of the room, and what is left of the room."""
    strip, place = [], 0.0
    if room.width >= room.height:
        depth = sum(areas) / room.height
        for area in areas:
            strip.append(Rectangle(room.x, room.y + place, depth, area / depth))
            place += area / depth
        return strip, Rectangle(room.x + depth, room.y, room.width - depth, room.height)
    depth = sum(areas) / room.width
    for area in areas:
        strip.append(Rectangle(room.x + place, room.y, area / depth, depth))
        place += area / depth
    return strip, Rectangle(room.x, room.y + depth, room.width, room.height - depth)
