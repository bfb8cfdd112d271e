"""An environment.yml after edits: text is changed where a line changes, and nowhere else.

A YAML library that writes a document again changes indentation, quotes and long lines of the whole
of it. So it only says here where each thing stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ctk.core.document import load_yaml
from ctk.core.errors import BadValue
from ctk.envfile.model import EnvironmentFile, Line, Tool
from ctk.envfile.rewrite_edits import (
    Change,
    Edit,
    beside,
    changed,
    end_of_line,
    line_end_of,
    missing_specs,
    name_of_spec,
    start_of_line,
    start_of_next_line,
    without_duplicates,
    yaml_comment_of,
)

NO_DEFAULTS = "nodefaults"
"""What an environment.yml lists as a channel to say that conda's own ones are not wanted."""

_ITEM = "  - "  # of a list that the file does not have yet
_COMMA = re.compile(r"\s*,[ \t]*")
_SELECTOR = re.compile(r"#.*\[[^\[\]]+\]")  # in a comment: ``# [linux64]``


@dataclass(frozen=True)
class _Item:
    """A package in the list of dependencies.

    Attributes:
        number: Its line, from 1.
        start: Where its text begins, with a quote if it has one.
        end: Where it ends.
        entry: Where the entry of the list begins, after the dash; with `sel(linux):` before it.
        value: The text, as YAML reads it.
        tool: Who installs it.
        is_flow: Whether it stands in brackets.
    """

    number: int
    start: int
    end: int
    entry: int
    value: str
    tool: Tool
    is_flow: bool


@dataclass(frozen=True)
class _Pip:
    """The ``pip:`` part of the list of dependencies."""

    start: int  # after its dash
    end: int
    items: tuple[_Item, ...]
    has_more: bool  # an entry without text, or another key in the entry that it is


@dataclass(frozen=True)
class _Document:
    """Where things stand in an environment.yml; its text ends with a line end."""

    text: str
    entries: dict[str, tuple[Node, Node]]  # key -> its key and its value

    @property
    def line_end(self) -> str:
        return line_end_of(self.text)

    def list_of(self, key: str) -> SequenceNode | None:
        entry = self.entries.get(key)
        if entry is None:
            return None
        value = entry[1]
        return value if isinstance(value, SequenceNode) else None

    def is_flow(self, key: str) -> bool:
        node = self.list_of(key)
        return node is not None and bool(node.flow_style)

    def start_of(self, key: str) -> int:
        """Where the line of a key begins: after a byte order mark."""
        start = start_of_line(self.text, self.entries[key][0].start_mark.index)
        return start + 1 if self.text[start] == "\ufeff" else start


def rewritten_environment(
    file: EnvironmentFile, edits: Sequence[Edit], channels: Sequence[str], first: Sequence[str]
) -> str:
    """The text of an environment.yml after edits, as `ctk.envfile.rewrite.rewritten` has it."""
    document = _read(file.text)
    changes = [
        *_changes_of_channels(document, channels),
        *_changes_of_dependencies(document, file.lines, edits, first),
    ]
    text = changed(document.text, changes)
    is_any_left = len(edits) < len(file.lines)
    return text if is_any_left else _with_list(text)


def _read(text: str) -> _Document:
    try:
        root = YAML(typ="safe").compose(text)
    except YAMLError as error:
        raise BadValue(f"the file is not valid YAML: {error}", "correct it by hand first") from None
    pairs = root.value if isinstance(root, MappingNode) else []
    return _Document(text, {key.value: (key, value) for key, value in pairs})


def _with_list(text: str) -> str:
    """A text whose list of dependencies lost all entries, with an empty list."""
    document = _read(text)
    entry = document.entries.get("dependencies")
    if entry is None or not isinstance(entry[1], ScalarNode) or entry[1].value:
        return text
    colon = text.index(":", entry[0].end_mark.index)
    return changed(text, [Change(colon + 1, colon + 1, " []")])


# Channels


def _changes_of_channels(document: _Document, channels: Sequence[str]) -> list[Change]:
    node = document.list_of("channels")
    current = [str(item.value) for item in node.value] if node else []
    wanted = _with_no_defaults(channels, current)
    if wanted == current:
        return []
    if node is None or not node.value:
        return _new_channels(document, wanted)
    if node.flow_style:
        items = ", ".join(written(channel, is_flow=True) for channel in wanted)
        return [Change(node.start_mark.index, node.end_mark.index, f"[{items}]")]
    return [_reordered_channels(document, node, wanted)]


def _with_no_defaults(channels: Sequence[str], current: Sequence[str]) -> list[str]:
    """The channels, with `nodefaults` at the end of the list at which it was."""
    wanted = list(channels)
    if NO_DEFAULTS not in current or NO_DEFAULTS in wanted:
        return wanted
    if current[0] == NO_DEFAULTS:
        return [NO_DEFAULTS, *wanted]
    return [*wanted, NO_DEFAULTS]


def _new_channels(document: _Document, channels: Sequence[str]) -> list[Change]:
    """A list of channels for a file without one, or with an empty one."""
    prefix = _prefix_of(document)
    lines = ["channels:", *(prefix + written(channel) for channel in channels)]
    content = "".join(line + document.line_end for line in lines)
    if entry := document.entries.get("channels"):
        key, value = entry
        last = value if value.value else key  # the end of an empty one is on another line
        end = start_of_next_line(document.text, last.end_mark.index)
        return [Change(document.start_of("channels"), end, content)]
    if entry := document.entries.get("name"):
        position = start_of_next_line(document.text, entry[1].end_mark.index)
    elif "dependencies" in document.entries:
        position = document.start_of("dependencies")
    else:
        position = len(document.text)
    return [Change(position, position, content)]


def _reordered_channels(document: _Document, node: SequenceNode, channels: Sequence[str]) -> Change:
    """The block of a list of channels, in which lines that stay keep their text.

    A comment above a channel moves with it, and to the next one where its channel goes.
    """
    text = document.text
    start = start_of_next_line(text, document.entries["channels"][0].end_mark.index)
    position = start
    blocks: dict[str, str] = {}
    orphans = ""
    for item in node.value:
        end = start_of_next_line(text, item.end_mark.index)
        line_start = start_of_line(text, item.start_mark.index)
        above = text[position:line_start]
        if item.value in channels and item.value not in blocks:
            blocks[item.value] = orphans + text[position:end]
            orphans = ""
        else:
            orphans += above
        position = end
    column = " " * node.start_mark.column
    for channel in channels:
        line = f"{column}- {written(channel)}{document.line_end}"
        blocks.setdefault(channel, line)
    content = "".join(blocks[channel] for channel in channels)
    return Change(start, position, content + orphans)


# Dependencies


def _changes_of_dependencies(
    document: _Document, lines: Sequence[Line], edits: Sequence[Edit], first: Sequence[str]
) -> list[Change]:
    items = list(_items(document))
    pips = list(_pips(document))
    every = list(items)
    for pip in pips:
        every += pip.items
    final = without_duplicates(lines, edits)
    edit_of = {_item_of(every, edit.line): edit for edit in final}
    changes = _first_changes(document, items, lines, final, first)
    if document.is_flow("dependencies"):
        changes += _comments_above(document, final)
    for item, edit in edit_of.items():
        if item.tool is Tool.CONDA:
            changes += _item_changes(document, item, edit.specs, edit.comment)
    for pip in pips:
        changes += _pip_changes(document, pip, items, edit_of)
    return changes


def _items(document: _Document) -> Iterator[_Item]:
    """The dependencies of conda, in the order of the file."""
    is_flow = document.is_flow("dependencies")
    for entry in _entries(document):
        if isinstance(entry, MappingNode):
            # micromamba's ``- sel(linux): package``
            scalars = [value for key, value in entry.value if key.value != "pip"]
        else:
            scalars = [entry]
        for scalar in scalars:
            if isinstance(scalar, ScalarNode):
                start = entry.start_mark.index
                yield _item(document.text, scalar, start, Tool.CONDA, is_flow)


def _entries(document: _Document) -> Sequence[Node]:
    node = document.list_of("dependencies")
    return node.value if node else ()


def _pips(document: _Document) -> Iterator[_Pip]:
    """The ``pip:`` parts; a file has one or none."""
    for entry in _entries(document):
        if not isinstance(entry, MappingNode):
            continue
        for key, value in entry.value:
            if key.value == "pip":
                yield _pip(document, entry, value)


def _pip(document: _Document, entry: MappingNode, value: Node) -> _Pip:
    nodes = [value]
    is_block = False
    if isinstance(value, SequenceNode):
        nodes = value.value
        is_block = not value.flow_style
    scalars = [node for node in nodes if node.value]
    is_flow = document.is_flow("dependencies")
    # ``pip: [torch]``, or ``pip: torch``, within a list that has a line for each entry
    is_inline = is_flow or not is_block
    items = tuple(
        _item(document.text, scalar, scalar.start_mark.index, Tool.PIP, is_inline)
        for scalar in scalars
        if isinstance(scalar, ScalarNode)
    )
    if is_flow:
        end = entry.end_mark.index
    elif is_inline:
        end = value.end_mark.index
    else:
        end = items[-1].end if items else value.start_mark.index
    has_more = len(items) < len(nodes) or len(entry.value) > 1
    return _Pip(entry.start_mark.index, end, items, has_more)


def _item(text: str, scalar: ScalarNode, entry: int, tool: Tool, is_flow: bool) -> _Item:
    start = scalar.start_mark.index
    content = text[start : scalar.end_mark.index].rstrip()  # a folded one ends after its line
    number = scalar.start_mark.line + 1
    return _Item(number, start, start + len(content), entry, scalar.value, tool, is_flow)


def _item_of(items: Iterable[_Item], line: Line) -> _Item:
    """Where a line of the file stands.

    Raises:
        BadValue: It is not there, or another place of the file refers to it.
    """
    near = [item for item in items if item.number == line.number and item.tool is line.tool]
    same = [item for item in near if item.value.split() == line.text.split()]
    if not near:
        cause = f"line {line.number} is no longer `{line.text}`"
        raise BadValue(cause, "run the command again: the file has changed")
    return (same or near)[0]


def _item_changes(
    document: _Document, item: _Item, specs: Sequence[str], reason: str
) -> list[Change]:
    """What becomes of one entry of a list, in the place where it is."""
    text = document.text
    _refuse_anchor(text, item)
    if item.is_flow:
        return [_flow_change(text, item, specs)]
    end = end_of_line(text, item.end)
    own = text[item.end : end].strip()
    if not specs:
        return [_line_gone(document, item.entry, item.end, yaml_comment_of(reason, own))]
    changes = [Change(item.start, item.end, beside(written(specs[0]), yaml_comment_of(reason)))]
    # A selector is true of each line that comes of this one.
    comment = own if _SELECTOR.match(own) else ""
    more = [
        document.line_end + _prefix(text, item) + beside(written(spec), comment)
        for spec in specs[1:]
    ]
    return [*changes, Change(end, end, "".join(more))]


def _refuse_anchor(text: str, item: _Item) -> None:
    if text[item.start] in "&!":
        cause = f"line {item.number} has a mark of YAML: {text[item.start : item.end]}"
        raise BadValue(cause, "write the line without it, and run the command again")


def _line_gone(document: _Document, start: int, end: int, comment: str) -> Change:
    """An entry of a list goes, with its lines; its comment stands there instead."""
    text = document.text
    dash = text.rfind("-", 0, start)
    line_start = start_of_line(text, dash)
    content = text[line_start:dash] + comment + document.line_end
    return Change(line_start, start_of_next_line(text, end), content if comment else "")


def _prefix(text: str, item: _Item) -> str:
    """What begins another line like the one of an entry: indentation, dash, and `sel(linux): `."""
    dash = text.rfind("-", 0, item.entry)
    indentation = text[start_of_line(text, dash) : dash]
    between = text[dash : item.start]
    return indentation + (between if "\n" not in between else "- ")


def _flow_change(text: str, item: _Item, specs: Sequence[str]) -> Change:
    if specs:
        content = ", ".join(written(spec, is_flow=True) for spec in specs)
        return Change(item.start, item.end, content)
    return Change(item.start, _after_comma(text, item.end), "")


def _after_comma(text: str, end: int) -> int:
    """Where the comma behind an entry ends; the end of the entry if it has none."""
    comma = _COMMA.match(text, end)
    return comma.end() if comma else end


def _comments_above(document: _Document, edits: Iterable[Edit]) -> list[Change]:
    """The comments of a list in brackets: above it, as none can stand within a line."""
    position = document.start_of("dependencies")
    comments = [yaml_comment_of(edit.comment) + document.line_end for edit in edits if edit.comment]
    return [Change(position, position, "".join(comments))]


def _pip_changes(
    document: _Document, pip: _Pip, items: Sequence[_Item], edit_of: dict[_Item, Edit]
) -> list[Change]:
    """What becomes of the lines of a ``pip:`` part: their specs stand above it."""
    text = document.text
    edited = [item for item in pip.items if item in edit_of]
    changes = []
    moved = []
    for item in edited:
        edit = edit_of[item]
        _refuse_anchor(text, item)
        own = ""
        if not item.is_flow:
            own = text[item.end : end_of_line(text, item.end)].strip()
        comment = yaml_comment_of(edit.comment, own)
        selector = own if _SELECTOR.match(own) else ""
        comments = [comment, *[selector] * len(edit.specs)]
        moved += [(spec, remark) for spec, remark in zip(edit.specs, comments, strict=False)]
        if item.is_flow:
            changes.append(_flow_change(text, item, ()))
        else:
            left = "" if edit.specs else comment
            changes.append(_line_gone(document, item.entry, item.end, left))
    changes += _inserted(document, items, pip, moved)
    is_empty = edited and len(edited) == len(pip.items) and not pip.has_more
    if is_empty:
        changes = _without_pip(document, pip, changes)
    return changes


def _without_pip(document: _Document, pip: _Pip, changes: list[Change]) -> list[Change]:
    """The same changes, and the line ``- pip:`` goes too."""
    text = document.text
    outside = [change for change in changes if change.end <= pip.start]
    if document.is_flow("dependencies"):
        return [*outside, Change(pip.start, _after_comma(text, pip.end), "")]
    if any(item.is_flow for item in pip.items):
        own = text[pip.end : end_of_line(text, pip.end)].strip()
        return [*outside, _line_gone(document, pip.start, pip.end, own)]
    colon = text.index(":", pip.start)
    own = text[colon + 1 : end_of_line(text, colon)].strip()
    return [*changes, _line_gone(document, pip.start, pip.start, own)]


def _inserted(
    document: _Document, items: Sequence[_Item], pip: _Pip, moved: Sequence[tuple[str, str]]
) -> list[Change]:
    """Specs, each with its comment, after the last dependency of conda before a ``pip:`` part."""
    text = document.text
    above = [item for item in items if item.start < pip.start]
    if not moved:
        return []
    if document.is_flow("dependencies"):
        content = ", ".join(written(spec, is_flow=True) for spec, _ in moved)
        position = above[-1].end if above else pip.start
        content = f", {content}" if above else f"{content}, "
        return [Change(position, position, content)]
    if above:
        position = start_of_next_line(text, above[-1].end)
    else:
        position = start_of_line(text, text.rfind("-", 0, pip.start))
    prefix = _prefix_of(document)
    lines = [prefix + beside(written(spec), comment) for spec, comment in moved]
    return [Change(position, position, "".join(line + document.line_end for line in lines))]


def _first_changes(
    document: _Document,
    items: Sequence[_Item],
    lines: Iterable[Line],
    edits: Sequence[Edit],
    first: Sequence[str],
) -> list[Change]:
    """The specs that stand before all others, where they are missing."""
    edited = {edit.line for edit in edits}
    names = {line.name for line in lines if line.tool is Tool.CONDA and line not in edited}
    names |= {name_of_spec(spec) for edit in edits for spec in edit.specs}
    missing = missing_specs(first, names)
    text = document.text
    if not missing:
        return []
    node = document.list_of("dependencies")
    if document.is_flow("dependencies") and node is not None:
        content = ", ".join(written(spec, is_flow=True) for spec in missing)
        position = node.start_mark.index + 1
        return [Change(position, position, f"{content}, " if node.value else content)]
    prefix = _prefix_of(document)
    content = "".join(prefix + written(spec) + document.line_end for spec in missing)
    entry = document.entries.get("dependencies")
    if entry is None:
        return [Change(len(text), len(text), f"dependencies:{document.line_end}{content}")]
    position = start_of_next_line(text, entry[0].end_mark.index)
    return [Change(position, position, content)]


def _prefix_of(document: _Document) -> str:
    """How an entry of the dependencies begins, as their first one does."""
    node = document.list_of("dependencies")
    if node is None or node.flow_style or not node.value:
        return _ITEM
    dash = node.start_mark.index
    between = document.text[dash : node.value[0].start_mark.index]
    indentation = document.text[start_of_line(document.text, dash) : dash]
    return indentation + (between if between.strip(" ") == "-" else "- ")


def written(value: str, is_flow: bool = False) -> str:
    """A text as YAML has it in a list: in quotes where it would be read as something else."""
    content = f"[{value}]" if is_flow else f"- {value}  # comment"
    try:
        is_plain = load_yaml(content) == [value]
    except YAMLError:
        is_plain = False
    return value if is_plain else json.dumps(value, ensure_ascii=False)
