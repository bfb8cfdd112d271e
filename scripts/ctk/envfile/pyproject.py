"""Reads pyproject.toml: its tables of pixi, or the lists of packages that pip reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from ctk.envfile.lines import Collected, first_notes, pip_line
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.pixi import DEFAULT, Feature, Workspace
from ctk.envfile.source import Source
from ctk.envfile.toml_file import Toml, TomlPath, read_toml

PIXI: TomlPath = ("tool", "pixi")
_PROJECT = ("project", "dependencies")
_EXTRAS = ("project", "optional-dependencies")
_GROUPS = ("dependency-groups",)


def read_pyproject(source: Source) -> EnvironmentFile:
    """A pyproject.toml.

    With tables of pixi, its environments are those of pixi, which takes the lists of pip into them:
    "pyproject.toml" in pixi's docs. Without, there is one for the project, and one with each extra
    or group besides.

    Raises:
        FileUnreadable: It is not valid TOML, names no packages, or has a value of a wrong type.
    """
    toml = read_toml(source)
    toml.table(("project",))
    lists = _Lists(toml)
    if toml.table(PIXI):
        environments, notes = _with_pixi(toml, lists)
    else:
        environments, notes = _without_pixi(lists), []
    if not any(environment.lines for environment in environments) and not toml.get(_PROJECT):
        reason = "it has neither `[tool.pixi]` nor `dependencies` of a project"
        raise source.error(0, reason, "name a file that lists packages, such as environment.yml")
    every_note = first_notes([*lists.found.notes, *notes])
    return EnvironmentFile(source.path, Format.PYPROJECT, source.text, environments, every_note)


class _Lists:
    """The lists of requirements of a pyproject.toml: of the project, its extras and its groups."""

    def __init__(self, toml: Toml) -> None:
        self.toml = toml
        self.found = Collected()
        self.main = self._lines(_PROJECT, set())
        self.groups: dict[str, tuple[Line, ...]] = {}
        for table in (_EXTRAS, _GROUPS):
            for name in toml.table(table):
                lines = self._lines((*table, name), set())
                self.groups[name] = (*self.groups.get(name, ()), *lines)

    def _lines(self, path: TomlPath, seen: set[TomlPath]) -> tuple[Line, ...]:
        """The lines of a list, and of those that it includes; each list is read once."""
        if path in seen:
            return ()
        seen.add(path)
        found: list[Line] = []
        for number, item in enumerate(self.toml.items(path)):
            included = self._included(path, item)
            if included is not None:
                found += self._lines(included, seen)
            elif isinstance(item, str):
                found += self._line((*path, number), item)
            else:
                raise self.toml.error((*path, number), "a text")
        return tuple(found)

    def _included(self, path: TomlPath, item: Any) -> TomlPath | None:
        """The list that an entry names: ``{include-group = "test"}``, or ``this-project[test]``."""
        if isinstance(item, dict) and isinstance(item.get("include-group"), str):
            return self._named(_GROUPS, item["include-group"])
        own_name = self.toml.get(("project", "name"))
        if path[:2] != _EXTRAS or not isinstance(item, str) or not isinstance(own_name, str):
            return None
        found = re.fullmatch(r"\s*([\w.-]+)\s*\[\s*([\w.-]+)\s*\]\s*", item)
        if found and canonicalize_name(found[1]) == canonicalize_name(own_name):
            return self._named(_EXTRAS, found[2])
        return None

    def _named(self, table: TomlPath, name: str) -> TomlPath:
        for known in self.toml.table(table):
            if canonicalize_name(known) == canonicalize_name(name):
                return (*table, known)
        return (*table, name)

    def _line(self, path: TomlPath, text: str) -> Iterator[Line]:
        part = ".".join(str(key) for key in path[:-1]).removesuffix(".dependencies")
        number = self.toml.line(path)
        line = pip_line(text, number, part)
        if line is None:
            self.found.add(None, number, text)
        else:
            yield line


def _without_pixi(lists: _Lists) -> tuple[FileEnvironment, ...]:
    main = FileEnvironment(DEFAULT, lists.main)
    others = [
        FileEnvironment(name, tuple(dict.fromkeys([*lists.main, *lines])))
        for name, lines in lists.groups.items()
        if name != DEFAULT
    ]
    return (main, *others)


def _with_pixi(toml: Toml, lists: _Lists) -> tuple[tuple[FileEnvironment, ...], list[str]]:
    workspace = Workspace(toml, PIXI)
    features = {name: Feature(lines) for name, lines in lists.groups.items()}
    features[DEFAULT] = Feature((*lists.main, *_python(toml)))
    project_of = _projects(toml, workspace.table)
    environments = workspace.environments(features)
    return tuple(_prefer_conda(each, project_of) for each in environments), workspace.notes


def _projects(toml: Toml, table: TomlPath) -> dict[str, str]:
    """Package of conda -> the project of pip that it is, as `conda-pypi-map` has it itself."""
    found: dict[str, str] = {}
    channels = toml.get((*table, "conda-pypi-map"))
    for entry in channels.values() if isinstance(channels, dict) else ():
        mapping = entry.get("mapping") if isinstance(entry, dict) else None
        for name, project in mapping.items() if isinstance(mapping, dict) else ():
            if isinstance(project, str):
                found[name] = canonicalize_name(project)
    return found


def _python(toml: Toml) -> list[Line]:
    """`requires-python`, which pixi adds to its dependencies; none if they have a python."""
    path = ("project", "requires-python")
    version = toml.get(path)
    if not isinstance(version, str) or "python" in toml.table((*PIXI, "dependencies")):
        return []
    spec = f"python {version}"
    return [Line(toml.line(path), toml.words(path), Tool.CONDA, "python", spec, part="project")]


def _prefer_conda(environment: FileEnvironment, project_of: Mapping[str, str]) -> FileEnvironment:
    """Without what the project asks pip for and conda brings, as pixi has it.

    Under that name, or by the file's `conda-pypi-map`.
    """
    names = {line.name for line in environment.lines if line.tool is Tool.CONDA}
    of_conda = names | {project_of[name] for name in names if name in project_of}
    kept = []
    for line in environment.lines:
        is_of_project = line.tool is Tool.PIP and line.part.startswith("project")
        if not is_of_project or line.name not in of_conda:
            kept.append(line)
    return replace(environment, lines=tuple(kept))
