"""Reads conda's environment.yml, with the line of each entry."""

from __future__ import annotations

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ctk.envfile.lines import Collected, first_notes, shown
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format
from ctk.envfile.source import Source
from ctk.envfile.subdirs import of_selector

_STEP = "see 'Creating an environment file manually' in conda's docs"
_NULL = "tag:yaml.org,2002:null"
NODEFAULTS = "nodefaults"  # names no channel: it leaves conda's defaults out


def read_environment(source: Source) -> EnvironmentFile:
    """An environment.yml.

    A selector in a comment (``# [linux]``) sets the platforms of its line, as conda-lock reads it;
    conda itself does not.

    Raises:
        FileUnreadable: It is not valid YAML, or not of the form that conda reads.
    """
    root = compose(source)
    if not isinstance(root, MappingNode):
        raise source.error(_line(root), "it is not a mapping with `dependencies:`", _STEP)
    keys = _entries(source, root)
    if "dependencies" not in keys:
        raise source.error(0, "it has no `dependencies:`", _STEP)
    reader = _Reader(source)
    reader.read_dependencies(keys["dependencies"])
    channels = dict.fromkeys(_texts(source, keys.get("channels"), "channels"))
    channels.pop(NODEFAULTS, None)
    subdirs = dict.fromkeys(_texts(source, keys.get("platforms"), "platforms"))  # conda-lock's
    environment = FileEnvironment("", tuple(reader.lines), tuple(channels), tuple(subdirs))
    notes = first_notes(reader.notes)
    return EnvironmentFile(source.path, Format.ENVIRONMENT, source.text, (environment,), notes)


def compose(source: Source) -> Node | None:
    """The nodes of a YAML text, which know their lines; None if it has comments only.

    Raises:
        FileUnreadable: It is not valid YAML.
    """
    try:
        node: Node | None = YAML(typ="safe").compose(source.text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise source.error(
            line, f"it is not valid YAML: {error.problem or error.context}"
        ) from None
    except ReaderError as error:
        line = source.text.count("\n", 0, error.position) + 1
        raise source.error(line, f"it is not valid YAML: {error.reason}") from None
    except RecursionError:
        reason = "it is nested too deeply"
        raise source.error(0, reason, "name a file that lists packages") from None
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        # ruamel lets errors of Python out of texts with several faults.
        raise source.error(0, f"it is not valid YAML: {type(error).__name__}: {error}") from None
    return node


class _Reader(Collected):
    """Reads the list of dependencies."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._text_lines = source.text.split("\n")
        self._read: set[int] = set()  # nodes by `id`: aliases may name one a thousand times

    def read_dependencies(self, node: Node) -> None:
        for item in _items(self._source, node, "dependencies"):
            if id(item) in self._read:
                continue
            self._read.add(id(item))
            if isinstance(item, MappingNode):
                self._read_parts(item)
            elif isinstance(item, ScalarNode):
                self._read_package(item)
            else:
                reason = "a list is in the list of `dependencies`"
                raise self._source.error(_line(item), reason, _STEP)

    def _read_package(self, item: ScalarNode) -> None:
        text = _text(item)
        if text:
            self.add_conda(text, _line(item), self._subdirs(item))

    def _read_parts(self, mapping: MappingNode) -> None:
        for name, node in _entries(self._source, mapping).items():
            if name != "pip":
                self.note(_line(node), f"`{shown(name)}:` is not read: conda knows `pip:` only")
            elif id(node) not in self._read:
                self._read.add(id(node))
                self._read_pip(node)

    def _read_pip(self, node: Node) -> None:
        for item in _items(self._source, node, "pip"):
            if not isinstance(item, ScalarNode):
                raise self._source.error(_line(item), "an entry of `pip:` is not text", _STEP)
            if text := _text(item):
                self.add_pip(text, _line(item), self._subdirs(item))

    def _subdirs(self, item: ScalarNode) -> tuple[str, ...]:
        """The platforms of the comment behind an entry."""
        mark = item.end_mark
        if mark.line >= len(self._text_lines):
            return ()
        rest = self._text_lines[mark.line][mark.column :].strip()
        return of_selector(rest) if rest.startswith("#") else ()


def _line(node: Node | None) -> int:
    return node.start_mark.line + 1 if node is not None else 0


def _text(node: ScalarNode) -> str:
    """The text of an entry; "" for an empty one."""
    return "" if node.tag == _NULL else str(node.value).strip()


def _entries(source: Source, mapping: MappingNode) -> dict[str, Node]:
    """The entries of a mapping.

    Raises:
        FileUnreadable: A key is twice in it: clients differ in which one they read.
    """
    entries: dict[str, Node] = {}
    for key, value in mapping.value:
        if not isinstance(key, ScalarNode):
            raise source.error(_line(key), "a key is not text", _STEP)
        name = str(key.value)
        if name in entries:
            reason = f"`{shown(name)}:` is there twice"
            raise source.error(_line(key), reason, "put all entries below one of them")
        entries[name] = value
    return entries


def _items(source: Source, node: Node, name: str) -> list[Node]:
    """The items of a list; none of an empty entry.

    Raises:
        FileUnreadable: It is not a list.
    """
    if isinstance(node, ScalarNode) and not _text(node):
        return []
    if not isinstance(node, SequenceNode):
        reason = f"`{name}:` is not a list"
        raise source.error(
            _line(node), reason, f"write each entry of `{name}:` below it as `- ...`"
        )
    items: list[Node] = node.value
    return items


def _texts(source: Source, node: Node | None, name: str) -> list[str]:
    if node is None:
        return []
    found = []
    for item in _items(source, node, name):
        if not isinstance(item, ScalarNode):
            raise source.error(_line(item), f"an entry of `{name}:` is not text", _STEP)
        found.append(_text(item))
    return [text for text in found if text]
