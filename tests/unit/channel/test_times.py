"""The times of publication that a folder has noted are believed only where they are possible."""

from __future__ import annotations

import pytest

from ctk.channel.publish import possible
from ctk.channel.repodata import ChannelIndex, milliseconds

MADE = "2026-03-01T00:00:00+00:00"
NOW = "2026-05-01T00:00:00+00:00"
NAME = "linux-64/one-1.0-h0_0.conda"


@pytest.mark.parametrize(
    ("noted", "believed"),
    [
        (MADE, MADE),
        ("2026-04-01T00:00:00+00:00", "2026-04-01T00:00:00+00:00"),
        (NOW, NOW),
        ("2026-02-28T23:59:59+00:00", NOW),  # before it was made
        ("2026-05-01T00:00:01+00:00", NOW),  # in the future
    ],
)
def test_a_time_is_between_the_making_and_now(noted: str, believed: str) -> None:
    index = ChannelIndex({NAME: {"timestamp": milliseconds(MADE)}})
    assert possible({NAME: noted}, index, NOW) == {NAME: believed}
