"""JSON that every client reads alike, and what of it is not as expected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_LONGEST = 1000  # characters of a value in a message


def loads(text: bytes) -> Any:
    """What a text of JSON says: UTF-8, no key twice, no number that JSON does not have.

    Raises:
        ValueError, RecursionError: It is something else.
    """
    return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse)


def differences(said: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The keys that two mappings differ in, with what each says; what is wanted to be empty may be missing."""
    for key in sorted(said.keys() | wanted.keys()):
        ours, theirs = _form(said.get(key)), _form(wanted.get(key))
        if ours != theirs or key not in wanted:
            yield key, shown(said.get(key)), shown(wanted.get(key))


def shown(value: Any) -> str:
    """A value for a message."""
    if isinstance(value, list):
        text = f"[{', '.join(map(str, value))}]"
    elif isinstance(value, Mapping):
        text = ", ".join(
            f"{key}: {shown(part) if isinstance(part, list) else repr(part)}" for key, part in value.items()
        )
    else:
        text = "" if value is None else repr(value)
    return f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text or "nothing"


def _form(value: Any) -> str:
    # As text: to Python 1, 1.0 and true are equal, and to clients they are not.
    return "" if value in (None, "", [], {}) else json.dumps(value, sort_keys=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"{twice!r} is in it twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
