"""What within a CUDA major breaks programs that were made with the old release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ctk.core.console import count
from ctk.diff.compare import ComponentChange, Difference
from ctk.diff.libraries import LibraryChange

Kind = Literal["symbols", "SONAME", "library", "component", "GPU architectures"]


@dataclass(frozen=True)
class Break:
    """Something that was there for programs and is not any more.

    Attributes:
        platform: The subdir; "" for all of them.
        place: The component, and the library where it is one.
        text: What is gone, in a few words.
        names: Symbols that are gone; first those that a header named.
    """

    kind: Kind
    platform: str
    place: str
    text: str
    names: tuple[str, ...] = ()


def breaks(difference: Difference) -> tuple[Break, ...]:
    """Every break, none between two majors: there everything may change."""
    return tuple(_breaks(difference)) if difference.within_major else ()


def _breaks(difference: Difference) -> Iterator[Break]:
    old, new = difference.architectures
    if gone := [a for a in old or () if new is not None and a not in new]:
        yield Break("GPU architectures", "", "nvrtc", f"no longer for {', '.join(gone)}")
    for component in difference.components:
        if component.old.versions and not component.new.versions:
            yield Break("component", component.platform, component.name, "not published any more")
        for change in component.libraries:
            yield from _of_library(difference, component, change)


def _of_library(difference: Difference, component: ComponentChange, change: LibraryChange) -> Iterator[Break]:
    if change.old is None or not (change.old.soname or change.old.exports):  # new, or a program
        return
    before, after = change.sonames
    where = place(component, change)
    moved = before in difference.sonames.get(component.platform, frozenset())
    if change.new is None:
        own = not change.old.declared and _without_minor(before, difference.minors[0]) != before
        if not moved and not own:
            yield Break("library", component.platform, where, "the library is gone", change.lost)
    elif not follows_minor(before, after, difference.minors):
        if before != after and not moved:
            yield Break("SONAME", component.platform, where, f"is now {after or 'without a SONAME'}")
        if change.lost:
            known = [name for name in change.lost if name in set(change.old.declared)]
            others = [name for name in change.lost if name not in set(known)]
            told = f"{count(len(change.lost), 'symbol')} gone, {len(known) or 'none'} named by a header"
            yield Break("symbols", component.platform, where, told, (*known, *others))


def place(component: ComponentChange, change: LibraryChange) -> str:
    """The component and the library as it was."""
    shown = change.old or change.any
    return f"{component.name}: {shown.soname or shown.name}"


def follows_minor(old: str, new: str, minors: tuple[str, str]) -> bool:
    """Whether a SONAME differs as the minors do: such a library serves its own release alone (nvrtc-builtins)."""
    first, second = (_without_minor(name, minor) for name, minor in zip((old, new), minors, strict=True))
    return old != new and first == second


def _without_minor(name: str, minor: str) -> str:
    if not minor:
        return name
    # As in libnvrtc-builtins.so.13.4, nvrtc-builtins64_134.dll
    forms = "|".join(re.escape(form) for form in (minor, minor.replace(".", "")))
    return re.sub(rf"(?<!\d)({forms})(?!\d)", "*", name)
