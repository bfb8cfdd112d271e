"""A TOML file as data, with the line of each key: tomlkit reads TOML 1.1, but keeps no places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import tomlkit
from tomlkit.exceptions import KeyAlreadyPresent, ParseError

from ctk.core.errors import FileUnreadable
from ctk.envfile.source import Source

TomlPath = tuple[str | int, ...]
"""Keys from the top of a file; a number is an item of a list."""

_TOKEN = re.compile(
    r'(?P<basic>"""(?:\\.|[^\\])*?"""(?:"{0,2})|"(?:\\.|[^"\\\n])*")'
    r"|(?P<literal>'''.*?'''(?:'{0,2})|'[^'\n]*')"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<sign>[\[\]{}=,.])"
    r"""|(?P<bare>[^\s\[\]{}=,.#"']+)""",
    re.DOTALL,
)


@dataclass
class Span:
    """Where a key and its value are: its line from 1, and the characters from start to end."""

    line: int
    start: int
    end: int


@dataclass
class _Frame:
    """A table or list whose end was not met yet."""

    path: TomlPath
    is_list: bool
    key: list[str] = field(default_factory=list)  # the parts of a dotted key
    key_start: int = 0
    key_line: int = 0
    entry: TomlPath | None = None  # what a value belongs to; None before its `=`
    items: int = 0


class _Scanner:
    """Walks over the tokens of a TOML text that tomlkit has read, so that it has no faults."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: dict[TomlPath, Span] = {}
        self.repeated = 0  # the first line with a key that is there already
        self._stack = [_Frame((), is_list=False)]
        self._tables: dict[TomlPath, int] = {}  # `[[path]]` -> how many there were
        self._line = 1
        self._end = 0  # of the last token of a value
        self._in_header = False

    def scan(self) -> dict[TomlPath, Span]:
        for token in _TOKEN.finditer(self.text):
            kind = token.lastgroup
            if kind == "newline":
                self._end_of_line()
            elif kind == "sign":
                self._sign(token)
            elif kind != "comment":
                self._word(token)
            self._line += token[0].count("\n")
            if kind not in ("newline", "comment"):
                self._end = token.end()
        self._end_of_line()
        return self.spans

    @property
    def _frame(self) -> _Frame:
        return self._stack[-1]

    def _end_of_line(self) -> None:
        if len(self._stack) == 1:
            if self._in_header:
                self._open_table()
            self._end_of_entry()

    def _end_of_entry(self) -> None:
        frame = self._frame
        if frame.entry is not None:
            self.spans[frame.entry].end = self._end
        frame.entry = None
        frame.key = []

    def _open_table(self) -> None:
        """`[a.b]` or `[[a.b]]` has ended: what follows belongs to it."""
        frame = self._frame
        self._in_header = False
        path: TomlPath = ()
        for index, part in enumerate(frame.key, start=1):
            path = (*path, part)
            is_around = index < len(frame.key)
            if is_around and path in self._tables:  # `[a.b]` belongs to the newest `[[a]]`
                path = (*path, self._tables[path] - 1)
        if self.text.startswith("[[", frame.key_start):
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            path = (*path, number)
        for length in range(1, len(path) + 1):  # tables around it may have no header of their own
            span = Span(frame.key_line, frame.key_start, self._end)
            self.spans.setdefault(path[:length], span)
        self._stack[-1] = _Frame(path, is_list=False)

    def _word(self, token: re.Match[str]) -> None:
        frame = self._frame
        if frame.is_list:
            self._start_item(token)
        elif frame.entry is None:
            if not frame.key and not self._in_header:
                frame.key_start = token.start()
                frame.key_line = self._line
            frame.key.append(_key_of(token))

    def _start_item(self, token: re.Match[str]) -> None:
        frame = self._frame
        if frame.entry is None:
            frame.entry = (*frame.path, frame.items)
            self.spans[frame.entry] = Span(self._line, token.start(), token.end())

    def _sign(self, token: re.Match[str]) -> None:
        frame = self._frame
        sign = token[0]
        at_top = len(self._stack) == 1 and frame.entry is None
        if at_top and sign == "[":
            if not self._in_header:
                self._in_header = True
                frame.key_start = token.start()
                frame.key_line = self._line
        elif self._in_header:
            return
        elif sign == "=" and frame.entry is None and not frame.is_list:
            frame.entry = (*frame.path, *frame.key)
            span = Span(frame.key_line, frame.key_start, token.end())
            for length in range(1, len(frame.key)):  # `a.b = 1` is the first that is said of a
                self.spans.setdefault((*frame.path, *frame.key[:length]), span)
            if frame.entry in self.spans and not self.repeated:
                self.repeated = frame.key_line
            self.spans[frame.entry] = span
        elif sign in "[{":
            if frame.is_list:
                self._start_item(token)
            self._stack.append(_Frame(frame.entry or frame.path, is_list=sign == "["))
        elif sign == ",":
            self._end_of_entry()
            frame.items += 1
        elif sign in "]}" and len(self._stack) > 1:
            self._end_of_entry()
            self._stack.pop()


def _key_of(token: re.Match[str]) -> str:
    if token.lastgroup == "basic":
        return str(tomlkit.value(token[0]))
    return token[0].strip("'")


def spans_of(text: str) -> dict[TomlPath, Span]:
    """Where each key of a TOML text is, and each item of a list, by its path.

    The text must be one that tomlkit reads. A key of a dotted name has its line too, and a table
    that of its first header.
    """
    return _Scanner(text).scan()


def _repeated_line(text: str) -> int:
    """The line of a key that is there twice; 0 if it is not found."""
    scanner = _Scanner(text)
    with suppress(Exception):  # behind it, the text may have any faults
        scanner.scan()
    return scanner.repeated


@dataclass(frozen=True)
class Toml:
    """A TOML file: its data, and where it says them."""

    source: Source
    data: Mapping[str, Any]
    spans: Mapping[TomlPath, Span]

    def line(self, path: TomlPath) -> int:
        """The line of a key, or of the nearest table around it; 1 if there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.spans:
                return self.spans[path[:length]].line
        return 1

    def words(self, path: TomlPath) -> str:
        """What the file says of a key, ``cuda-nvcc = "*"``, on one line."""
        span = self.spans.get(path)
        if span is None:
            return str(path[-1])
        return " ".join(self.source.text[span.start : span.end].split())

    def get(self, path: TomlPath) -> Any:
        """The value at a path; None where there is none."""
        value: Any = self.data
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def table(self, path: TomlPath) -> dict[str, Any]:
        """The table at a path; {} where there is none. FileUnreadable if it is not a table."""
        value = self.get(path)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(path, "a table")
        return value

    def items(self, path: TomlPath) -> list[Any]:
        """The list at a path; [] where there is none. FileUnreadable if it is not a list."""
        value = self.get(path)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(path, "a list")
        return value

    def texts(self, path: TomlPath) -> list[str]:
        """The list of texts at a path; [] where there is none. FileUnreadable if it is none."""
        value = self.items(path)
        if not all(isinstance(item, str) for item in value):
            raise self.error(path, "a list of texts")
        return value

    def error(self, path: TomlPath, wanted: str) -> FileUnreadable:
        """The error about a value of another type."""
        key = ".".join(map(str, path))
        return self.source.error(self.line(path), f"`{key}` is not {wanted}", f"write {wanted}")


def read_toml(source: Source) -> Toml:
    """A TOML file, also of TOML 1.1.

    Raises:
        FileUnreadable: It is none.
    """
    text = source.text
    try:
        data = tomlkit.parse(text).unwrap()
    except KeyAlreadyPresent as error:  # the only error of tomlkit that has no line
        reason = f"it is not valid TOML: {error}"
        raise source.error(_repeated_line(text), reason) from None
    except ParseError as error:
        reason = re.sub(r" at line \d+ col \d+$", "", str(error))
        if repr("\0") in reason:  # tomlkit's end of the text
            reason = "a bracket or quote is not closed"
        raise source.error(error.line, f"it is not valid TOML: {reason}") from None
    except Exception as error:  # tomlkit lets errors of Python out of texts with several faults
        reason = f"it is not valid TOML: {type(error).__name__}: {error}"
        raise source.error(0, reason, "correct it; `taplo check` names each fault") from None
    return Toml(source, data, spans_of(text))
