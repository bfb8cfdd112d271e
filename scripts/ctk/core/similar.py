"""Names that somebody may have meant who typed another one: what asks "did you mean" asks here.

`site/assets/names.js` has the same rule for the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST = 3
"""Names that are proposed; a beginning or a part that many more names have says nothing."""
_BEGINNING = 3  # letters that a name may be told by
_PART = 4  # the same, inside a name
_ANY_ORDER, _BEGINS, _HAS = 0, 100, 101  # how far a name is; numbers of typing mistakes are between


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most three names that a person may have meant, the nearest first.

    They have the same words, differ in a letter of each four, begin with the typed name, or have it
    as a word or a longer part. A number is near those of its major, the newest first.
    """
    typed, valid = name.lower(), sorted(set(known))
    if re.fullmatch(r"[\d.]+", typed):
        return _of_major(typed, valid)
    found: dict[int, list[str]] = {}
    for other in valid:
        far = _far(typed, other.lower())
        if far is not None:
            found.setdefault(far, []).append(other)
    if _ANY_ORDER in found:
        return found[_ANY_ORDER][:MOST]
    telling = [far for far in sorted(found) if far < _BEGINS or len(found[far]) <= 2 * MOST]
    return [other for far in telling for other in found[far]][:MOST]


def _of_major(number: str, valid: Sequence[str]) -> list[str]:
    major = number.partition(".")[0]
    same = [other for other in valid if re.fullmatch(rf"{major}(\.\d+)*t?", other)]
    newest_first = sorted(same, key=lambda other: [*map(int, re.findall(r"\d+", other))])[::-1]
    return newest_first[:MOST]


def _far(typed: str, other: str) -> int | None:
    """How far a name is from the typed one; None if nobody would mean it."""
    if not typed:
        return None
    words, typed_words = re.split("[-_.]", other), re.split("[-_.]", typed)
    if sorted(words) == sorted(typed_words) or "".join(words) == "".join(typed_words):
        return _ANY_ORDER
    # A first word that both have says nothing: cuda-gdb is not like cuda-gpu.
    first = f"{typed_words[0]}-"
    is_family = typed.startswith(first) and other.startswith(first)
    skipped = len(first) if is_family else 0
    mistakes = _mistakes(typed[skipped:], other[skipped:])
    if mistakes is not None:
        return mistakes
    if len(typed) >= _BEGINNING and other.startswith(typed):
        return _BEGINS
    is_part = typed in words or (len(typed) >= _PART and typed in other)
    return _HAS if is_part else None


def _mistakes(one: str, other: str) -> int | None:
    """The typing mistakes between two names; None for more than one of each four letters."""
    most = max(1, len(one) // 4)
    if len(one) < _BEGINNING or abs(len(one) - len(other)) > most:
        return None
    found = _distance(one, other)
    return found if found <= most else None


def _distance(one: str, other: str) -> int:
    """The letters to change, add, drop or swap with the next one to make one word of another."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for line, letter in enumerate(one, 1):
        row = [line]
        for place, wanted in enumerate(other, 1):
            changed = above[place - 1] + (letter != wanted)
            steps = [changed, above[place] + 1, row[place - 1] + 1]
            if line > 1 and place > 1 and (one[line - 2], letter) == (wanted, other[place - 2]):
                steps.append(before[place - 2] + 1)
            row.append(min(steps))
        before, above = above, row
    return above[-1]
