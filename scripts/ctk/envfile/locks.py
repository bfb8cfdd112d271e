"""Reads locks: conda-lock.yml and pixi.lock through rattler, pylock.toml through packaging."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError
from packaging.utils import canonicalize_name

from ctk.envfile.lines import of_address
from ctk.envfile.model import EnvironmentFile, FileEnvironment, Format, Line, Tool
from ctk.envfile.source import Source
from ctk.envfile.subdirs import of_marker
from ctk.envfile.toml_file import TomlPath, read_toml

if TYPE_CHECKING:  # slow to import
    from rattler import LockChannel, LockedPackage, LockFile
    from rattler.lock import Environment

_DEFAULT = "default"
_REMAKE = "make the lock again with the tool that wrote it"
_PACKAGES = re.compile(r"^packages?:", re.MULTILINE)


def read_rattler_lock(source: Source, format: Format) -> EnvironmentFile:
    """A conda-lock.yml, or a pixi.lock of any version that rattler reads.

    A package is one line, for the platforms that have it. Its channel is an address, as the lock
    has it.

    Raises:
        FileUnreadable: It is no such lock, or newer than rattler.
    """
    lock = _load(source)
    places = _Places(source.text)
    found = {
        name: _environment(name, environment, places) for name, environment in lock.environments()
    }
    # rattler has them in any order
    order = sorted(found, key=lambda name: (name != _DEFAULT, places.of_environment(name)))
    environments = tuple(found[name] for name in order)
    if format is Format.CONDA_LOCK:  # has one, without a name
        environments = tuple(replace(environment, name="") for environment in environments)
    return EnvironmentFile(source.path, format, source.text, environments)


def _load(source: Source) -> LockFile:
    from rattler import LockFile

    try:
        with TemporaryDirectory() as folder:
            copy = Path(folder, "lock")  # without a byte order mark, which rattler does not read
            copy.write_text(source.text, encoding="utf-8")
            return LockFile.from_path(copy)
    except Exception as error:  # rattler's own, and those of Python for what it cannot convert
        first, *_ = str(error).splitlines() or [type(error).__name__]
        place = re.search(r"\bline (\d+)", str(error))
        line = int(place[1]) if place else 0
        raise source.error(line, f"rattler cannot read it as a lock: {first}", _REMAKE) from None


class _Places:
    """The lines of a lock: of each address, and of the entry in the list that has it."""

    def __init__(self, text: str) -> None:
        self.texts = text.split("\n")
        self._addresses: dict[str, int] = {}
        self._environments: dict[str, int] = {}
        header = _PACKAGES.search(text)
        first = text.count("\n", 0, header.start()) if header else 0
        self.header = first + 1
        self._scan(first)
        for number, line in enumerate(self.texts[:first], start=1):
            if name := re.fullmatch(r"  ([^\s:]+):\s*", line.rstrip()):
                self._environments.setdefault(name[1], number)

    def _scan(self, first: int) -> None:
        bullet = ""
        entry = self.header
        for number, raw in enumerate(self.texts[first + 1 :], start=first + 2):
            indent = raw[: len(raw) - len(raw.lstrip())]
            is_entry = raw.lstrip().startswith("- ")
            if is_entry and not bullet:
                bullet = f"{indent}- "
            if bullet and raw.startswith(bullet):
                entry = number
            for word in raw.split():
                if "/" in word or word.startswith("."):
                    self._addresses.setdefault(_plain(word), entry)

    def of_address(self, address: str) -> int:
        """The line of the entry of a package."""
        return self._addresses.get(_plain(address), self.header)

    def of_environment(self, name: str) -> int:
        return self._environments.get(name, self.header)

    def words(self, number: int) -> str:
        """What the file says on a line, without the bullet of a list."""
        return self.texts[number - 1].strip().removeprefix("- ")


def _plain(address: str) -> str:
    return address.strip("\"'").partition("#")[0]


def _environment(name: str, environment: Environment, places: _Places) -> FileEnvironment:
    subdirs_of: dict[Line, set[str]] = {}
    drivers: dict[str, str] = {}
    every: set[str] = set()
    for platform, packages in environment.packages_by_platform().items():
        subdir = str(platform.subdir)
        every.add(subdir)
        for virtual in platform.virtual_packages or ():
            if virtual.startswith("__cuda="):
                drivers[subdir] = virtual.split("=")[1]
        for package in packages:
            subdirs_of.setdefault(_locked(package, places), set()).add(subdir)
    lines = [
        line if subdirs == every else replace(line, subdirs=tuple(sorted(subdirs)))
        for line, subdirs in subdirs_of.items()
    ]
    lines.sort(key=lambda line: (line.number, line.name, line.spec))
    channels = [channel_name(channel) for channel in environment.channels()]
    return FileEnvironment(name, tuple(lines), tuple(channels), tuple(sorted(every)), drivers)


def channel_name(channel: LockChannel) -> str:
    """The name or address of a channel of a lock, without a slash at its end."""
    found = re.search(r'url="([^"]*)"', repr(channel))  # it has no attribute for it
    return found[1].rstrip("/") if found else str(channel)


def _locked(package: LockedPackage, places: _Places) -> Line:
    from rattler.lock import PypiLockedPackage

    number = places.of_address(package.location)
    text = places.words(number)
    if isinstance(package, PypiLockedPackage):
        return _of_pip(package.name, package.version, number, text)
    archive = of_address(package.location)
    if archive:
        return replace(archive, number=number, text=text)
    return Line(number, text, Tool.CONDA, package.name.lower(), package.name)


def _of_pip(name: str, version: str | None, number: int, text: str) -> Line:
    is_known = version is not None and version != "<dynamic>"  # rattler's word for a folder's
    spec = f"{name}=={version}" if is_known else name
    return Line(number, text, Tool.PIP, canonicalize_name(name), spec)


def read_pylock(source: Source) -> EnvironmentFile:
    """A pylock.toml.

    Raises:
        FileUnreadable: It is not valid TOML, or breaks the standard of these files.
    """
    toml = read_toml(source)
    try:
        lock = Pylock.from_dict(toml.data)
    except PylockUnsupportedVersionError as error:
        raise source.error(toml.line(("lock-version",)), str(error), _REMAKE) from None
    except PylockValidationError as error:
        number = toml.line(_path_of(error.context or ""))
        raise source.error(number, f"it is not a pylock.toml: {error}", _REMAKE) from None
    locked = []
    for index, package in enumerate(lock.packages):
        path = ("packages", index, "name")
        version = str(package.version) if package.version is not None else None
        line = _of_pip(package.name, version, toml.line(path), toml.words(path))
        locked.append(replace(line, subdirs=of_marker(package.marker)))
    environment = FileEnvironment("", tuple(locked))
    return EnvironmentFile(source.path, Format.PYLOCK, source.text, (environment,))


def _path_of(context: str) -> TomlPath:
    """``packages[3].name`` of packaging's error as a path."""
    keys = re.findall(r"[^.\[\]]+", context)
    return tuple(int(key) if key.isdigit() else key for key in keys)
