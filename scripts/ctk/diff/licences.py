"""Changes of licences between two releases: of declarations, and of texts.

Texts are read from the package index.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ctk.core.errors import HashMismatch, IndexUnavailable, NotPublished
from ctk.fetch.fetch import licences
from ctk.index.index import Index
from ctk.lock.model import Component, ReleaseLock


@dataclass(frozen=True)
class LicenceChange:
    """Components whose declared licence or texts changed in the same way."""

    components: tuple[str, ...]
    old: str  # as declared
    new: str
    diff: tuple[str, ...] = ()  # of the texts, line by line; empty if they were not read

    def __str__(self) -> str:
        what = (
            f"{self.old} -> {self.new}"
            if self.old != self.new
            else f"another text, still declared as {self.new}"
        )
        return f"licence of {', '.join(self.components)}: {what}"


def licence_changes(
    old: ReleaseLock, new: ReleaseLock, index: Callable[[], Index] | None = None
) -> tuple[LicenceChange, ...]:
    """The changes of the components that both releases have.

    With an index, also the differences of the texts.
    """
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name, after in new.components.items():
        before = old.components.get(name, after)
        if before.license != after.license or _unseen(before, after):
            alike[before.license, before.license_texts, after.license, after.license_texts].append(
                name
            )
    changes = []
    for names in alike.values():
        before, after = old.components[names[0]], new.components[names[0]]
        diff = tuple(_text_diff(before, after, index)) if index else ()
        changes.append(LicenceChange(tuple(names), before.license, after.license, diff))
    return tuple(changes)


def _unseen(before: Component, after: Component) -> set[str]:
    return set(after.license_texts) - set(before.license_texts)


def _text_diff(before: Component, after: Component, index: Callable[[], Index]) -> Iterator[str]:
    """A unified diff for each new text."""
    unseen, opened = _unseen(before, after), index()
    with opened:
        try:
            new = licences(opened, after) if unseen else {}
            old = licences(opened, before) if unseen else {}
        except (NotPublished, HashMismatch, IndexUnavailable) as error:
            yield f"the texts cannot be shown: {error.cause}"
            return
    for target, (file, licence) in new.items():
        if licence.text in unseen:
            unseen.remove(licence.text)
            # Texts differ by platform: that of the same platform is the most similar.
            name, was = old.get(target) or next(iter(old.values()), ("/dev/null", None))
            lines = was.content.splitlines() if was else []
            yield from difflib.unified_diff(
                lines, licence.content.splitlines(), name, file, lineterm=""
            )
