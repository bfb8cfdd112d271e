"""A YAML file whose problems are shown with place and line: release locks, and what is kept by hand beside them.

Only plain data is read: no alias, which a short text could multiply to gigabytes or tie into a circle, and no tag,
which could ask for any object. Text, depth and numbers have limits: a file that lies costs no more than an honest one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, MappingEndEvent, SequenceEndEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ctk.core.errors import LockError

LARGEST = 1 << 20
"""Characters of a file; the largest lock has 23,000."""
ENTRIES = 50_000
"""Scalars, mappings and lists of a file; the largest lock has 1,240."""
DEEPEST = 12
"""Mappings and lists inside each other; a lock has six."""
_LONGEST_NUMBER = 40  # characters of what could be a number or a date
_WORDS = {
    "missing": "missing",
    "unexpected_keyword_argument": "is no field of the file",
    "tuple_type": "Input should be a valid list",
    "dataclass_type": "Input should be a valid mapping",
}
"""pydantic's kinds of errors that speak of Python, as a person who writes YAML would say them."""


class PlainComposer(Composer):
    """Builds nodes of data that needs no more room than its text."""

    deepest = DEEPEST
    depth = entries = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ComposerError(None, None, "anchors and aliases (& and *) are not read here", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise ComposerError(None, None, f"tags are not read here: {event.tag}", event.start_mark)
        if self.depth == self.deepest and not isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            raise ComposerError(None, None, f"nested more than {self.deepest} times", event.start_mark)
        self.entries += 1
        if self.entries > ENTRIES:
            raise ComposerError(None, None, f"more than {ENTRIES} entries", event.start_mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


class Document:
    """A YAML text as plain data, with the line of every entry and the keys that occur twice."""

    composer = PlainComposer

    def __init__(self, text: str) -> None:
        self.problems: list[str] = []
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.data: Any = None
        if len(text) > LARGEST:
            self.problems.append(f"line 1: the file has {len(text)} characters, and {LARGEST} are the most")
            return
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = self.composer
        try:
            node = yaml.compose(text)
        except (YAMLError, AssertionError, ValueError, IndexError, AttributeError) as error:
            # Not only YAMLError: ruamel asserts what a directive says.
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
            self.problems.append(f"line {mark.line + 1 if mark else 1}: not YAML: {reason}")
            return
        self._constructor = yaml.constructor
        self.data = self._plain(node, ()) if node is not None else None

    def line(self, place: tuple[str | int, ...]) -> int:
        """Line of an entry, or of the nearest entry around it when it is missing; 1 is the first."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def _plain(self, node: Node, place: tuple[str | int, ...]) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, SequenceNode):
            return [self._plain(item, (*place, i)) for i, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            mapping: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, ScalarNode):
                    self.problems.append(f"line {line}: {place_text(place)}: a key that is no text")
                    continue
                key = key_node.value
                if key in mapping:
                    self.problems.append(f"line {line}: {place_text((*place, key))}: stated twice")
                self.lines[(*place, key)] = line
                mapping[key] = self._plain(value_node, (*place, key))
            return mapping
        return self._scalar(node, place)

    def _scalar(self, node: Node, place: tuple[str | int, ...]) -> Any:
        if str(node.tag).endswith(":str"):
            return node.value
        try:
            if len(node.value) > _LONGEST_NUMBER:
                raise ValueError("too long")
            return self._constructor.construct_object(node, deep=True)
        except (YAMLError, ValueError, OverflowError, IndexError, KeyError) as error:
            reason = getattr(error, "problem", None) or str(error)
            self.problems.append(f"line {node.start_mark.line + 1}: {place_text(place)}: cannot be read: {reason}")
            return None


def read(path: Path) -> str:
    """Text of a lock's half; LockError when it is missing or not text."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST + 1)  # a longer one is refused for its length
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise LockError(f"{path.name} cannot be read: {reason}", "write the pair with `ctk release add`") from error


def place_text(place: tuple[str | int, ...]) -> str:
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
