"""The content of a prefix: conda's records, files that are not as installed, and ctk's note."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeGuard

from packaging.utils import canonicalize_name

from ctk.core.disk import refuse_unreadable
from ctk.core.files import LARGEST, open_plain, read_json, read_plain
from ctk.core.inside import place_in, wrong_with
from ctk.env.record_files import Damage, RecordFile, files_of
from ctk.solve.machine import python_specs

NOTE = Path("conda-meta", "ctk")
"""Without the ending .json, or conda would read it as a package's record."""
LOCK = Path("conda-meta", "ctk.lock")
PACKED = "packed"
"""The stamp in a pack: no environment has it where it is unpacked, so that its files are looked at.
"""

_DISTRIBUTION = re.compile(
    r"^(?:lib/python3[^/\n]*|Lib)/site-packages/([\w.]+)-[^/\n]*\.(?:dist|egg)-info/", re.M
)
_SPEC = re.compile(r"[a-z0-9_][\w.-]*([ =<>!~\[][^/\n]{0,200})?")
_UNPACKED = "_prefix_records"
"""The list of files in conda-unpack: conda_pack/core.py."""
_STARTS = re.compile(
    rb"#!(?:(/[^\s\x00]*/bin/python[\d.]*)\s|/bin/sh\n'''exec'"
    rb" \"?(/[^\"\n\x00]*/bin/python[\d.]*)\"? )"
)
"""The beginning of a script of Python.

Pip writes the second for a path that is long or has a space.
"""


@dataclass(frozen=True)
class Note:
    """The note of `ctk env create` in a prefix. Without a stamp, the command did not finish."""

    packages: tuple[str, ...]  # keys of `Installed.packages`
    asked: tuple[str, ...] = ()  # the request as the user typed it, without the prefix
    stamp: str = ""  # `Installed.stamp` at the end

    @classmethod
    def read(cls, prefix: Path) -> Note | None:
        """The note of a prefix; None if it is missing or damaged."""
        try:
            note = cls(**read_json(prefix / NOTE))
            return cls(tuple(map(str, note.packages)), tuple(map(str, note.asked)), str(note.stamp))
        except TypeError:
            return None

    def write(self, prefix: Path) -> None:
        rewrite(prefix / NOTE, json.dumps(asdict(self), indent=1).encode())

    @property
    def machine(self) -> dict[str, str]:
        """The options of the request that state a machine, ``--driver`` and ``--arch`` -> value."""
        return {
            option: value
            for option, value in pairwise(self.asked)
            if option in ("--driver", "--arch")
        }

    @property
    def specs(self) -> tuple[str, ...]:
        """The specs of the request, with those for ``--python``.

        Each of its options has a value.
        """
        found: list[str] = []
        words = iter(self.asked)
        for word in words:
            if not word.startswith("--"):
                found.append(word)
                continue
            value = next(words, "")
            if not value:
                found.append(word)
            elif word == "--python":
                found += python_specs(value)
        return tuple(found)

    def again(
        self, prefix: Path, *more: str, driver: str | None = None, arch: str | None = None
    ) -> str:
        """The command that creates the environment again, with more specs.

        With a driver, it is for another machine: the one with this driver and this GPU.
        """
        machine = {"--driver": driver, "--arch": arch} if driver else self.machine
        old = {*chain.from_iterable(self.machine.items())}
        words = [word for word in self.asked if word not in old]
        words += [word for option, value in machine.items() if value for word in (option, value)]
        return shlex.join(["ctk", "env", "create", *words, *more, "--prefix", str(prefix)])


@dataclass(frozen=True)
class Installed:
    """The packages of a prefix, by conda's records."""

    prefix: Path
    records: Mapping[Path, Mapping[str, Any]]
    broken: tuple[Path, ...]  # records that cannot be read, such as those of an interrupted run

    @classmethod
    def read(cls, prefix: Path) -> Installed:
        """Reads the records.

        Raises:
            NoSpace: This user may not read a record.
        """
        files = sorted((prefix / "conda-meta").glob("*.json"))
        refuse_unreadable(prefix / "conda-meta", *files)
        records = {}
        for file in files:
            record = read_json(file) if file.is_file() else None  # a pipe would wait
            if _is_record(record):
                records[file] = record
        return cls(prefix, records, tuple(file for file in files if file not in records))

    @cached_property
    def files(self) -> dict[str, tuple[RecordFile, ...]]:
        """Package -> its files that nothing should change; of all records with its name."""
        found: dict[str, tuple[RecordFile, ...]] = {}
        for record in self.records.values():
            name = str(record["name"])
            found[name] = (*found.get(name, ()), *files_of(record))
        return found

    @cached_property
    def named_files(self) -> set[str]:
        """All files that records name, bytecode too.

        conda's records of noarch Python packages have other paths in `paths_data`: those in the
        package.
        """
        return {str(path) for record in self.records.values() for path in record.get("files") or ()}

    @cached_property
    def packages(self) -> dict[str, str]:
        """File name and sha256 of each package -> its name and version."""
        return {
            package_key(r.get("fn"), r.get("sha256")): f"{r['name']} {r.get('version', '')}"
            for r in self.records.values()
        }

    @property
    def requested(self) -> list[str]:
        """The specs that somebody asked conda or mamba for, as the client noted them.

        Of a clone, or of an explicit list, there are none: every package was asked for by its
        address.
        """
        noted = [record.get("requested_spec") for record in self.records.values()]
        return [spec for spec in noted if isinstance(spec, str) and _SPEC.fullmatch(spec)]

    @cached_property
    def stamp(self) -> str:
        """A digest of inodes, sizes and ctimes of all files of packages; "" if a file is missing.

        Only the kernel sets a ctime. It changes with each write, and also with each hard link that
        another environment makes or removes: then the files are read.
        """
        digest = hashlib.sha256()
        for path in sorted(file.path for files in self.files.values() for file in files):
            try:
                status = (self.prefix / path).lstat()
                line = f"{path} {status.st_ino} {status.st_size} {status.st_ctime_ns}\n"
                digest.update(line.encode())
            except (OSError, ValueError):
                return ""
        return digest.hexdigest()

    @cached_property
    def scripts_of_others(self) -> dict[str, Path]:
        """The scripts of packages that start the Python of another place -> that Python.

        There are some after an environment was moved or copied.
        """
        found = {}
        paths = sorted(file.path for files in self.files.values() for file in files)
        for path in paths:
            if not path.startswith("bin/") or wrong_with(path):
                continue
            with suppress(OSError), open_plain(self.prefix / path) as content:
                if line := _STARTS.match(content.read(1000)):
                    python = Path(os.fsdecode(line[1] or line[2]))
                    there = python.parents[1]
                    is_other = not there.exists() or (there / "conda-meta").is_dir()
                    if is_other and there.resolve() != self.prefix.resolve():
                        found[path] = python
        return found

    @property
    def with_prefix(self) -> dict[str, list[str]]:
        """Package -> its files that have the prefix in them, and its scripts."""
        found = {}
        for name, files in self.files.items():
            paths = [file.path for file in files if file.has_prefix]
            scripts = self.scripts_of_others.keys() & {file.path for file in files}
            if paths or scripts:
                found[name] = list(dict.fromkeys([*paths, *sorted(scripts)]))
        return found

    @cached_property
    def distributions(self) -> dict[str, str]:
        """The Python distributions in its packages, by their canonical names -> the package.

        Those inside of others are none.
        """
        found = {}
        for name, files in self.files.items():
            paths = "\n".join(file.path for file in files)
            for distribution in _DISTRIBUTION.findall(paths):
                found[str(canonicalize_name(distribution))] = name
        return found

    @cached_property
    def of_pip(self) -> dict[Path, frozenset[str]]:
        """The dist-info of each Python distribution that conda did not install -> its files.

        Their paths are below the prefix.
        """
        own = {file.path: file for files in self.files.values() for file in files}
        folders = {os.path.dirname(path) for path in own}
        infos = [info for site in sites(self.prefix) for info in site.glob("*.dist-info")]
        found = {}
        for info in sorted(infos):
            place = info.relative_to(self.prefix).as_posix()
            # pip may have replaced conda's distribution by the same version: the file differs from
            # the installed file.
            installer = own.get(f"{place}/INSTALLER") if text_of(info / "INSTALLER") else None
            is_replaced = installer is not None and installer.damage(self.prefix) is not None
            if place not in folders or is_replaced:
                folder = os.path.dirname(place)
                named = [os.path.join(folder, path) for path in _files_of_wheel(info)]
                paths = [os.path.normpath(path) for path in named]
                found[info] = frozenset(path for path in paths if not wrong_with(path))
        return found

    def damage(self) -> dict[str, dict[str, Damage]]:
        """Package -> its files that are not as they were installed, and how. Reads all files.

        Of packages that bring the same file, the client installs one: the file is right if it is
        that of any of them.
        """
        files = [(name, file) for name, files in self.files.items() for file in files]
        with ThreadPoolExecutor() as pool:
            states = list(pool.map(lambda each: each[1].damage(self.prefix), files))
        seen = list(zip(files, states, strict=True))
        right = {file.path for (_, file), state in seen if state is None}
        found: dict[str, dict[str, Damage]] = defaultdict(dict)
        for (name, file), state in seen:
            if state and file.path not in right:
                found[name][file.path] = state
        return dict(found)


def _files_of_wheel(info: Path) -> list[str]:
    """The paths that the RECORD of a wheel names, and those in its dist-info, also without one.

    They are relative to the folder of modules.
    """
    lines = text_of(info / "RECORD").splitlines()
    named = [line.rsplit(",", 2)[0].strip('"') for line in lines]
    there = [f"{info.name}/{name}" for name in ("RECORD", *os.listdir(info))]
    return named + there


def sites(prefix: Path) -> list[Path]:
    """The folders of modules of an environment's own Python."""
    own = [
        place
        for place in prefix.glob("lib/python3*/site-packages")
        if not place.parent.is_symlink()
    ]
    found = [*own, *prefix.glob("Lib/site-packages")]
    inside = [place_in(prefix, f"{place.relative_to(prefix).as_posix()}/any") for place in found]
    return [place for place, is_inside in zip(found, inside, strict=True) if is_inside]


def _is_record(record: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether the name and the files in a record have the types that a client writes."""
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        return False
    files, data = record.get("files") or [], record.get("paths_data") or {}
    if not isinstance(files, list) or not isinstance(data, dict):
        return False
    entries = data.get("paths") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return False
    named = files + [entry.get("_path") for entry in entries]
    return bool(record["name"]) and all(isinstance(path, str) for path in named)


def left_to_unpack(prefix: Path) -> list[str]:
    """The files in which conda-pack left another path than the environment's.

    Its program conda-unpack lists them, with the path that it replaces. When it has run, none is
    left.
    """
    left = []
    for path, placeholder in _listed_by_conda_unpack(text_of(prefix / "bin" / "conda-unpack")):
        place = place_in(prefix, path)
        is_replaced = placeholder in str(prefix)  # it is in the new path, too
        if place and not is_replaced and _has(place, placeholder):
            left.append(path)
    return left


def _listed_by_conda_unpack(program: str) -> list[tuple[str, str]]:
    """Path and placeholder of each entry of the program's list `_prefix_records`."""
    try:
        for node in ast.parse(program).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if [target.id for target in targets if isinstance(target, ast.Name)] == [_UNPACKED]:
                entries = ast.literal_eval(node.value)  # type: ignore[attr-defined]  # an Assign
                return [(str(path), str(placeholder)) for path, placeholder, _ in entries]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass  # it is another program
    return []


def _has(file: Path, text: str) -> bool:
    with suppress(OSError):
        return bool(text) and os.fsencode(text) in read_plain(file)
    return False


def text_of(file: Path) -> str:
    """The text of a file; "" if it cannot be read as text."""
    try:
        with open_plain(file) as content:
            return content.read(LARGEST).decode("utf-8")
    except PermissionError:
        raise
    except (OSError, ValueError):
        return ""


def rewrite(file: Path, content: bytes) -> None:
    """Replaces a file of an environment by a new one with the mode that the umask gives.

    Nothing is written into the old file: it may be a hard link into the cache of packages.
    """
    fresh = file.with_name(f"{file.name}.part")
    fresh.unlink(missing_ok=True)  # of a killed run, or a link to somewhere else
    fresh.write_bytes(content)
    fresh.replace(file)


def package_key(file: Any, sha256: Any) -> str:
    """The key of a package in a note: builds with the same file name can have another content."""
    return f"{file or ''}#{sha256 or ''}"
