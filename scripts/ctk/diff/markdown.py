"""A difference as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ctk.core.console import count
from ctk.diff import words
from ctk.diff.breaks import Break, place
from ctk.diff.compare import ComponentChange, Difference

LIMIT = 60_000
"""Characters; GitHub refuses a description of more than 65,536."""

_ADDED = 40  # names; what is new breaks nothing
_FILES = 40  # paths of each kind
_SPECIAL = re.compile(r"([\\`*_\[\]<|~&])")


def markdown(difference: Difference, found: Sequence[Break], recipes: words.Recipes, limit: int = LIMIT) -> str:
    """The whole text: summary, breaks, tables, and folded lists of symbols and files.

    Args:
        difference: What changed.
        found: Its breaks.
        recipes: Component -> the recipes that use it.
        limit: Characters. Folded lists for which there is no room are left out, and a line says how many.
    """
    parts = [f"### {text(words.title(difference))}\n", _bullets(words.summary(difference, found))]
    if found:
        parts.append("#### Gone within the major\n\n" + _bullets(words.break_text(b) for b in found))
        named = (b for b in found if b.names)
        parts += [_details(f"{b.platform}: {b.place}: symbols gone ({len(b.names)})", b.names) for b in named]
    for platform in words.platforms(difference):
        parts += _platform(difference, platform, recipes)
    return "\n".join(_fitting([*parts, *_folded(difference, found)], limit))


def _fitting(parts: Sequence[str], limit: int) -> list[str]:
    """The parts without the folded ones for which there is no room."""
    folded = [part.startswith("<details>") for part in parts]
    room = limit - 100 - sum(len(part) + 1 for part, is_folded in zip(parts, folded, strict=True) if not is_folded)
    kept = []
    for part, is_folded in zip(parts, folded, strict=True):
        size = len(part) + 1 if is_folded else 0
        if size <= max(room, 0):
            kept.append(part)
            room -= size
    if len(kept) < len(parts):
        kept.append(f"No room for {count(len(parts) - len(kept), 'more list')}.\n")
    return kept


def text(plain: str) -> str:
    """Plain text as Markdown shows it unchanged, in a table too; code spans of ours stay."""
    line = re.sub(r"[\x00-\x1f\x7f]", "?", plain)
    return "".join(
        part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in re.split(r"(`[^`|\\]*`)", line)
    )


def _bullets(lines: Iterator[str]) -> str:
    return "".join(f"- {text(line)}\n" for line in lines)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return "\n".join([*head, *(f"| {' | '.join(text(cell) for cell in row)} |" for row in rows)]) + "\n"


def _platform(difference: Difference, platform: str, recipes: words.Recipes) -> Iterator[str]:
    changed = [c for c in difference.changed if c.platform == platform]
    same = [c.name for c in difference.components if c.platform == platform and c.same]
    yield f"#### {platform}\n"
    if changed:
        columns = words.columns(difference)
        yield _table(columns, [words.cells(change, recipes, columns) for change in changed])
        if difference.with_binaries:
            yield f"{text(words.LEGEND)}\n"
    if same:
        yield f"The same files: {text(', '.join(same))}\n"
    libraries = [(c.name, x.any.path, words.library_text(x)) for c in changed for x in c.libraries]
    if libraries:
        yield _table(("component", "file", "what"), libraries)


def _folded(difference: Difference, found: Sequence[Break]) -> Iterator[str]:
    """Lists that a reader opens: removed names first, for they matter most. Flagged ones were listed before."""
    flagged = {(b.platform, b.place): set(b.names) for b in found if b.names}
    places = [(c, change) for c in difference.changed for change in c.libraries]
    for component, change in places:
        listed = flagged.get((component.platform, place(component, change)), set())
        others = tuple(name for name in change.removed if name not in listed)
        if others:
            what = "other symbols removed" if listed else "symbols removed"
            yield _details(f"{component.platform}: {place(component, change)}: {what} ({len(others)})", others)
    for component, change in places:
        if change.added:
            title = f"{component.platform}: {component.name}: {change.any.name}: symbols added ({len(change.added)})"
            yield _details(title, change.added, _ADDED)
    for component in difference.changed:
        yield from _files(component)


def _files(component: ComponentChange) -> Iterator[str]:
    if component.files is None:
        return
    files = component.files
    moved = tuple(f"{old} -> {new}" for old, new in files.moved)
    for what, paths in (("removed", files.removed), ("added", files.added), ("moved", moved)):
        if paths:
            yield _details(f"{component.platform}: {component.name}: files {what} ({len(paths)})", paths, _FILES)


def _details(title: str, names: Sequence[str], most: int | None = None) -> str:
    shown = [re.sub(r"[\x00-\x1f\x7f]", "?", name) for name in names[:most]]
    more = [f"... and {len(names) - len(shown)} more"] if len(names) > len(shown) else []
    # A name from a file may hold what would end the block.
    longest = max((len(run) for name in shown for run in re.findall(r"`+", name)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join([fence, *shown, *more, fence])
    return f"<details><summary>{_html(title)}</summary>\n\n{lines}\n\n</details>\n"


def _html(plain: str) -> str:
    line = re.sub(r"[\x00-\x1f\x7f]", "?", plain)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("_", "&#95;")
