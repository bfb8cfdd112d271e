"""A YAML file whose problems are shown with place and line: release locks, and what is kept by hand beside them.

Recipes inside of other people's packages are read with it, too. So only plain data is read: no alias, which a short
text could multiply to gigabytes or tie into a circle, and no tag, which could ask for any object. Text and depth have
limits.
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
"""Characters of a file."""
DEEPEST = 12
"""Mappings and lists inside each other; a lock has six."""
_WORDS = {
    "missing": "missing",
    "unexpected_keyword_argument": "is no field of the file",
    "tuple_type": "Input should be a valid list",
    "dataclass_type": "Input should be a valid mapping",
}
"""pydantic's kinds of errors that speak of Python, as a person who writes YAML would say them."""

T = TypeVar("T")
Place = tuple[str | int, ...]
"""The keys and indices that lead to an entry."""


class Document:
    """A YAML text as plain data, with its problems, and where each entry of it begins.

    libyaml's parser reads it, which is ten times as fast as ruamel's; what a scalar means is YAML 1.2, which is
    ruamel's: ``no`` is text.
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
        """Line of `position`."""
        return self.position(place)[0]

    def position(self, place: Place) -> tuple[int, int]:
        """Line and column of an entry, or of the nearest entry around it when it is missing; 1 is the first."""
        while place and place not in self.marks:
            place = place[:-1]
        mark = self.marks.get(place)
        return (mark.line + 1, mark.column + 1) if mark else (1, 1)

    def _read(self, event: Any, events: Iterator[Any], place: Place) -> Any:
        """The value that an event begins."""
        self._admit(event, place)
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
                self._admit(key, (*place, key.value))
                if key.value in mapping:
                    self.problems.append(f"line {line}: {place_text((*place, key.value))}: stated twice")
                self.marks[*place, key.value] = key.start_mark
                mapping[key.value] = self._read(next(events), events, (*place, key.value))
            else:
                self.problems.append(f"line {line}: {place_text(place)}: a key that is no text")
                self._read(key, events, (*place, "[key]"))
                self._read(next(events), events, (*place, "[key]"))
        return mapping

    def _admit(self, event: Any, place: Place) -> None:
        """Refuses what would need more room than its text."""
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
            self.problems.append(f"line {event.start_mark.line + 1}: {place_text(place)}: cannot be read: {reason}")
            return None


def _refuse(problem: str, event: yaml.Event) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def read(path: Path) -> str:
    """Text of a lock's half; LockError when it is missing or not text."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST + 1)  # a longer one is refused for its length
    except PermissionError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise LockError(f"{path.name} cannot be read: {reason}", "write the pair with `ctk release add`") from error


def place_text(place: Place) -> str:
    """``("components", "cudart", "artefacts", "win-64", "size")`` as a person would say it."""
    if place[:1] == ("components",) and len(place) > 1:
        inner = [str(p) for p in place[2:] if p not in ("artefacts", "[key]")]
        return " ".join([f"component {place[1]}", *([", ".join(inner)] if inner else [])])
    return ".".join(str(p) for p in place if p != "[key]") or "the file"


def problem_line(document: Document, error: Any) -> str:
    """One of pydantic's errors as a line with its place."""
    place = tuple(error["loc"])
    text = error["msg"].removeprefix("Value error, ").replace("Tuple ", "List ")
    text = _WORDS.get(error["type"], text)
    if error["type"] in ("string_type", "int_type", "bool_type"):
        text += f", not {error['input']!r}"
    return f"line {document.line(place)}: {place_text(place)}: {text}"


def parse_by_hand(text: str, shape: TypeAdapter[T], file: str, step: str) -> T:
    """A file that is kept by hand, which may be empty; LockError with every problem of it and its line."""
    document = Document(text)
    wrong = list(document.problems)
    try:
        said = shape.validate_python(document.data if document.data is not None else {})
    except ValidationError as error:
        wrong += [problem_line(document, e) for e in error.errors()]
    if wrong:
        raise problems(LockError, file, wrong, step)
    return said
