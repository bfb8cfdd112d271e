"""YAML files whose problems are reported with place and line: hand-kept files, and recipes in other people's packages.

Only plain data is read: no alias, with which a short text could grow to gigabytes or contain itself, and no tag, which
could ask for any object. Length and depth have limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode

from ctk.core.errors import LockError, problems

LARGEST = 1 << 20
"""Characters of a file, at most."""
DEEPEST = 12
"""Mappings and lists inside each other, at most."""
T = TypeVar("T")
Place = tuple[str | int, ...]
"""The keys and indices that lead to an entry."""


class Document:
    """A YAML text as plain data, with its problems and the position of each entry.

    libyaml parses it, ten times as fast as ruamel. ruamel converts scalars, as YAML 1.2 does: ``no`` is text.
    """

    def __init__(self, text: str, deepest: int = DEEPEST) -> None:
        self.problems: list[str] = []
        self.marks: dict[Place, yaml.Mark] = {}
        self.data: Any = None
        self._deepest, self._types = deepest, YAML(typ="safe", pure=True)
        if len(text) > LARGEST:
            self.problems.append(f"line 1: the file has {len(text)} characters, and {LARGEST} are the most")
            return
        try:
            for event in (events := yaml.parse(text, Loader=yaml.CSafeLoader)):
                if isinstance(event, yaml.DocumentStartEvent):
                    if self.marks:
                        _refuse("another document", event)
                    self.data = self._read(next(events), events, ())
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
            self.problems.append(f"line {mark.line + 1 if mark else 1}: not YAML: {reason}")
            self.data = None
            self.marks.clear()

    def line(self, place: Place) -> int:
        """The line of an entry, from 1; of the nearest entry around it if it is missing."""
        while place and place not in self.marks:
            place = place[:-1]
        mark = self.marks.get(place)
        return mark.line + 1 if mark else 1

    def _read(self, event: Any, events: Iterator[Any], place: Place) -> Any:
        """The value that begins with an event."""
        self._check(event, place)
        self.marks.setdefault(place, event.start_mark)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            values: list[Any] = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                values.append(self._read(item, events, (*place, len(values))))
            return values
        mapping: dict[Any, Any] = {}
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarEvent):
                self._check(key, (*place, key.value))
                if key.value in mapping:
                    self.problems.append(f"line {line}: {_place_text((*place, key.value))}: stated twice")
                self.marks[*place, key.value] = key.start_mark
                mapping[key.value] = self._read(next(events), events, (*place, key.value))
            else:
                self.problems.append(f"line {line}: {_place_text(place)}: a key that is no text")
                self._read(key, events, (*place, "[key]"))
                self._read(next(events), events, (*place, "[key]"))
        return mapping

    def _check(self, event: Any, place: Place) -> None:
        """Refuses values that would take more memory than their text."""
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            _refuse("anchors and aliases (& and *) are not read here", event)
        if event.tag is not None:
            _refuse(f"tags are not read here: {event.tag}", event)
        if len(place) >= self._deepest:
            _refuse(f"nested more than {self._deepest} times", event)

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> Any:
        if event.style:  # in quotes, or a block
            return event.value
        event.tag = self._types.resolver.resolve(ScalarNode, event.value, event.implicit)
        if str(event.tag).endswith(":str"):
            return event.value
        try:
            return self._types.constructor.construct_object(ScalarNode(event.tag, event.value), deep=True)
        except (YAMLError, ValueError, OverflowError, IndexError, KeyError) as error:
            reason = getattr(error, "problem", None) or str(error)
            self.problems.append(f"line {event.start_mark.line + 1}: {_place_text(place)}: cannot be read: {reason}")
            return None


def _refuse(problem: str, event: yaml.Event) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read(path: Path) -> str:
    """The text of a file beside the locks; LockError if it is missing or not UTF-8."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST + 1)  # a longer text is refused later
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise LockError(f"{path.name} cannot be read: {reason}", "write the pair with `ctk release add`") from error


def _place_text(place: Place) -> str:
    """The text for a place in messages: ``excluded.cudart.reason``."""
    return ".".join(str(p) for p in place if p != "[key]") or "the file"


def _problem_line(document: Document, error: Any) -> str:
    """An error of pydantic as a line with its place."""
    place = tuple(error["loc"])
    return f"line {document.line(place)}: {_place_text(place)}: {error['msg'].removeprefix('Value error, ')}"


def parse_by_hand(text: str, shape: TypeAdapter[T], file: str, step: str) -> T:
    """The content of a hand-kept file, which may be empty; LockError lists all problems with their lines."""
    document = Document(text)
    wrong = list(document.problems)
    try:
        content = shape.validate_python(document.data if document.data is not None else {})
    except ValidationError as error:
        wrong += [_problem_line(document, e) for e in error.errors()]
    if wrong:
        raise problems(LockError, file, wrong, step)
    return content
