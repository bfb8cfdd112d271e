"""Times of artefacts: whole seconds since 1970 that a zip can state, and their text in locks."""

from __future__ import annotations

from datetime import UTC, datetime

_FORM = "%Y-%m-%dT%H:%M:%SZ"
EARLIEST = int(datetime(1980, 1, 1, tzinfo=UTC).timestamp())
"""Seconds: the oldest time that a zip can state.

Also for files that nobody uploaded, such as this machine's Python.
"""
LATEST = int(datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp())
"""Seconds: the newest time that a zip can state."""


def upload_seconds(moment: datetime) -> int:
    """Whole seconds since 1970 that a zip can state.

    A moment without a time zone is UTC (PEP 700).
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return clamped_time(aware.timestamp())


def clamped_time(stated: float) -> int:
    """The nearest whole seconds since 1970 that a zip can state."""
    return int(min(max(stated, EARLIEST), LATEST))


def time_text(uploaded: int) -> str:
    """The text of a time in locks: ``2025-08-04T12:34:56Z``."""
    return datetime.fromtimestamp(uploaded, UTC).strftime(_FORM)


def parse_time(stated: str) -> int:
    """The seconds of a text of `time_text`; ValueError for another form."""
    # `strptime` takes ten times as long, and `strftime` five: a plan reads thousands of times.
    moment = datetime.fromisoformat(stated)
    if moment.isoformat(timespec="seconds") != stated.removesuffix("Z") + "+00:00":
        raise ValueError(f"time data {stated!r} does not match format {_FORM!r}")
    return int(moment.timestamp())
