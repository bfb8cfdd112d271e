"""Reads pixi.toml, and the tables of pixi in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ctk.core.platforms import PLATFORMS
from ctk.core.versions import version_key
from ctk.envfile.lines import first_notes, narrow, pip_line
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.source import Source
from ctk.envfile.subdirs import FAMILIES, SUBDIRS
from ctk.envfile.toml_file import Toml, TomlPath, read_toml

DEFAULT = "default"
TABLES = ("workspace", "project", "dependencies", "pypi-dependencies", "feature", "environments")
"""The tables of a pixi.toml; one of them is in each."""

# The packages of an environment: "The `dependencies` table(s)" in pixi's docs.
_CONDA_TABLES = ("dependencies", "host-dependencies", "build-dependencies")
_PIP_TABLE = "pypi-dependencies"
_NOT_READ = ("constraints", "dev")  # limits for versions; packages that are made from source


@dataclass(frozen=True)
class Platform:
    """An entry of ``platforms``: a subdir, and the driver and GPU that are declared for it."""

    subdir: str
    name: str = ""
    driver: str = ""
    arch: str = ""

    def is_named(self, name: str) -> bool:
        """Whether a feature means it: by its name, also that which pixi makes, or by its subdir."""
        if name in (self.subdir, self.name):
            return True
        return not self.name and name.startswith(f"{self.subdir}-")


@dataclass(frozen=True)
class Feature:
    """What an environment is made of.

    Attributes:
        channels: Priority and name of each; None if it has none of its own.
        platforms: Names or subdirs; None if it is for all.
        driver: The CUDA version of its ``system-requirements``; or "".
    """

    lines: tuple[Line, ...] = ()
    channels: tuple[tuple[int, str], ...] | None = None
    platforms: tuple[str, ...] | None = None
    driver: str = ""


def read_pixi(source: Source) -> EnvironmentFile:
    """A pixi.toml.

    Raises:
        FileUnreadable: It is not valid TOML, or a table or value has another type than pixi's.
    """
    workspace = Workspace(read_toml(source), ())
    environments = workspace.environments({})
    notes = first_notes(workspace.notes)
    return EnvironmentFile(source.path, Format.PIXI, source.text, environments, notes)


class Workspace:
    """The tables of pixi in a file, below a path: () or ``tool.pixi``."""

    def __init__(self, toml: Toml, root: TomlPath) -> None:
        is_new = toml.get((*root, "workspace")) is not None
        self.toml = toml
        self.root = root
        self.table: TomlPath = (*root, "workspace" if is_new else "project")
        self.notes: list[str] = []
        toml.table(self.table)
        if toml.table((*root, "package")):
            line = toml.line((*root, "package"))
            self.notes.append(f"line {line}: `package` is of no environment, and is not read")
        self.channels = self._channels(self.table) or ()
        self.platforms = tuple(self._platforms())

    def environments(self, others: Mapping[str, Feature]) -> tuple[FileEnvironment, ...]:
        """The environments, the default one first.

        A feature that no environment has is read as an environment of its own: pixi installs it
        nowhere, and its lines are answered all the same.

        Args:
            others: Features that other tables define, by name; `DEFAULT` is for each environment.
        """
        features = self._features(others)
        members = self._members(features)
        used = {name for names in members.values() for name in names}
        unused = [name for name in features if name not in used and name not in members]
        found = [self._environment(name, own, features) for name, own in members.items()]
        for name in unused:
            environment = self._environment(name, [name, DEFAULT], features)
            found.append(replace(environment, is_unused=True))
        return tuple(found)

    def _members(self, features: dict[str, Feature]) -> dict[str, list[str]]:
        """Environment, the default one first -> its features, that of the main tables last.

        Adds to the features what is said in an environment itself.
        """
        members = {DEFAULT: [DEFAULT]}
        for name, value in self.toml.table((*self.root, "environments")).items():
            path = (*self.root, "environments", name)
            names = self._feature_names(path, value)
            unknown = [feature for feature in names if feature not in features]
            for feature in unknown:
                self.notes.append(f"line {self.toml.line(path)}: there is no feature `{feature}`")
            members[name] = [feature for feature in names if feature in features]
            if isinstance(value, dict):
                own = f"environments.{name}"
                features[own] = self._feature(path)
                members[name].insert(0, own)
        return members

    def _feature_names(self, path: TomlPath, value: Any) -> list[str]:
        if isinstance(value, list):
            return [*self.toml.texts(path), DEFAULT]
        self.toml.table(path)
        names = self.toml.texts((*path, "features"))
        has_default = self.toml.get((*path, "no-default-feature")) is not True
        return [*names, DEFAULT] if has_default else names

    def _environment(
        self, name: str, names: Iterable[str], features: Mapping[str, Feature]
    ) -> FileEnvironment:
        members = [features[member] for member in dict.fromkeys(names)]
        lines = [line for feature in members for line in feature.lines]
        platforms = [entry for entry in self.platforms if _is_for_all(members, entry)]
        drivers = self._drivers(members, platforms)
        return FileEnvironment(
            name,
            tuple(sorted(dict.fromkeys(lines), key=lambda line: line.number)),
            self._channels_of(members),
            tuple(dict.fromkeys(entry.subdir for entry in platforms)),
            drivers,
            _archs(platforms, drivers),
            _with_driver(members, platforms, drivers),
        )

    def _channels_of(self, members: Iterable[Feature]) -> tuple[str, ...]:
        """As `prioritized_channels` of pixi (features_ext.rs): a higher priority comes first."""
        every: list[tuple[int, str]] = []
        for feature in members:
            own = self.channels if feature.channels is None else feature.channels
            every += own
        every.sort(key=lambda entry: -entry[0])
        return tuple(dict.fromkeys(channel for _, channel in every))

    def _drivers(self, members: Iterable[Feature], platforms: Iterable[Platform]) -> dict[str, str]:
        """Of several for a platform, the highest: "the highest declared version wins" (pixi)."""
        stated = [feature.driver for feature in members if feature.driver]
        entries = list(platforms)
        if not self.platforms:
            entries = [Platform(subdir) for subdir in PLATFORMS]
        found: dict[str, str] = {}
        for entry in entries:
            if entry.subdir in FAMILIES["osx"]:
                continue
            versions = [*stated, entry.driver, found.get(entry.subdir, "")]
            newest = max(versions, key=version_key)
            if newest:
                found[entry.subdir] = newest
        return found

    # Features

    def _features(self, others: Mapping[str, Feature]) -> dict[str, Feature]:
        main = self._feature(self.root)
        found = {DEFAULT: replace(main, channels=None, platforms=None)}
        for name in self.toml.table((*self.root, "feature")):
            found[name] = self._feature((*self.root, "feature", name))
        for name, other in others.items():
            own = found.get(name, Feature())
            found[name] = replace(own, lines=(*own.lines, *other.lines))
        return found

    def _feature(self, path: TomlPath) -> Feature:
        self.toml.table(path)
        lines = self._lines(path)
        for target in self.toml.table((*path, "target")):
            for line in self._lines((*path, "target", target)):
                narrowed = narrow(line, self._subdirs_of(target))
                lines.extend([narrowed] if narrowed else [])
        needs = (*path, "system-requirements")
        self.toml.table(needs)
        has_platforms = self.toml.get((*path, "platforms")) is not None
        return Feature(
            lines=tuple(lines),
            channels=self._channels(path),
            platforms=tuple(self.toml.texts((*path, "platforms"))) if has_platforms else None,
            driver=self._version(
                (*needs, "cuda"), self.toml.get((*needs, "cuda")), "driver", "version"
            ),
        )

    def _subdirs_of(self, target: str) -> tuple[str, ...]:
        """The platforms of a target: a family, a subdir, a name or a pattern of names."""
        if target in FAMILIES:
            return FAMILIES[target]
        if target in SUBDIRS:
            return (target,)
        named = [
            entry.subdir
            for entry in self.platforms
            if fnmatchcase(entry.name or entry.subdir, target)
        ]
        return tuple(dict.fromkeys(named)) or (target,)

    def _lines(self, path: TomlPath) -> list[Line]:
        part = ".".join(map(str, path))
        found: list[Line] = []
        for kind in _CONDA_TABLES:
            for name, value in self.toml.table((*path, kind)).items():
                found.append(self._conda_line((*path, kind, name), value, part))
        for name, value in self.toml.table((*path, _PIP_TABLE)).items():
            found.append(self._pip_line((*path, _PIP_TABLE, name), value, part))
        for kind in _NOT_READ:
            if self.toml.table((*path, kind)):
                line = self.toml.line((*path, kind))
                self.notes.append(f"line {line}: `{kind}` installs no package, and is not read")
        return found

    def _conda_line(self, path: TomlPath, value: Any, part: str) -> Line:
        name = str(path[-1])
        asked = self._inherited(name, value)
        if isinstance(asked, str):
            asked = {"version": asked}
        if not isinstance(asked, dict):
            raise self.toml.error(path, "a version or a table")
        version = str(asked.get("version", "*")).strip()
        build = str(asked.get("build", "")).strip()
        wanted = [name]
        if build or version != "*":
            wanted.append(version)
        if build:
            wanted.append(build)
        return Line(
            number=self.toml.line(path),
            text=self.toml.words(path),
            tool=Tool.CONDA,
            name=name.lower(),
            spec=" ".join(wanted),
            channel=str(asked.get("channel", "")),
            part=part,
        )

    def _inherited(self, name: str, value: Any) -> Any:
        """What ``{ workspace = true }`` takes from the packages of the workspace."""
        if not isinstance(value, dict) or value.get("workspace") is not True:
            return value
        base = self.toml.table((*self.table, "dependencies")).get(name, "*")
        if isinstance(base, str):
            base = {"version": base}
        return {**base, **value} if isinstance(base, dict) else base

    def _pip_line(self, path: TomlPath, value: Any, part: str) -> Line:
        asked = {"version": value} if isinstance(value, str) else value
        if not isinstance(asked, dict):
            raise self.toml.error(path, "a version or a table")
        line = pip_line(_requirement(str(path[-1]), asked), self.toml.line(path), part)
        if line is None:
            raise self.toml.error(path, "a package of pip")
        return replace(line, text=self.toml.words(path))

    # Channels, platforms, drivers

    def _channels(self, path: TomlPath) -> tuple[tuple[int, str], ...] | None:
        """Priority and name of each channel; None if a table has no list of them."""
        place = (*path, "channels")
        if self.toml.get(place) is None:
            return None
        found = []
        for entry in self.toml.items(place):
            named = {"channel": entry} if isinstance(entry, str) else entry
            if not isinstance(named, dict) or not isinstance(named.get("channel"), str):
                raise self.toml.error(place, "a list of channels")
            priority = named.get("priority", 0)
            if not isinstance(priority, int):
                raise self.toml.error(place, "a list of channels with numbers as priorities")
            found.append((priority, named["channel"]))
        return tuple(found)

    def _platforms(self) -> Iterable[Platform]:
        place = (*self.table, "platforms")
        for number, entry in enumerate(self.toml.items(place)):
            if isinstance(entry, str):
                yield Platform(entry, entry)
                continue
            if not isinstance(entry, dict):
                raise self.toml.error(place, "a list of platforms")
            name = str(entry.get("name", ""))
            cuda = entry.get("cuda", entry.get("__cuda"))
            driver = self._version((*place, number, "cuda"), cuda, "driver", "version")
            arch = cuda.get("arch") if isinstance(cuda, dict) else None
            gpu = self._version((*place, number, "cuda", "arch"), arch)
            yield Platform(str(entry.get("platform", name)), name, driver, gpu)

    def _version(self, path: TomlPath, value: Any, *keys: str) -> str:
        """A version: a text, a number, or the first of `keys` that a table has; "" for None."""
        if isinstance(value, dict):
            value = next((value[key] for key in keys if key in value), None)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self.toml.error(path, "a version")
        return str(value).strip().lstrip(">= ")


def _archs(platforms: Iterable[Platform], drivers: Mapping[str, str]) -> dict[str, str]:
    """The GPU that is declared with the driver of each platform."""
    return {
        entry.subdir: entry.arch
        for entry in platforms
        if entry.arch and entry.driver == drivers.get(entry.subdir)
    }


def _with_driver(
    members: Iterable[Feature], platforms: Sequence[Platform], drivers: Iterable[str]
) -> tuple[str, ...]:
    """The platforms of which each entry has a driver, its own or that of a feature."""
    if any(feature.driver for feature in members):
        return tuple(drivers)
    without = {entry.subdir for entry in platforms if not entry.driver}
    return tuple(subdir for subdir in drivers if subdir not in without)


def _is_for_all(members: Iterable[Feature], entry: Platform) -> bool:
    """Whether each feature of an environment is for a platform."""
    for feature in members:
        if feature.platforms is None:
            continue
        if not any(entry.is_named(name) for name in feature.platforms):
            return False
    return True


def _requirement(name: str, asked: Mapping[str, Any]) -> str:
    """An entry of pypi-dependencies as a requirement of pip: ``jax[cuda12]>=0.4``."""
    extras = asked.get("extras")
    listed = [str(extra) for extra in extras] if isinstance(extras, list) else []
    whole = f"{name}[{','.join(listed)}]" if listed else name
    for kind in ("git", "url", "path"):
        if kind in asked:
            prefix = "git+" if kind == "git" else ""
            return f"{whole} @ {prefix}{asked[kind]}"
    version = str(asked.get("version", "*")).strip()
    return whole if version in ("*", "") else f"{whole}{version}"
