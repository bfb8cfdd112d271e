"""The picture of sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctk.site.treemap import Rectangle, squarify

WHOLE = Rectangle(0, 0, 600, 400)
SLACK = 1e-4  # of the picture's units, for sums of floats
SIZES = st.lists(st.floats(1, 1e8), min_size=1, max_size=40).map(lambda sizes: sorted(sizes, reverse=True))


@given(SIZES)
def test_areas_are_in_proportion_and_fill_the_whole(sizes: list[float]) -> None:
    found = squarify(sizes, WHOLE)
    assert [r.area for r in found] == pytest.approx([s * WHOLE.area / sum(sizes) for s in sizes], rel=1e-6)
    assert sum(r.area for r in found) == pytest.approx(WHOLE.area)


@given(SIZES)
def test_no_two_overlap_and_none_is_outside(sizes: list[float]) -> None:
    found = squarify(sizes, WHOLE)
    for number, one in enumerate(found):
        assert one.x >= -SLACK and one.y >= -SLACK
        assert one.x + one.width <= WHOLE.width + SLACK and one.y + one.height <= WHOLE.height + SLACK
        for other in found[number + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            tall = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert wide <= SLACK or tall <= SLACK


def test_equal_sizes_are_near_to_squares() -> None:
    for one in squarify([1.0] * 6, WHOLE):
        assert max(one.width / one.height, one.height / one.width) <= 1.5


def test_sizes_must_be_positive_and_sorted() -> None:
    for sizes in ([0.0], [1.0, 2.0], [-1.0]):
        with pytest.raises(ValueError, match="above 0"):
            squarify(sizes, WHOLE)


def test_nothing_is_no_rectangle() -> None:
    assert squarify([], WHOLE) == []
