"""A YAML file as a lint reads it: text, plain data, and the line and column of every entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from ctk.check.lint.finding import Problem
from ctk.core.document import LARGEST, Document, PlainComposer

Place = tuple[str | int, ...]
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)


class _Composer(PlainComposer):
    deepest = 30  # a recipe has 14


class _Marked(Document):
    """A document that keeps where each entry begins, and how each scalar is written."""

    composer = _Composer

    def __init__(self, text: str) -> None:
        self.columns: dict[Place, int] = {}
        self.scalars: dict[Place, ScalarNode] = {}
        super().__init__(text)

    def _plain(self, node: Node, place: Place) -> Any:
        self.columns.setdefault(place, node.start_mark.column + 1)
        if isinstance(node, ScalarNode):
            self.scalars[place] = node
        if isinstance(node, MappingNode):
            for key, _ in node.value:
                if isinstance(key, ScalarNode):
                    self.columns[(*place, key.value)] = key.start_mark.column + 1
        return super()._plain(node, place)


class SourceFile:
    """A text file that is linted. One that cannot be read is empty, and `unreadable` says why.

    Args:
        path: The file.
        name: How it is shown.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.unreadable = ""
        self.text = ""
        try:
            with path.open(encoding="utf-8", newline="") as file:
                text = file.read(LARGEST + 1)
        except UnicodeDecodeError:
            self.unreadable = "it is not UTF-8 text"
        except OSError as error:
            self.unreadable = f"it cannot be read: {error.strerror}"
        else:
            # A part of it would be written back as the whole.
            if len(text) > LARGEST:
                self.unreadable = f"it has more than {LARGEST} characters"
            else:
                self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """Without their ends; a problem's line is the index of its line here, plus one."""
        return self.text.split("\n")

    def line_problem(self, line: int, message: str, column: int = 1, fix: str = "") -> Problem:
        """A problem at a line of the text, counted from 1."""
        return Problem(self.name, line, column, message, fix)

    def code(self) -> Iterator[tuple[int, str]]:
        """The lines, numbered from 1, without those that are comments."""
        yield from ((n, line) for n, line in enumerate(self.lines, 1) if not line.lstrip().startswith("#"))


class YamlFile(SourceFile):
    """A YAML file that is linted. Its data is None when the text is not YAML; `broken` says where."""

    @cached_property
    def _document(self) -> _Marked:
        return _Marked(self.text)

    @property
    def broken(self) -> list[str]:
        """What is wrong with the YAML itself, each as ``line 3: ...``."""
        return self._document.problems

    @property
    def data(self) -> Any:
        return self._document.data

    @property
    def top(self) -> Mapping[str, Any]:
        """The data, where it is a mapping; else nothing."""
        return mapping(self.data)

    @property
    def scalars(self) -> Mapping[Place, ScalarNode]:
        """Every value that is no mapping and no list, as it is written."""
        _ = self.data
        return self._document.scalars

    def line(self, place: Place) -> int:
        """The line of an entry, or of the nearest one around it that is there."""
        return self._document.line(place)

    def problem(self, place: Place, message: str, fix: str = "") -> Problem:
        """A problem of an entry, at the entry or at the nearest one around it that is there."""
        while place and place not in self._document.columns:
            place = place[:-1]
        return Problem(self.name, self.line(place), self._document.columns.get(place, 1), message, fix)

    def commented(self, place: Place) -> bool:
        """Whether a comment says something of an entry: on its line, or in the lines right above it."""
        while True:
            line = self.line(place) - 1
            if " #" in self.lines[line] or (line > 0 and self.lines[line - 1].lstrip().startswith("#")):
                return True
            # What depends on a condition is explained above the condition.
            if not any(part in ("then", "else") for part in place[-2:]):
                return False
            place = place[:-1]


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, or nothing where a file has something else than a mapping there."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list as it is, nothing as an empty one, and anything else as a list of it."""
    return value if isinstance(value, list) else [] if value is None else [value]


def text_of(value: Any) -> str:
    """The value, or "" where a file has something else than text there."""
    return value if isinstance(value, str) else ""


def at_lines(file: SourceFile, found: list[str]) -> Iterator[Problem]:
    """Problems that other code wrote as ``line 3: what``."""
    for problem in found:
        match = _LINE.fullmatch(problem)
        yield file.line_problem(int(match[1]) if match else 1, match[2] if match else problem)


def first_difference(file: SourceFile, wanted: str) -> Problem:
    """The first line at which a file is not as the tool would write it."""
    lines = wanted.split("\n")
    for number, line in enumerate(file.lines, 1):
        expected = lines[number - 1] if number <= len(lines) else None
        if line != expected:
            said = (
                f"the tool writes {_cut(expected.strip())}" if expected is not None else "the tool writes nothing here"
            )
            return file.line_problem(number, f"{said}, not {_cut(line.strip())}")
    return file.line_problem(len(file.lines), "lines are missing at the end")


def _cut(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
