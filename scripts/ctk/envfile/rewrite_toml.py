"""A pixi.toml after edits, or the tables of pixi in a pyproject.toml.

As for YAML, the text is changed where a line changes. tomlkit keeps texts, but cannot put a key in
the place of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tomlkit
from packaging.utils import canonicalize_name
from tomlkit.exceptions import ParseError, TOMLKitError

from ctk.core.errors import BadValue
from ctk.core.platforms import PLATFORMS
from ctk.envfile.model import EnvironmentFile, Format, Line, Tool
from ctk.envfile.rewrite_edits import (
    Change,
    Edit,
    ForFirst,
    beside,
    changed,
    comment_of,
    end_of_line,
    line_end_of,
    missing_specs,
    name_of_spec,
    spec_of_line,
    start_of_line,
    start_of_next_line,
    without_duplicates,
)
from ctk.envfile.shelf import is_replaced
from ctk.envfile.toml_file import Span, TomlPath, spans_of
from ctk.solve.pixi import pixi_lines, toml

_DEPENDENCIES = "dependencies"
_CONDA_TABLES = (_DEPENDENCIES, "host-dependencies", "build-dependencies")
_PIP_TABLE = "pypi-dependencies"
_TARGET = "target"
_KEY = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[\w-]+)"""
_PREFIX = re.compile(rf"(?:{_KEY}\s*\.\s*)*(?={_KEY}\s*=)")  # of a dotted key
_BARE = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class _Manifest:
    """A manifest of pixi: its text, its data, and where each key stands.

    Attributes:
        text: It ends with a line end.
        root: Where the tables of pixi begin: (), or ``tool.pixi``.
        at_line: Line -> the keys that are there.
        at_place: Place -> the key that is written there. ``a.b = 1`` is a place of `a` too.
    """

    text: str
    root: TomlPath
    data: dict[str, Any]
    spans: dict[TomlPath, Span]
    at_line: dict[int, list[TomlPath]]
    at_place: dict[int, TomlPath]

    @property
    def line_end(self) -> str:
        return line_end_of(self.text)

    def get(self, path: TomlPath) -> Any:
        value: Any = self.data
        for key in path:
            is_there = isinstance(value, dict) and key in value
            value = value[key] if is_there else None
        return value

    def text_of(self, path: TomlPath) -> str:
        span = self.spans[path]
        return self.text[span.start : span.end]

    def is_written(self, path: TomlPath) -> bool:
        """Whether a key or table is written itself, and not only one below it."""
        return path in self.spans and self.at_place[self.spans[path].start] == path

    def is_header(self, path: TomlPath) -> bool:
        """Whether a table begins with a line ``[path]``."""
        return self.is_written(path) and self.text_of(path).startswith("[")

    def is_inline(self, path: TomlPath) -> bool:
        """Whether a table stands in braces."""
        return self.is_written(path) and self.text_of(path).endswith("}")

    def own_comment(self, end: int) -> str:
        """The user's comment behind a value that ends there."""
        return self.text[end : end_of_line(self.text, end)].strip()

    def entries(self, table: TomlPath) -> list[TomlPath]:
        """The entries of a table, in the order of the file."""
        length = len(table) + 1
        found = [path for path in self.spans if len(path) == length and path[:-1] == table]
        return sorted(found, key=lambda path: self.spans[path].start)

    def lines_of(self, table: TomlPath) -> list[TomlPath]:
        """The entries of a table that are lines: not those with a header of their own."""
        return [path for path in self.entries(table) if not self.text_of(path).startswith("[")]

    def end_below(self, path: TomlPath) -> int:
        """Where the last value of a key and of what is below it ends."""
        length = len(path)
        return max(span.end for key, span in self.spans.items() if key[:length] == path)


@dataclass
class _Table:
    """What becomes of a table of dependencies.

    Attributes:
        places: Entry -> what stands in its place.
        first: Lines before all others.
        last: Lines after all others, each with its comment.
        before: The table that a new one stands before; None for the end of the file.
    """

    path: TomlPath
    places: dict[TomlPath, _Place] = field(default_factory=dict)
    first: list[tuple[str, str]] = field(default_factory=list)
    last: list[tuple[str, str]] = field(default_factory=list)
    before: TomlPath | None = None


@dataclass(frozen=True)
class _Place:
    """Lines in the place of an entry, and why."""

    lines: list[str]
    reason: str


def rewritten_manifest(
    file: EnvironmentFile,
    edits: Sequence[Edit],
    channels: Sequence[str],
    first: Sequence[str],
    projects: Mapping[str, str],
    place: ForFirst | None = None,
) -> str:
    """The text of a manifest of pixi after edits, as `ctk.envfile.rewrite.rewritten` has it.

    The list of channels is that of the workspace, and of each feature that has its own. Channels
    that lines name which stay are kept behind it; where these are lines of other features, the
    workspace keeps its list, and the edited features get theirs before it.

    `first` stands in the features that state the driver; else in the main table if that is edited
    or nothing is, else in those of the edited features. Where a platform without CUDA is listed,
    what is added stands in the tables of the others.
    """
    manifest = _read(file)
    final = _one_key_each(manifest, file.lines, without_duplicates(file.lines, edits))
    tables: dict[TomlPath, _Table] = {}
    for edit in final:
        _add_edit(manifest, tables, edit)
    _add_first(manifest, tables, file.lines, final, first, place)
    _add_projects(manifest, tables, channels[0], projects)
    changes = _changes_of_channels(manifest, _lists_of_channels(manifest, file, final, channels))
    for table in tables.values():
        changes += _changes_of_table(manifest, table)
    changes += _changes_of_pip(manifest, final)
    return _checked(changed(manifest.text, changes))


def _checked(text: str) -> str:
    """The text itself.

    Raises:
        BadValue: It is not valid TOML: a table in braces cannot get another one from below.
    """
    try:
        tomlkit.parse(text)
    except TOMLKitError as error:
        cause = f"the tables of this file cannot be edited: {error}"
        raise BadValue(cause, "write tables in braces as [tables], and run it again") from None
    return text


def has_pixi(file: EnvironmentFile) -> bool:
    """Whether a file has the tables of pixi."""
    return file.format is Format.PIXI or bool(_read(file).get(("tool", "pixi")))


def _read(file: EnvironmentFile) -> _Manifest:
    text = file.text.removeprefix("\ufeff")
    try:
        data = tomlkit.parse(text).unwrap()
    except ParseError as error:
        raise BadValue(f"the file is not valid TOML: {error}", "correct it by hand first") from None
    root: TomlPath = ("tool", "pixi") if file.format is Format.PYPROJECT else ()
    spans = spans_of(text)
    at_line: dict[int, list[TomlPath]] = {}
    at_place: dict[int, TomlPath] = {}
    for path, span in spans.items():
        at_line.setdefault(span.line, []).append(path)
        at_place[span.start] = max(path, at_place.get(span.start, ()), key=len)
    return _Manifest(text, root, data, spans, at_line, at_place)


# Edits of lines


def _path_of(manifest: _Manifest, line: Line) -> TomlPath:
    """The key of a line, or its item in a list of a project's own requirements.

    Raises:
        BadValue: It is neither.
    """
    path = _find(manifest, line)
    if path is None:
        cause = f"line {line.number} is not a dependency that can be edited: {line.text}"
        raise BadValue(cause, "edit it by hand, and run the command again")
    return path


def _find(manifest: _Manifest, line: Line) -> TomlPath | None:
    kinds = _CONDA_TABLES if line.tool is Tool.CONDA else (_PIP_TABLE,)
    at_line = manifest.at_line.get(line.number, [])
    for path in at_line:
        if len(path) > 1 and path[-2] in kinds and _is_named(path[-1], line.name):
            return path
    for path in at_line:
        is_item = isinstance(path[-1], int) and path[0] in ("project", "dependency-groups")
        if line.tool is Tool.PIP and is_item:
            return path
    return None


def _is_named(key: str | int, name: str) -> bool:
    return canonicalize_name(str(key)) == canonicalize_name(name)


def _conda_table(manifest: _Manifest, path: TomlPath) -> TomlPath:
    """The table in which the specs of a line stand."""
    if path[-2] in _CONDA_TABLES and not isinstance(path[-1], int):
        return path[:-1]
    if path[-2] == _PIP_TABLE:
        return (*path[:-2], _DEPENDENCIES)
    if path[:-1] == ("project", _DEPENDENCIES):
        return (*manifest.root, _DEPENDENCIES)
    # An extra or a group of dependencies is a feature of the same name.
    return (*manifest.root, "feature", path[-2], _DEPENDENCIES)


def _one_key_each(manifest: _Manifest, lines: Sequence[Line], edits: Sequence[Edit]) -> list[Edit]:
    """The edits, in which all specs of a package for one table are those of one line.

    TOML has a key once. Specs that say different things become one whose versions a solver refuses.
    """
    edited = {edit.line for edit in edits}
    holders: dict[tuple[TomlPath, str], Line] = {}
    for line in lines:
        path = _find(manifest, line)  # None for a project's `requires-python`
        if line.tool is Tool.CONDA and line not in edited and path is not None:
            holders[path[:-1], line.name] = line
    specs_of: dict[Line, list[str]] = {edit.line: [] for edit in edits}
    comment_of_line = {edit.line: edit.comment for edit in edits}
    for edit in edits:
        table = _conda_table(manifest, _path_of(manifest, edit.line))
        for spec in edit.specs:
            holder = holders.setdefault((table, name_of_spec(spec)), edit.line)
            if holder not in specs_of:
                specs_of[holder] = [spec_of_line(holder)]
                comment_of_line[holder] = edit.comment
            specs_of[holder].append(spec)
    before = {edit.line: edit for edit in edits}
    found = []
    for line, specs in specs_of.items():
        edit = before.get(line, Edit(line, ()))
        found.append(replace(edit, specs=tuple(specs), comment=comment_of_line[line]))
    return found


def _add_edit(manifest: _Manifest, tables: dict[TomlPath, _Table], edit: Edit) -> None:
    path = _path_of(manifest, edit.line)
    table_path = _conda_table(manifest, path)
    with_cuda = _tables_with_cuda(manifest, table_path, edit.line)
    if edit.line.tool is Tool.PIP:
        if edit.specs:
            _add_for_pip(manifest, tables, edit, with_cuda)
        return
    table = tables.setdefault(table_path, _Table(table_path))
    if with_cuda == [table_path]:
        table.places[path] = _Place(pixi_lines(edit.specs), edit.comment)
        return
    # The package itself may be for each platform; what CUDA needs besides is not.
    own = [spec for spec in edit.specs if name_of_spec(spec) == edit.line.name]
    others = [spec for spec in edit.specs if spec not in own]
    reason = edit.comment if own or not others else ""
    table.places[path] = _Place(pixi_lines(own), reason)
    _add_last(tables, with_cuda, others, "" if reason else comment_of(edit.comment))


def _add_for_pip(
    manifest: _Manifest,
    tables: dict[TomlPath, _Table],
    edit: Edit,
    with_cuda: Sequence[TomlPath],
) -> None:
    """Adds the specs in the place of a line of pip."""
    path = _path_of(manifest, edit.line)
    is_key = path[-2] == _PIP_TABLE
    if with_cuda == [_conda_table(manifest, path)]:
        table = tables.setdefault(with_cuda[0], _Table(with_cuda[0]))
        table.before = path[:-1] if is_key else None
    own = ""
    if is_key and not manifest.is_inline(path[:-1]):
        own = manifest.own_comment(manifest.spans[path].end)
    _add_last(tables, with_cuda, edit.specs, comment_of(edit.comment, own))
    if is_key and edit.stays_without_cuda:
        for kept in _tables_without_cuda(manifest, path[:-1], edit.line):
            table = tables.setdefault(kept, _Table(kept))
            table.last.append((_entry_of(manifest, path), ""))


def _add_last(
    tables: dict[TomlPath, _Table], paths: Iterable[TomlPath], specs: Sequence[str], comment: str
) -> None:
    """Adds specs at the end of tables, with a comment beside the first one."""
    lines = pixi_lines(specs)
    comments = [comment, *[""] * len(lines)]
    for path in paths:
        table = tables.setdefault(path, _Table(path))
        table.last += zip(lines, comments, strict=False)


def _entry_of(manifest: _Manifest, path: TomlPath) -> str:
    """An entry of a table, as a line of another one."""
    if manifest.is_header(path):
        return f"{_dotted(path[-1:])} = {toml(manifest.get(path))}"
    return manifest.text_of(path).removeprefix(_prefix_of(manifest, path))


def _platforms_of(manifest: _Manifest, part: TomlPath, line: Line) -> list[str]:
    """The platforms of a part that a line is for; [] for a part of a platform, if not known."""
    is_of_target = len(part) > 1 and part[-2] == _TARGET
    if is_of_target and not line.subdirs:
        return []
    whole = part[:-2] if is_of_target else part
    return [subdir for subdir in _subdirs(manifest, whole) if line.is_for(subdir)]


def _tables_with_cuda(manifest: _Manifest, table: TomlPath, line: Line) -> list[TomlPath]:
    """The tables for what CUDA needs in the place of a line: its own, if that is for CUDA only."""
    part = table[:-1]
    is_of_target = len(part) > 1 and part[-2] == _TARGET
    whole = part[:-2] if is_of_target else part
    subdirs = _platforms_of(manifest, part, line)
    with_cuda = [subdir for subdir in subdirs if subdir in PLATFORMS]
    reached = subdirs if is_of_target else _subdirs(manifest, whole)
    if len(with_cuda) in (0, len(reached)):
        return [table]
    return [(*whole, _TARGET, subdir, table[-1]) for subdir in with_cuda]


def _tables_without_cuda(manifest: _Manifest, table: TomlPath, line: Line) -> list[TomlPath]:
    """The tables of the other platforms of a line, where its own is for those with CUDA too."""
    part = table[:-1]
    if _tables_with_cuda(manifest, table, line) == [table]:
        return []
    whole = part[:-2] if len(part) > 1 and part[-2] == _TARGET else part
    subdirs = _platforms_of(manifest, part, line)
    return [(*whole, _TARGET, s, table[-1]) for s in subdirs if s not in PLATFORMS]


def _add_first(
    manifest: _Manifest,
    tables: dict[TomlPath, _Table],
    lines: Sequence[Line],
    edits: Sequence[Edit],
    first: Sequence[str],
    place: ForFirst | None,
) -> None:
    edited = {edit.line for edit in edits}
    names_of_part: dict[TomlPath, set[str]] = {}
    for line in lines:
        key = _find(manifest, line)
        if line.tool is Tool.CONDA and line not in edited and key is not None:
            names_of_part.setdefault(key[:-2], set()).add(line.name)
    for edit in edits:
        part = _conda_table(manifest, _path_of(manifest, edit.line))[:-1]
        names_of_part.setdefault(part, set()).update(map(name_of_spec, edit.specs))
    for part in _parts_for_first(manifest, edits, place):
        names: set[str] = set()
        for other, found in names_of_part.items():
            names |= found if _is_with(other, part) else set()
        missing = pixi_lines(missing_specs(first, names))
        if not missing:
            continue
        for path in _tables_for_cuda(manifest, part, place):
            table = tables.setdefault(path, _Table(path))
            table.first = [(line, "") for line in missing]


def _is_with(part: TomlPath, other: TomlPath) -> bool:
    """Whether the tables of a part are the same as another's, or those of a platform of it."""
    return part == other or (part[:-2] == other and part[-2] == _TARGET)


def _parts_for_first(
    manifest: _Manifest, edits: Sequence[Edit], place: ForFirst | None
) -> list[TomlPath]:
    """The parts whose environments need CUDA: the main one, or features that are edited.

    A feature that states the driver comes before these: each environment that has it can ask.
    """
    if place and (stating := _features_with_driver(manifest, place.environment)):
        return stating
    parts: dict[TomlPath, None] = {}
    for edit in edits:
        if edit.specs:
            table = _conda_table(manifest, _path_of(manifest, edit.line))
            parts[table[:-1]] = None
    for line in place.lines if place and not parts else ():
        parts[_feature_of(manifest, line)] = None
    if not parts or manifest.root in parts:
        return [manifest.root]
    return [part for part in parts if part[-2] != _TARGET or part[:-2] not in parts]


def _features_with_driver(manifest: _Manifest, environment: str) -> list[TomlPath]:
    """The features of an environment that state a driver, if the main tables state none."""
    if manifest.get((*manifest.root, "system-requirements", "cuda")) is not None:
        return []
    own = manifest.get((*manifest.root, "environments", environment))
    names = own.get("features", ()) if isinstance(own, dict) else own or (environment,)
    parts = [(*manifest.root, "feature", name) for name in names]
    return [
        part for part in parts if manifest.get((*part, "system-requirements", "cuda")) is not None
    ]


def _tables_for_cuda(manifest: _Manifest, part: TomlPath, place: ForFirst | None) -> list[TomlPath]:
    """The tables of a part for its platforms that have CUDA: one if all have."""
    table = (*part, _DEPENDENCIES)
    has_target = len(part) > 1 and part[-2] == _TARGET
    subdirs = _subdirs(manifest, part)
    with_cuda = [subdir for subdir in subdirs if subdir in PLATFORMS]
    if place:
        with_cuda = [subdir for subdir in with_cuda if subdir in place.subdirs]
    if has_target or len(with_cuda) in (0, len(subdirs)):
        return [table]
    return [(*part, _TARGET, subdir, _DEPENDENCIES) for subdir in with_cuda]


def _subdirs(manifest: _Manifest, part: TomlPath) -> list[str]:
    """The platforms of a part, or those of the workspace; each once."""
    of_name: dict[str, str] = {}
    for entry in manifest.get((*_workspace(manifest), "platforms")) or ():
        name = entry
        subdir = entry
        if isinstance(entry, dict):
            subdir = str(entry.get("platform", entry.get("name", "")))
            name = entry.get("name", subdir)
        of_name[name] = subdir
    own = None if part == manifest.root else manifest.get((*part, "platforms"))
    names = own if isinstance(own, list) else list(of_name)
    return list(dict.fromkeys(of_name.get(name, name) for name in names))


# Changes of tables


def _add_projects(
    manifest: _Manifest, tables: dict[TomlPath, _Table], channel: str, projects: Mapping[str, str]
) -> None:
    """Adds the projects of pip that packages of a channel are, as pixi is to know.

    It knows by itself which project a package of conda-forge is, and installs it once. Not where
    the file says that it wants no such table, nor in a workspace in braces, which can get none.
    """
    workspace = _workspace(manifest)
    path = (*workspace, "conda-pypi-map")
    is_table = isinstance(manifest.get(path), dict) or manifest.get(path) is None
    if not projects or not is_table or manifest.is_inline(workspace):
        return
    inner = ", ".join(f"{name} = {toml(project)}" for name, project in projects.items())
    table = tables.setdefault(path, _Table(path))
    table.last.append((f"{toml(channel)} = {{ mapping = {{ {inner} }} }}", ""))


def _drop_repeated(manifest: _Manifest, table: _Table) -> None:
    """Drops the added lines whose keys a table has already: TOML has a key once."""
    kept = [path for path in manifest.entries(table.path) if path not in table.places]
    keys = {str(path[-1]) for path in kept}
    for place in table.places.values():
        keys.update(map(_key_of, place.lines))
    for lines in (table.first, table.last):
        added = list(lines)
        lines.clear()
        for line, comment in added:
            if _key_of(line) not in keys:
                keys.add(_key_of(line))
                lines.append((line, comment))


def _key_of(line: str) -> str:
    """The key of a line ``key = value``."""
    return str(next(iter(tomlkit.parse(line))))


def _changes_of_table(manifest: _Manifest, table: _Table) -> list[Change]:
    _drop_repeated(manifest, table)
    if manifest.is_inline(table.path):
        return _inline_changes(manifest, table)
    changes = []
    for path, place in table.places.items():
        changes += _entry_changes(manifest, path, place)
    is_there = manifest.is_header(table.path) or bool(manifest.lines_of(table.path))
    if not is_there and (table.first or table.last):
        return [*changes, _new_table(manifest, table)]
    if table.first:
        changes.append(_inserted(manifest, table, table.first, is_first=True))
    if table.last:
        changes.append(_inserted(manifest, table, table.last, is_first=False))
    return changes


def _entry_changes(manifest: _Manifest, path: TomlPath, place: _Place) -> list[Change]:
    """What becomes of a line ``name = ...``, or of a table with the name of a package."""
    text = manifest.text
    span = manifest.spans[path]
    if manifest.is_header(path):
        return [_header_change(manifest, path, place)]
    _refuse_dotted(manifest, path)
    own = manifest.own_comment(span.end)
    if not place.lines:
        return [_line_gone(manifest, span, comment_of(place.reason, own))]
    start = start_of_line(text, span.start)
    prefix = _prefix_of(manifest, path)
    line = beside(prefix + place.lines[0], comment_of(place.reason))
    end = end_of_line(text, span.end)
    indentation = text[start : span.start]
    more = [manifest.line_end + indentation + prefix + line for line in place.lines[1:]]
    return [Change(span.start, span.end, line), Change(end, end, "".join(more))]


def _refuse_dotted(manifest: _Manifest, path: TomlPath) -> None:
    """Raises BadValue for a package that is ``name.version = ...``, maybe on several lines."""
    if not manifest.is_written(path):
        cause = f"line {manifest.spans[path].line} has a dotted key: {manifest.text_of(path)}"
        raise BadValue(cause, "write it in braces, and run the command again")


def _prefix_of(manifest: _Manifest, path: TomlPath) -> str:
    """What stands before the name of a dotted key, with its dot: ``dependencies.``; or ""."""
    found = _PREFIX.match(manifest.text_of(path))
    return found[0] if found else ""


def _line_gone(manifest: _Manifest, span: Span, comment: str) -> Change:
    start = start_of_line(manifest.text, span.start)
    end = start_of_next_line(manifest.text, span.end)
    indentation = manifest.text[start : span.start]
    content = f"{indentation}{comment}{manifest.line_end}" if comment else ""
    return Change(start, end, content)


def _header_change(manifest: _Manifest, path: TomlPath, place: _Place) -> Change:
    """``[dependencies.pytorch]`` and its keys become such tables, or a comment."""
    text = manifest.text
    span = manifest.spans[path]
    end = start_of_next_line(text, manifest.end_below(path))
    comment = comment_of(place.reason, manifest.own_comment(span.end))
    if not place.lines:
        return Change(span.start, end, comment + manifest.line_end if comment else "")
    lines = []
    for number, line in enumerate(place.lines):
        ((name, value),) = tomlkit.parse(line).unwrap().items()
        header = f"[{_dotted((*path[:-1], name))}]"
        lines.append(header if number else beside(header, comment))
        keys = value if isinstance(value, dict) else {"version": value}
        lines += [f"{key} = {toml(entry)}" for key, entry in keys.items()]
    return Change(span.start, end, "".join(line + manifest.line_end for line in lines))


def _dotted(path: TomlPath) -> str:
    keys = [str(key) for key in path]
    return ".".join(key if _BARE.fullmatch(key) else toml(key) for key in keys)


def _inserted(
    manifest: _Manifest, table: _Table, lines: Iterable[tuple[str, str]], is_first: bool
) -> Change:
    """Lines at the beginning or the end of a table."""
    text = manifest.text
    entries = manifest.lines_of(table.path)
    prefix = ""
    indentation = ""
    if entries:
        start = manifest.spans[entries[0]].start
        indentation = text[start_of_line(text, start) : start]
        prefix = _prefix_of(manifest, entries[0])
    if manifest.is_header(table.path) and (is_first or not entries):
        position = start_of_next_line(text, manifest.spans[table.path].end)
    elif is_first:
        position = start_of_line(text, manifest.spans[entries[0]].start)
    else:
        position = start_of_next_line(text, manifest.end_below(entries[-1]))
    content = [
        indentation + beside(prefix + line, comment) + manifest.line_end for line, comment in lines
    ]
    return Change(position, position, "".join(content))


def _inline_changes(manifest: _Manifest, table: _Table) -> list[Change]:
    """A table in braces is written again; comments stand above it, as within it none may.

    What TOML 1.1 has on lines of their own stays so.
    """
    text = manifest.text
    entries = [line for line, _ in table.first]
    for path in manifest.entries(table.path):
        place = table.places.get(path)
        entries += place.lines if place else [manifest.text_of(path)]
    entries += [line for line, _ in table.last]
    comments = [comment_of(place.reason) for place in table.places.values()]
    comments += [comment for _, comment in table.last]
    span = manifest.spans[table.path]
    return [
        *_above(manifest, span.start, filter(None, comments)),
        Change(span.start, span.end, _in_braces(text[span.start : span.end], entries)),
    ]


def _above(manifest: _Manifest, position: int, comments: Iterable[str]) -> list[Change]:
    start = start_of_line(manifest.text, position)
    content = "".join(comment + manifest.line_end for comment in comments)
    return [Change(start, start, content)] if content else []


def _in_braces(before: str, entries: Sequence[str]) -> str:
    """``key = { ... }`` with other entries."""
    head, _, content = before.partition("{")
    if "\n" not in content:
        return f"{head}{{ {', '.join(entries)} }}" if entries else f"{head}{{}}"
    end = line_end_of(content)
    indentation = re.search(r"\n([ \t]*)\S", content)
    margin = indentation[1] if indentation else "  "
    lines = "".join(f"{margin}{entry},{end}" for entry in entries)
    return f"{head}{{{end}{lines}}}"


def _changes_of_pip(manifest: _Manifest, edits: Sequence[Edit]) -> list[Change]:
    """Lines of pip go; a table of them that becomes empty goes too."""
    gone: dict[TomlPath, dict[TomlPath, Edit]] = {}
    for edit in edits:
        path = _path_of(manifest, edit.line)
        if edit.line.tool is Tool.PIP and path[-2] == _PIP_TABLE:
            gone.setdefault(path[:-1], {})[path] = edit
    changes = []
    for table, edit_of in gone.items():
        if manifest.is_inline(table):
            # The reasons of those with specs stand beside these.
            places = {
                path: _Place([], "" if edit.specs else edit.comment)
                for path, edit in edit_of.items()
            }
            changes += _inline_changes(manifest, _Table(table, places))
            continue
        for path, edit in edit_of.items():
            changes.append(_pip_gone(manifest, path, edit))
        is_empty = len(edit_of) == len(manifest.entries(table))
        if is_empty and manifest.is_header(table):
            span = manifest.spans[table]
            changes.append(_line_gone(manifest, span, manifest.own_comment(span.end)))
    return changes


def _pip_gone(manifest: _Manifest, path: TomlPath, edit: Edit) -> Change:
    reason = "" if edit.specs else edit.comment
    if manifest.is_header(path):
        return _header_change(manifest, path, _Place([], reason))
    span = manifest.spans[path]
    _refuse_dotted(manifest, path)
    if edit.specs:
        return _line_gone(manifest, span, "")  # its comment stands beside them
    return _line_gone(manifest, span, comment_of(reason, manifest.own_comment(span.end)))


def _new_table(manifest: _Manifest, table: _Table) -> Change:
    """A table that the file does not have yet: before the one it takes lines of, or at the end."""
    end = manifest.line_end
    lines = [f"[{_dotted(table.path)}]"]
    entries = table.first + table.last
    lines += [beside(line, comment) for line, comment in entries]
    content = "".join(line + end for line in lines)
    gap = end if f"{end}{end}[" in manifest.text else ""  # between the tables of this file
    if table.before is not None and manifest.is_header(table.before):
        start = start_of_line(manifest.text, manifest.spans[table.before].start)
        return Change(start, start, content + gap)
    return Change(len(manifest.text), len(manifest.text), gap + content)


# Channels


def _workspace(manifest: _Manifest) -> TomlPath:
    """The table of the workspace, which older files call ``project``."""
    current = (*manifest.root, "workspace")
    return current if manifest.get(current) is not None else (*manifest.root, "project")


@dataclass(frozen=True)
class _ChannelLists:
    """The channels of the new file.

    Attributes:
        ours: The list for what is edited, the most important first.
        named: The channels that lines name which stay, and that `ours` lacks.
        features: The features that get `ours` before the list of the workspace, which stays; () and
            the workspace gets it.
    """

    ours: Sequence[str]
    named: Sequence[str]
    features: Sequence[TomlPath]


def _lists_of_channels(
    manifest: _Manifest, file: EnvironmentFile, edits: Sequence[Edit], channels: Sequence[str]
) -> _ChannelLists:
    """Which tables get which channels, so that lines which stay find theirs."""
    edited = {edit.line for edit in edits}
    parts = {_feature_of(manifest, edit.line) for edit in edits if edit.specs}
    staying = [line for line in file.lines if line not in edited and line.channel]
    elsewhere = [line for line in staying if line.channel not in channels]
    listed = manifest.get((*_workspace(manifest), "channels")) or ()
    order = [item if isinstance(item, str) else str(item["channel"]) for item in listed]
    of_lines = {line.channel for line in elsewhere}
    named = [channel for channel in order if channel in of_lines]
    is_of_features = bool(parts) and all(part[-2:-1] == ("feature",) for part in parts)
    others = {_feature_of(manifest, line) for line in elsewhere} - parts
    features = sorted(parts, key=str) if is_of_features and named and others else []
    return _ChannelLists(channels, named, features)


def _feature_of(manifest: _Manifest, line: Line) -> TomlPath:
    """The table of the feature of a line, or of the main tables."""
    path = _find(manifest, line)
    if path is None:
        return manifest.root
    part = _conda_table(manifest, path)[:-1]
    return part[:-2] if len(part) > 1 and part[-2] == _TARGET else part


def _changes_of_channels(manifest: _Manifest, lists: _ChannelLists) -> list[Change]:
    workspace = _workspace(manifest)
    features = manifest.get((*manifest.root, "feature"))
    tables = [] if lists.features else [workspace]
    for name in features if isinstance(features, dict) else ():
        tables.append((*manifest.root, "feature", name))
    wanted = [*lists.ours, *lists.named]
    changes = []
    for table in tables:
        path = (*table, "channels")
        if path in manifest.spans:
            span = manifest.spans[path]
            own = wanted
            if table != workspace:
                own = [*lists.ours, *_own_of_feature(manifest.get(path), lists.ours)]
            changes.append(Change(span.start, span.end, _channels(manifest, path, own)))
        elif table == workspace:
            changes += _new_channels(manifest, workspace, wanted)
        elif table in lists.features:
            changes.append(_channels_of_feature(manifest, table, lists.ours))
    return changes


def _channels_of_feature(manifest: _Manifest, feature: TomlPath, channels: Sequence[str]) -> Change:
    """A list of channels for a feature, before those of the workspace.

    With priorities: pixi puts the channels of the features of an environment one behind the other,
    and a feature without any has those of the workspace.
    """
    end = manifest.line_end
    first = len(channels)
    items = [
        f"  {toml({'channel': channel, 'priority': first - number})},{end}"
        for number, channel in enumerate(channels)
    ]
    content = f"channels = [{end}{''.join(items)}]{end}"
    if manifest.is_header(feature):
        position = start_of_next_line(manifest.text, manifest.spans[feature].end)
        return Change(position, position, content)
    content = f"[{_dotted(feature)}]{end}{content}"
    below = [span for key, span in manifest.spans.items() if key[: len(feature)] == feature]
    position = min((span.start for span in below), default=len(manifest.text))
    if not manifest.text.startswith("[", position):  # dotted keys of another table
        position = len(manifest.text)
    return Change(position, position, content)


def _own_of_feature(items: Any, channels: Sequence[str]) -> list[str]:
    """The channels of a feature that stay: another environment may take packages from them."""
    names = [item if isinstance(item, str) else str(item["channel"]) for item in items]
    return [name for name in names if name not in channels and not is_replaced(name)]


def _channels(manifest: _Manifest, path: TomlPath, channels: Sequence[str]) -> str:
    """``channels = [...]`` with other channels; those that stay keep their lines and comments."""
    before = manifest.text_of(path)
    prefix = _prefix_of(manifest, path)
    document = tomlkit.parse(before.removeprefix(prefix))
    items: Any = document["channels"]
    current = [_channel(item) for item in items]
    wanted = list(channels)
    if current == wanted:
        return before
    if "\n" not in before:
        texts = [manifest.text_of((*path, number)) for number in range(len(current))]
        text_of = dict(zip(current, texts, strict=True))
        entries = [text_of.get(channel, toml(channel)) for channel in wanted]
        return f"{prefix}channels = [{', '.join(entries)}]"
    _set_items(items, wanted)
    return prefix + document.as_string()


def _set_items(items: Any, channels: Sequence[str]) -> None:
    """Makes the items of a list those channels; tomlkit keeps the comments between them."""
    for index in reversed(range(len(items))):
        if _channel(items[index]) not in channels:
            del items[index]
    for index, channel in enumerate(channels):
        current = [_channel(item) for item in items]
        if index < len(current) and current[index] == channel:
            continue
        if channel in current:
            del items[current.index(channel)]
        items.insert(index, channel)
    del items[len(channels) :]


def _channel(item: Any) -> str:
    """The channel of an item; "" for one with a priority, which says more than its place."""
    if isinstance(item, str):
        return str(item)
    return "" if "priority" in item else str(item["channel"])


def _new_channels(
    manifest: _Manifest, workspace: TomlPath, channels: Sequence[str]
) -> Iterator[Change]:
    line = f"channels = {toml(list(channels))}{manifest.line_end}"
    if manifest.is_header(workspace):
        position = start_of_next_line(manifest.text, manifest.spans[workspace].end)
        yield Change(position, position, line)
    elif manifest.is_inline(workspace):
        position = manifest.text.index("{", manifest.spans[workspace].start) + 1
        yield Change(position, position, f" {line.rstrip()},")
    elif entries := manifest.lines_of(workspace):
        position = manifest.spans[entries[0]].start
        prefix = _prefix_of(manifest, entries[0])
        yield Change(position, position, prefix + line)
