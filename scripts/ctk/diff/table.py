"""A difference on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ctk.core.console import Reporter
from ctk.diff import words
from ctk.diff.breaks import Break
from ctk.diff.compare import Difference


def show(difference: Difference, found: Sequence[Break], recipes: words.Recipes, reporter: Reporter) -> None:
    """Shows the summary, the breaks, and two tables for each platform."""
    say = reporter.line
    say(words.title(difference), "bold")
    for line in words.summary(difference, found):
        say(f"  {line}")
    for entry in found:
        say(f"  gone: {words.break_text(entry)}", "red")
        if entry.names:
            say(f"    {words.first(entry.names)}")
    for platform in words.platforms(difference):
        changed = [c for c in difference.changed if c.platform == platform]
        same = [c.name for c in difference.components if c.platform == platform and c.same]
        if changed:
            columns = words.columns(difference)
            rows = [words.cells(change, recipes, columns) for change in changed]
            reporter.table(f"components for {platform}", columns, rows)
        if same:
            say(f"the same files: {', '.join(same)}")
        libraries = [(c.name, x.any.path, words.library_text(x)) for c in changed for x in c.libraries]
        if libraries:
            title = f"programs and libraries for {platform} that show something else"
            reporter.table(title, ("component", "file", "what"), libraries)
    if difference.changed and difference.with_binaries:
        say(words.LEGEND)


def as_json(difference: Difference, found: Sequence[Break], recipes: words.Recipes) -> dict[str, Any]:
    """The difference for other programs; sizes in bytes, names of files and symbols whole."""
    return {
        "old": difference.old,
        "new": difference.new,
        "within_major": difference.within_major,
        "with_binaries": difference.with_binaries,
        "gpu_architectures": dict(zip(("old", "new"), difference.architectures, strict=True)),
        "ptx_isa": dict(zip(("old", "new"), difference.ptx_isa, strict=True)),
        "components": [
            {
                "components": change.components,
                "platform": change.platform,
                "same": change.same,
                "old": asdict(change.old),
                "new": asdict(change.new),
                "files": asdict(change.files) if change.files else None,
                "libraries": [
                    {"file": x.any.path, "added": x.added, "removed": x.removed, "what": words.library_text(x)}
                    for x in change.libraries
                ],
                "recipes": sorted({recipe for name in change.components for recipe in recipes.get(name, ())}),
            }
            for change in difference.components
        ],
        "gone": [asdict(entry) for entry in found],
    }
