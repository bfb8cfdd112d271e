"""A YAML file whose problems are shown with place and line: release locks, and what is kept by hand beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ctk.errors import LockError


class Document:
    """A YAML text as plain data, with the line of every entry and the keys that occur twice."""

    def __init__(self, text: str) -> None:
        self.problems: list[str] = []
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.data: Any = None
        yaml = YAML(typ="safe", pure=True)
        try:
            node = yaml.compose(text)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            self.problems.append(f"line {mark.line + 1 if mark else 1}: not YAML: {getattr(error, 'problem', error)}")
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
                key = key_node.value if isinstance(key_node, ScalarNode) else str(key_node.value)
                line = key_node.start_mark.line + 1
                if key in mapping:
                    self.problems.append(f"line {line}: {place_text((*place, key))}: stated twice")
                self.lines[(*place, key)] = line
                mapping[key] = self._plain(value_node, (*place, key))
            return mapping
        return self._constructor.construct_object(node, deep=True)


def read(path: Path) -> str:
    """Text of a lock's half.

    Raises:
        LockError: When it is missing or not text.
    """
    try:
        return path.read_text(encoding="utf-8")
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
    text = error["msg"].removeprefix("Value error, ")
    text = {"missing": "missing", "extra_forbidden": "is no field of the file"}.get(error["type"], text)
    if error["type"] in ("string_type", "int_type", "bool_type"):
        text += f", not {error['input']!r}"
    return f"line {document.line(place)}: {place_text(place)}: {text}"
