"""An environment as a tar that unpacks under any path, and in which nothing names this machine.

conda-pack takes files from the package cache, with the placeholder that packages have for their prefix, and writes a
program, conda-unpack, that knows them.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit, urlunsplit

from conda_pack.core import CondaEnv, CondaPackException, Packer
from rattler import RepoDataRecord

from ctk.core.errors import PackFailed
from ctk.env.environment import RUNNER
from ctk.package.binaries import UnreadableBinary, read_binary, version_key
from ctk.solve.solve import channel_name

_BLOCK = 4096
# The oldest glibc that any platform of the channel is made for, where no package and no binary needs a newer one.
_OLDEST_GLIBC = "2.17"


class Archive:
    """A tar for conda-pack to write into, without owners, umask and clock of this machine.

    Every member has one modification time, in seconds since 1970, and none may hold the path of the environment.
    """

    def __init__(self, target: BinaryIO, stamp: int, prefix: Path) -> None:
        self._tar = tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self._stamp, self._prefix = stamp, prefix
        self.kibibytes = 0  # of the members, on a disk with blocks of 4 KiB

    def add(self, source: str, target: str) -> None:
        """A file, link or folder of the disk."""
        info = self._tar.gettarinfo(source, target)
        if info.isreg():
            with open(source, "rb") as file:
                self._write(info, file)
        else:
            self._write(info, None)

    def add_bytes(self, source: str, sourcebytes: bytes, target: str) -> None:
        """A file with other content than it has on disk, which may not hold the path of this environment."""
        if os.fsencode(self._prefix) in sourcebytes:
            raise PackFailed(
                f"{target} holds {self._prefix}, where the environment was made",
                "leave out the package that it belongs to, or pack in a checkout whose path is shorter",
            )
        info = self._tar.gettarinfo(source, target)
        # A hard link to a file that is already there would bring that file's content.
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", len(sourcebytes)
        self._write(info, io.BytesIO(sourcebytes))

    def add_program(self, source: Path, target: str) -> None:
        """A file that can be run, whatever its mode here is: installing this package may not have kept it."""
        info = tarfile.TarInfo(target)
        info.size, info.mode = source.stat().st_size, 0o755
        with source.open("rb") as file:
            self._write(info, file)

    def close(self) -> None:
        """Ends the tar; the file that it goes to stays open."""
        self._tar.close()

    def _write(self, info: tarfile.TarInfo, content: Any) -> None:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = self._stamp
        if not info.issym():
            info.mode = 0o755 if info.isdir() or info.mode & stat.S_IXUSR else 0o644
        self.kibibytes += (-(-info.size // _BLOCK) + 1) * (_BLOCK >> 10)
        self._tar.addfile(info, content)


def write_archive(prefix: Path, target: BinaryIO, stamp: int) -> int:
    """Writes an environment that was just installed, and is changed for it; returns the KiB that it takes unpacked.

    conda-pack reads its packages from the cache from which they were installed, and may refuse: `PackFailed`.
    """
    _remove_traces(prefix)
    with closing(Archive(target, stamp, prefix)) as archive:
        try:
            environment = CondaEnv.from_prefix(str(prefix), on_missing_cache="raise")
            packer = Packer(environment.prefix, archive)
            for file in environment:
                packer.add(file)
            # What is not a package's file is listed with the path here, which `add_bytes` saw to be in none.
            packer.prefixes = [record for record in packer.prefixes if record[1] != environment.prefix]
            packer.finish()
        except CondaPackException as error:
            raise PackFailed(
                f"conda-pack refuses the environment: {' '.join(str(error).split())}",
                "see what the packages that it names hold; `ctk audit` looks into packages of the channel",
            ) from error
        for path in _bytecode(prefix, {f.target for f in environment}, {record[0] for record in packer.prefixes}):
            archive.add(str(prefix / path), path)
        # The last member: where it is, everything is.
        archive.add_program(RUNNER, f"bin/{RUNNER.name}")
    return archive.kibibytes


def _bytecode(prefix: Path, written: set[str], changed: set[str]) -> Iterator[str]:
    """The bytecode that conda-pack leaves out: no package brings it. A file that unpacking changes needs another."""
    for file in sorted(prefix.glob("lib/python3*/**/__pycache__/*.pyc")):
        path, module = file.relative_to(prefix), f"{file.name.rsplit('.', 2)[0]}.py"
        if path.as_posix() not in written and (path.parent.parent / module).as_posix() not in changed:
            yield path.as_posix()


def _remove_traces(prefix: Path) -> None:
    """Removes from an environment's records where it was made and where its packages came from."""
    # rattler marks what it installs as a cache, and backups leave caches out; here it would be the only copy.
    (prefix / "CACHEDIR.TAG").unlink(missing_ok=True)
    for file in (prefix / "conda-meta").glob("*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        for path in record.get("paths_data", {}).get("paths", ()):
            # Of files with this folder's path in them, which no other machine has.
            path.pop("sha256_in_prefix", None)
            if path.get("path_type") == "unix_python_entry_point":
                path.pop("sha256", None)
                path.pop("size_in_bytes", None)
        # Not in place: the file may be a hard link.
        file.unlink()
        file.write_text(json.dumps({**record, **public_source(record)}, indent=1), encoding="utf-8")
    # Where this path does not fit into a #! line, commands of Python packages have a form that conda-pack keeps.
    long_form = re.compile(rb"#!/bin/sh\n'''exec' \"" + re.escape(os.fsencode(prefix)) + rb"/bin/([^\"/]+)\" .*\n")
    for file in (prefix / "bin").glob("*"):
        if file.is_file() and not file.is_symlink() and (match := long_form.match(content := file.read_bytes())):
            mode = file.stat().st_mode
            file.unlink()
            file.write_bytes(b"#!/usr/bin/env " + match[1] + b"\n" + content[match.end() :])
            file.chmod(mode)


def public_source(record: Mapping[str, Any]) -> dict[str, str]:
    """Channel and address of an installed package as others may read them.

    A channel on this machine keeps its name only; an address loses the user's name, password and token.
    """
    channel, address = str(record.get("channel") or ""), str(record.get("url") or "")
    if not urlsplit(address).scheme.startswith("http"):
        name = channel_name(channel)
        return {"channel": name, "url": f"file:///{name}/{record['subdir']}/{record['fn']}"}
    return {"channel": _without_secrets(channel), "url": _without_secrets(address)}


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    folders = parts.path.split("/")
    if folders[1:2] == ["t"]:  # conda's form of a token: https://host/t/<token>/channel
        folders[1:3] = []
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], path="/".join(folders), query=""))


def needed_glibc(records: Iterable[RepoDataRecord], prefix: Path) -> str:
    """The newest glibc that a package declares or a binary needs: a base channel's own Python may declare less."""
    needed = {_OLDEST_GLIBC}
    for record in records:
        needed |= {match[1] for rule in record.depends if (match := re.match(r"__glibc >=(\d+\.\d+)", rule))}
    for path in prefix.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            binary = read_binary(path)
        except UnreadableBinary:  # no loader reads it either
            continue
        if binary is not None and binary.format == "elf":
            needed.add(".".join(binary.versions.get("GLIBC", _OLDEST_GLIBC).split(".")[:2]))
    return max(needed, key=version_key)
