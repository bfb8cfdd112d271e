"""What a user types, in parts: clients write these in different ways."""

from __future__ import annotations

from functools import cache

from rattler import MatchSpec
from rattler.exceptions import InvalidMatchSpecError

from ctk.core.errors import BadValue


@cache
def parts(spec: str) -> tuple[str, str, str]:
    """Name, version and build that a spec asks for; "" for any.

    Raises:
        BadValue: It is no spec, or names no package.
    """
    try:
        asked = MatchSpec(spec)
    except InvalidMatchSpecError as error:
        raise BadValue(
            f"{spec!r} cannot be read: {error}", "write it as for conda: name, name=1.2 or name>=1.2"
        ) from None
    version = "" if asked.version is None else str(asked.version)
    return asked.name.normalized, version, "" if asked.build is None else str(asked.build)
