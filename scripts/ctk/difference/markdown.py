"""A difference as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ctk.difference import words
from ctk.difference.breaks import Break
from ctk.difference.compare import ComponentChange, Difference

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
        limit: Characters. Folded lists that do not fit are left out, the last first, and a line says how many.
    """
    parts = [f"### {text(words.title(difference))}\n", _bullets(words.summary(difference, found))]
    if found:
        parts.append("#### Gone within the major\n\n" + _bullets(words.break_text(b) for b in found))
        parts += [_details(words.break_text(b), b.names) for b in found if b.names]
    for platform in words.platforms(difference):
        parts += _platform(difference, platform, recipes)
    folded = list(_folded(difference))
    length = sum(len(part) + 1 for part in parts)
    for number, part in enumerate(folded):
        length += len(part) + 1
        if length > limit - 200:
            parts.append(f"{len(folded) - number} more lists do not fit: `ctk release diff` shows them.\n")
            break
        parts.append(part)
    return "\n".join(parts)


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


def _folded(difference: Difference) -> Iterator[str]:
    """Lists that a reader opens: removed names first, for they matter most."""
    places = [(c, x, f"{c.platform}: {c.name}: {x.any.name}") for c in difference.changed for x in c.libraries]
    for _, change, place in places:
        if change.removed:
            yield _details(f"{place}: symbols removed", change.removed)
    for _, change, place in places:
        if change.added:
            yield _details(f"{place}: symbols added", change.added, _ADDED)
    for component in difference.changed:
        yield from _files(component)


def _files(component: ComponentChange) -> Iterator[str]:
    if component.files is None:
        return
    files, place = component.files, f"{component.platform}: {component.name}"
    moved = tuple(f"{old} -> {new}" for old, new in files.moved)
    for what, paths in (("removed", files.removed), ("added", files.added), ("moved", moved)):
        if paths:
            yield _details(f"{place}: files {what}", paths, _FILES)


def _details(title: str, names: Sequence[str], most: int | None = None) -> str:
    shown = [re.sub(r"[\x00-\x1f\x7f]", "?", name) for name in names[:most]]
    more = [f"... and {len(names) - len(shown)} more"] if len(names) > len(shown) else []
    # A name from a file may hold what would end the block.
    longest = max((len(run) for name in shown for run in re.findall(r"`+", name)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join([fence, *shown, *more, fence])
    return f"<details><summary>{_html(f'{title} ({len(names)})')}</summary>\n\n{lines}\n\n</details>\n"


def _html(plain: str) -> str:
    line = re.sub(r"[\x00-\x1f\x7f]", "?", plain)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("_", "&#95;")
