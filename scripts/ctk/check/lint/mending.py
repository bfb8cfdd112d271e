"""What `ctk lint --fix` writes: the texts of files without the problems that need no thought."""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ctk.check.lint.check import FileCheck, Mending, RecipeCheck, VariantCheck, YamlCheck
from ctk.check.lint.checks import by_name
from ctk.check.lint.locks import LockFile
from ctk.check.lint.recipe import RecipeFile
from ctk.check.lint.source import SourceFile, YamlFile
from ctk.check.lint.tree import Tree
from ctk.check.lint.variants import VariantFile


@dataclass(frozen=True)
class Mended:
    """A file that would be written.

    Attributes:
        path: The file.
        name: How it is shown.
        before: Its text.
        after: Its new text.
    """

    path: Path
    name: str
    before: str
    after: str

    def diff(self) -> str:
        """What changes, as a unified diff."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        shown = difflib.unified_diff(before, after, fromfile=f"a/{self.name}", tofile=f"b/{self.name}")
        # A last line without an end is followed by nothing: the next file's diff would be on the same line.
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in shown)

    def write(self) -> None:
        """Replaces the file as a whole."""
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        new.write_text(self.after, encoding="utf-8", newline="\n")
        new.chmod(self.path.stat().st_mode)
        new.replace(self.path)


def mended(tree: Tree, checks: Sequence[str], paths: Sequence[Path]) -> list[Mended]:
    """The files that the checks can mend, with all that they mend in them.

    Args:
        tree: The files.
        checks: Names of the checks; all of them for none.
        paths: Files and folders to mend; everything for none.
    """
    found = []
    real = [path.resolve() for path in paths]
    for file in tree.files:
        if file.unreadable or (paths and not any(file.path.resolve().is_relative_to(path) for path in real)):
            continue
        now = file
        for kind in by_name(checks):
            check = kind()
            if isinstance(check, Mending) and _is_for(check, now):
                now = _with(now, check.mend(now))
        if now.text != file.text:
            found.append(Mended(file.path, file.name, file.text, now.text))
    return found


def _is_for(check: object, file: SourceFile) -> bool:
    match check:
        case FileCheck():
            return True
        case YamlCheck():
            return isinstance(file, YamlFile)
        case RecipeCheck():
            return isinstance(file, RecipeFile) and file.home in check.homes
        case VariantCheck():
            return isinstance(file, VariantFile)
    return isinstance(file, LockFile)


def _with(file: SourceFile, text: str) -> SourceFile:
    """A file as it would be with another text."""
    if text == file.text:
        return file
    new = copy.copy(file)
    for name in list(vars(new)):
        if isinstance(getattr(type(new), name, None), cached_property):
            del vars(new)[name]
    new.text = text
    return new
