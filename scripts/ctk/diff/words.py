"""A difference in words: the lines and cells that the table and the Markdown share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctk.core.console import count, megabytes
from ctk.diff.breaks import Break
from ctk.diff.compare import ComponentChange, Difference
from ctk.diff.libraries import LibraryChange
from ctk.package.binaries import version_key

COLUMNS = ("component", "version", "MB", "files", "symbols", "glibc", "recipes")
LEGEND = "MB: download. + new, - gone, > moved, ~ changed. Internal: C++ names that no header has, and the linker's."
FIRST = 12
"""How many names of a list are shown where there is a longer form of it."""

Recipes = Mapping[str, Sequence[str]]
"""Component -> the recipes that use it."""


def title(difference: Difference) -> str:
    kind = "CTK " if difference.minors[1] else ""
    return f"{kind}{difference.old} -> {difference.new}"


def summary(difference: Difference, found: Sequence[Break]) -> Iterator[str]:
    """What matters most, a line each."""
    for platform in platforms(difference):
        here = [c for c in difference.components if c.platform == platform]
        changed = sum(not c.same for c in here)
        size = sizes(sum(c.old.size for c in here), sum(c.new.size for c in here))
        yield f"{platform}: {changed} of {count(len(here), 'component')} changed; download in MB: {size}"
    yield from _facts(difference)
    for text, names in _notices(difference):
        yield f"{text}: {', '.join(names)}"
    if not difference.within_major:
        yield "another CUDA major: whatever is gone may be gone"
    elif found:
        yield f"gone within the major: flagged in {count(len(found), 'place')}"
    elif difference.with_binaries:
        yield "gone within the major: nothing that programs use"
    else:
        yield "the binaries were not read: nothing is known of symbols, SONAMEs and files"


def _facts(difference: Difference) -> Iterator[str]:
    old, new = difference.architectures
    if difference.minors == ("", ""):
        return
    if old is None or new is None:
        yield "GPU architectures and PTX ISA: not measured, see `ctk release measure`"
        return
    changes = [f"+{a}" for a in new if a not in old] + [f"-{a}" for a in old if a not in new]
    yield f"GPU architectures: {' '.join(changes) or f'the same, {new[0]} to {new[-1]}'}"
    first, second = difference.ptx_isa
    yield f"PTX ISA: {first} -> {second}" if first != second else f"PTX ISA: the same, {second}"


def _notices(difference: Difference) -> Iterator[tuple[str, list[str]]]:
    several = len(platforms(difference)) > 1

    def names(chosen: Iterable[tuple[ComponentChange, str]]) -> list[str]:
        return [f"{c.name}{f' ({c.platform})' if several else ''}{text}" for c, text in chosen]

    found: dict[str, list[tuple[ComponentChange, str]]] = {
        "new components": [(c, "") for c in difference.components if c.new.versions and not c.old.versions],
        "components that are gone": [(c, "") for c in difference.components if c.old.versions and not c.new.versions],
        "older than before": [(c, f" {arrow(*_versions(c))}") for c in difference.components if c.is_older],
        "newer glibc needed": [
            (c, f" {arrow(c.old.glibc, c.new.glibc)}")
            for c in difference.components
            if c.old.glibc and version_key(c.new.glibc) > version_key(c.old.glibc)
        ],
    }
    for component in difference.components:
        at = difference.sonames.get(component.platform, frozenset())
        if needs := sorted({name for change in component.libraries for name in change.needs_newly if name in at}):
            found.setdefault("needs other libraries than before", []).append((component, f" {' '.join(needs)}"))
    return ((text, names(chosen)) for text, chosen in found.items() if chosen)


def platforms(difference: Difference) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.platform for c in difference.components))


def columns(difference: Difference) -> tuple[str, ...]:
    """The columns that the table of components has."""
    unknown = () if difference.with_binaries else ("files", "symbols")
    return tuple(column for column in COLUMNS if column not in unknown)


def cells(change: ComponentChange, recipes: Recipes, wanted: Sequence[str] = COLUMNS) -> tuple[str, ...]:
    """One row of the table of components."""
    files = change.files
    counts = {} if files is None else {"+": files.added, "-": files.removed, ">": files.moved, "~": files.changed}
    users = sorted({recipe for name in change.components for recipe in recipes.get(name, ())})
    row = (
        change.name,
        arrow(*_versions(change)),
        sizes(change.old.size, change.new.size),
        _signs({sign: len(paths) for sign, paths in counts.items()}),
        _signs({"+": _total(change.libraries, "added"), "-": _total(change.libraries, "removed")}),
        arrow(change.old.glibc, change.new.glibc),
        ", ".join(users) or "none",
    )
    return tuple(cell for column, cell in zip(COLUMNS, row, strict=True) if column in wanted)


def _versions(change: ComponentChange) -> tuple[str, str]:
    return ", ".join(change.old.versions), ", ".join(change.new.versions)


def _total(libraries: Iterable[LibraryChange], what: str) -> int:
    return sum(len(getattr(library, what)) for library in libraries)


def _signs(counts: Mapping[str, int]) -> str:
    return " ".join(f"{sign}{number}" for sign, number in counts.items() if number)


def arrow(old: str, new: str) -> str:
    """``2.17 -> 2.27``; one of them when they are the same."""
    return new if old == new else f"{old or 'none'} -> {new or 'none'}"


def sizes(old: int, new: int) -> str:
    """Bytes as megabytes, and the change in percent."""
    percent = f" ({(new - old) / old:+.0%})" if old and new and abs(new - old) >= old / 200 else ""
    return arrow(megabytes(old) if old else "", megabytes(new) if new else "") + percent


def library_text(change: LibraryChange) -> str:
    """What changed in one program or library."""
    if change.new is None or change.old is None:
        kind = "gone" if change.new is None else "new"
        exports = len(change.any.exports)
        return f"{kind}, {count(exports, 'symbol')}" if exports else kind
    parts = []
    if change.sonames[0] != change.sonames[1]:
        parts.append(f"SONAME {arrow(*change.sonames)}")
    if change.machines[0] != change.machines[1]:
        parts.append(f"machine {arrow(*change.machines)}")
    if change.added or change.removed:
        signs = _signs({"+": len(change.added), "-": len(change.removed)})
        private = len(change.removed) - len(change.lost)
        inner = f" ({private} internal gone)" if private else ""
        parts.append(f"symbols {signs}{inner}")
    if needs := [f"+{n}" for n in change.needed_added] + [f"-{n}" for n in change.needed_removed]:
        parts.append(f"needs {' '.join(needs)}")
    if change.glibc[0] != change.glibc[1]:
        parts.append(f"glibc {arrow(*change.glibc)}")
    return "; ".join(parts)


def break_text(found: Break) -> str:
    where = f"{found.platform}: " if found.platform else ""
    return f"{where}{found.place}: {found.text}"


def first(names: Sequence[str], number: int = FIRST) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return ", ".join(names[:number]) + more
