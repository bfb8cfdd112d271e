"""When a publisher uploaded a file, as seconds since 1970 and as locks state it.

Packages carry it as their time, so it is a property of the file alone and never the moment of a build.
"""

from __future__ import annotations

from datetime import UTC, datetime

_FORM = "%Y-%m-%dT%H:%M:%SZ"
EARLIEST = int(datetime(1980, 1, 1, tzinfo=UTC).timestamp())
"""Seconds: the oldest time that a zip can state. Also that of what nobody uploaded, such as this machine's Python."""
LATEST = int(datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp())
"""Seconds: the newest time that a zip can state."""


def seconds(moment: datetime) -> int:
    """Whole seconds since 1970, within what a zip can state; a moment without a time zone is UTC, as PEP 700 says."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return clamped(aware.timestamp())


def clamped(stated: float) -> int:
    """Whole seconds since 1970 within what a zip can state, of a number that may be anything."""
    return int(min(max(stated, EARLIEST), LATEST))


def text(uploaded: int) -> str:
    """As a lock states it: ``2025-08-04T12:34:56Z``."""
    return datetime.fromtimestamp(uploaded, UTC).strftime(_FORM)


def parse(stated: str) -> int:
    """The seconds of a lock's text.

    Raises:
        ValueError: When it has another form, names no moment, or one that no zip can state.
    """
    problem = f"{stated!r} is not a moment in UTC like 2025-08-04T12:34:56Z, from 1980 to 2107"
    try:
        moment = datetime.strptime(stated, _FORM).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(problem) from None
    found = int(moment.timestamp())
    if text(found) != stated or not EARLIEST <= found <= LATEST:  # strptime also takes 2025-8-4T1:2:3Z
        raise ValueError(problem)
    return found
