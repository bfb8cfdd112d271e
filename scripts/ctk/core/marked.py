"""Tables in pages of the docs, each between two comments, written by a command and checked by its ``--check-table``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.errors import OutOfDate

Render = Callable[[str], str]
"""The Markdown of a table in one of its forms."""


@dataclass(frozen=True)
class Marked:
    """The tables that one command writes.

    Attributes:
        what: ``table of drivers and GPUs``.
        command: What writes them.
        pages: Page -> the form of its table.
        truth: What a right table says, for messages: ``what a solver picks now``.
    """

    what: str
    command: str
    pages: Mapping[str, str]
    truth: str

    def update(self, page: str, render: Render) -> str:
        """The text of a page with new tables; a page without the comments stays as it is."""
        return self._pattern.sub(lambda m: f"{m['begin']}\n{render(m['form'])}\n{m['end']}", page)

    def stale(self, workspace: Workspace, render: Render) -> dict[Path, str]:
        """The pages whose table is out of date, with their new text.

        Raises:
            OutOfDate: A page is missing, or has lost its comments.
        """
        found = {}
        for name, form in self.pages.items():
            path = workspace.root / name
            try:
                text = path.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise OutOfDate(
                    f"there is no {name}, which has the {self.what}", f"get it back: git checkout {name}"
                ) from None
            if not self._pattern.search(text):
                raise OutOfDate(
                    f"{name} has no place for the {self.what}",
                    f"put it between the lines <!-- {form} table, written by `{self.command}` --> "
                    "and <!-- end of the table -->",
                )
            if (new := self.update(text, render)) != text:
                found[path] = new
        return found

    def check(self, workspace: Workspace, render: Render) -> None:
        """Raises `OutOfDate` that names each page whose table should be another."""
        if pages := self.stale(workspace, render):
            names = " and ".join(path.relative_to(workspace.root).as_posix() for path in pages)
            raise OutOfDate(f"the {self.what} in {names} is not {self.truth}", f"run `{self.command}`")

    def write(self, workspace: Workspace, render: Render) -> tuple[Path, ...]:
        """Writes the tables anew; the pages that changed."""
        pages = self.stale(workspace, render)
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8", newline="\n")
        return tuple(pages)

    @property
    def _pattern(self) -> re.Pattern[str]:
        forms = "|".join(sorted(set(self.pages.values())))
        return re.compile(
            rf"(?P<begin><!-- (?P<form>{forms}) table, written by `[^`]*` -->\n)"
            r".*?(?P<end>^<!-- end of the table -->$)",
            re.S | re.M,
        )


def markdown(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table, each line with its end."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (columns, ("---",) * len(columns), *rows))
