"""A difference on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ctk.difference import words
from ctk.difference.breaks import Break
from ctk.difference.compare import Difference
from ctk.report import Reporter


def show(difference: Difference, found: Sequence[Break], recipes: words.Recipes, reporter: Reporter) -> None:
    """Prints the summary, the breaks, and two tables for each platform."""
    say = reporter.console.print
    say(words.title(difference), style="bold", markup=False, soft_wrap=True)
    for line in words.summary(difference, found):
        say(f"  {line}", markup=False, soft_wrap=True)
    for entry in found:
        say(f"  gone: {words.break_text(entry)}", style="red", markup=False, soft_wrap=True)
        if entry.names:
            say(f"    {words.first(entry.names)}", markup=False, soft_wrap=True)
    for platform in words.platforms(difference):
        changed = [c for c in difference.changed if c.platform == platform]
        same = [c.name for c in difference.components if c.platform == platform and c.same]
        if changed:
            columns = words.columns(difference)
            rows = [words.cells(change, recipes, columns) for change in changed]
            reporter.table(f"components for {platform}", columns, rows)
        if same:
            say(f"the same files: {', '.join(same)}", markup=False, soft_wrap=True)
        libraries = [(c.name, x.any.path, words.library_text(x)) for c in changed for x in c.libraries]
        if libraries:
            title = f"programs and libraries for {platform} that show something else"
            reporter.table(title, ("component", "file", "what"), libraries)
    if difference.changed and difference.with_binaries:
        say(words.LEGEND, markup=False, soft_wrap=True)
