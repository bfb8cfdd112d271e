"""Pairs the programs and libraries of two surfaces, and says what changed in each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ctk.diff.surface import Shown, stem

# C++ of either compiler, and what a linker adds to a library.
_INTERNAL = re.compile(r"_Z|\?|(_init|_fini|_end|_edata|__bss_start)$")


@dataclass(frozen=True)
class LibraryChange:
    """A program or library in two releases.

    Attributes:
        old: As it was; None for a new one.
        new: As it is; None for one that is gone.
    """

    old: Shown | None
    new: Shown | None

    @property
    def any(self) -> Shown:
        """The new one, or the last there was."""
        shown = self.new or self.old
        assert shown is not None
        return shown

    @property
    def machines(self) -> tuple[str, str]:
        return (self.old.machine if self.old else "", self.new.machine if self.new else "")

    @property
    def sonames(self) -> tuple[str, str]:
        return (self.old.soname if self.old else "", self.new.soname if self.new else "")

    @property
    def glibc(self) -> tuple[str, str]:
        return (self.old.glibc if self.old else "", self.new.glibc if self.new else "")

    @cached_property
    def removed(self) -> tuple[str, ...]:
        return _less(self.old.exports if self.old else (), self.new.exports if self.new else ())

    @cached_property
    def added(self) -> tuple[str, ...]:
        return _less(self.new.exports if self.new else (), self.old.exports if self.old else ())

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Removed names that programs may call: all but C++ ones that no header names, and the linker's.

        Libraries leak instances of C++ templates, which come and go with the compiler. A C name counts even without a
        header: the headers of an older minor may have named it.
        """
        declared = set(self.old.declared if self.old else ())
        return tuple(name for name in self.removed if name in declared or not _INTERNAL.match(name))

    @cached_property
    def needed_removed(self) -> tuple[str, ...]:
        return _less(self.old.needed if self.old else (), self.new.needed if self.new else ())

    @cached_property
    def needed_added(self) -> tuple[str, ...]:
        return _less(self.new.needed if self.new else (), self.old.needed if self.old else ())

    @property
    def needs_newly(self) -> tuple[str, ...]:
        """What the same program or library did not need before, under any version."""
        before = {stem(name) for name in self.needed_removed}
        return tuple(name for name in self.needed_added if stem(name) not in before) if self.old else ()

    @property
    def is_changed(self) -> bool:
        """Whether what it shows differs; a file that only moved has not changed."""
        lists = (self.removed, self.added, self.needed_removed, self.needed_added)
        differs = any(old != new for old, new in (self.machines, self.sonames, self.glibc))
        return differs or any(lists) or self.old is None or self.new is None


def pair(old: Sequence[Shown], new: Sequence[Shown]) -> tuple[LibraryChange, ...]:
    """Every program and library of either side, by name.

    Two are the same when they have the same path; else the same SONAME, then the same name without its version, where
    only one of each side has it. CUDA 13 moved every file, and a new major renames every library. Of copies under one
    SONAME, those that are left over are no change: the list of files has them.
    """
    rest_old, rest_new = list(old), list(new)
    pairs: list[LibraryChange] = []
    keys: tuple[Callable[[Shown], str], ...] = (
        lambda shown: shown.path,
        lambda shown: f"{shown.machine} {shown.soname}" if shown.soname else "",
        lambda shown: f"{shown.machine} {shown.stem}",
    )
    for key in keys:
        of_old, of_new = _unique(rest_old, key), _unique(rest_new, key)
        matched = of_old.keys() & of_new.keys() - {""}
        pairs += [LibraryChange(of_old[k], of_new[k]) for k in matched]
        rest_old = [shown for shown in rest_old if key(shown) not in matched]
        rest_new = [shown for shown in rest_new if key(shown) not in matched]
    rest_old, rest_new = _no_copies(rest_old, new), _no_copies(rest_new, old)
    pairs += [LibraryChange(shown, None) for shown in rest_old] + [LibraryChange(None, shown) for shown in rest_new]
    return tuple(sorted(pairs, key=lambda change: (change.any.path, change.new is None)))


def _unique(shown: list[Shown], key: Callable[[Shown], str]) -> dict[str, Shown]:
    counts = Counter(key(s) for s in shown)
    return {key(s): s for s in shown if counts[key(s)] == 1}


def _no_copies(shown: Sequence[Shown], others: Iterable[Shown]) -> list[Shown]:
    """Those whose SONAME the other side does not have anyway."""
    known = {(other.machine, other.soname) for other in others if other.soname}
    return [s for s in shown if (s.machine, s.soname) not in known]


def _less(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    without = set(second)
    return tuple(name for name in first if name not in without)
