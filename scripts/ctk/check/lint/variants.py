"""Checks of variants: the half of a release that recipes read, and the matrix that they share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import rattler_build
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ctk.check.lint.check import Mending, VariantCheck
from ctk.check.lint.finding import Problem
from ctk.check.lint.source import SourceFile, YamlFile, at_lines, first_difference, listed
from ctk.lock.lock import ReleaseLock, disagreements, variant_keys
from ctk.lock.text import variant_config

if TYPE_CHECKING:
    from ctk.check.lint.tree import Tree


class VariantFile(YamlFile):
    """A file of variants; `release` is that of the lock beside it, None for the matrix and without a valid lock."""

    def __init__(self, path: Path, name: str, release: ReleaseLock | None = None) -> None:
        super().__init__(path, name)
        self.release = release

    @cached_property
    def refused(self) -> str:
        """Why rattler-build cannot read the file; "" when it can."""
        try:
            rattler_build.VariantConfig.from_file(self.path)
        except Exception as error:  # whatever its parser says
            return " ".join(str(error).split())[:300]
        return ""


class VariantsCanBeRead(VariantCheck):
    """rattler-build reads the file as what it calls variants: keys with lists of values."""

    fix = "write each key as a list of values in quotes"

    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        if not file.unreadable and (why := file.refused):
            yield file.line_problem(1, f"rattler-build does not read it: {why}")


class VariantsAgreeWithTheLock(VariantCheck):
    """What recipes read of a release is what its lock says: the same keys, the same versions, the same facts."""

    fix = "ctk lint --fix --write, which writes it as the lock says"

    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        if file.release is not None:
            found = disagreements(file.text, variant_keys(file.release))
            yield from at_lines(file, [p for p in found if p not in file.broken])


class VariantsAreCanonical(VariantCheck, Mending):
    """The half of a release that recipes read is written as the tool writes it, byte for byte."""

    fix = "ctk lint --fix --write"

    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        if file.release is not None and file.text != variant_config(file.release):
            yield first_difference(file, variant_config(file.release))

    def mend(self, file: SourceFile) -> str:
        return variant_config(file.release) if isinstance(file, VariantFile) and file.release else file.text


class ValuesAreQuoted(VariantCheck, Mending):
    """A value of a variant file is text to every reader. Unquoted, 3.10 is the number 3.1, and conda-build's reader
    (YAML 1.1) takes on, yes and 12:30 for something else as well.
    """

    fix = "put it in quotes: ctk lint --fix --write"

    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        for place, node in file.scalars.items():
            if place[:1] != ("zip_keys",) and node.style is None and not _is_text(node.value):
                yield file.problem(place, f"{'.'.join(map(str, place[:-1]))}: {node.value} is not read as text")

    def mend(self, file: SourceFile) -> str:
        lines = list(file.lines)
        # From the end, so that the columns of what comes before stay right.
        for place, node in reversed(list(file.scalars.items())) if isinstance(file, VariantFile) else ():
            if place[:1] != ("zip_keys",) and node.style is None and not _is_text(node.value):
                row, start, end = node.start_mark.line, node.start_mark.column, node.end_mark.column
                lines[row] = f'{lines[row][:start]}"{node.value}"{lines[row][end:]}'
        return "\n".join(lines)


class ZipKeysFit(VariantCheck):
    """What zip_keys ties together is there, has as many values each, and is no more than three keys: a longer list of
    rows that belong together by their order cannot be reviewed.
    """

    fix = "give each of the keys as many values, or take it out of the group"

    def check(self, file: VariantFile, tree: Tree) -> Iterator[Problem]:
        for i, group in enumerate(listed(file.top.get("zip_keys"))):
            place = ("zip_keys", i)
            keys = [str(key) for key in listed(group)]
            lengths = {key: len(listed(file.top[key])) for key in keys if key in file.top}
            for key in (key for key in keys if key not in lengths):
                yield file.problem(place, f"{key} is tied to others and has no values")
            if len(set(lengths.values())) > 1:
                said = ", ".join(f"{key} has {n}" for key, n in lengths.items())
                yield file.problem(place, f"values that belong together differ in number: {said}")
            if len(keys) > 3:
                yield file.problem(place, f"{len(keys)} keys are tied together")


@lru_cache(maxsize=4096)
def _is_text(value: str) -> bool:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    try:
        return isinstance(yaml.load(value), str)
    except (YAMLError, ValueError, AttributeError, IndexError):
        return False
