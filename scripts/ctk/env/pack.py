"""Packs the environment of a pick for machines without a network: a program that unpacks itself.

The data are a tar that can be unpacked anywhere, and in which nothing names this machine.
conda-pack takes the files from the package cache, with the placeholder for the prefix, and writes
the program conda-unpack, which replaces it. Beside the program are the explicit lock and the list
of hashes.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from conda_pack.core import CondaEnv, CondaPackException, Packer
from rattler import RepoDataRecord

from ctk.core.address import public
from ctk.core.checkout import Workspace
from ctk.core.disk import BREAKING, disk_errors
from ctk.core.errors import BadValue, PackFailed, UnknownName
from ctk.core.files import file_sha256, open_plain, read_plain
from ctk.core.locks import held
from ctk.core.versions import version_key
from ctk.env.activation import ACTIVATION, PROGRAMS, RUNNER, write_startup
from ctk.env.install import install
from ctk.env.prefix import PACKED, Installed, Note, rewrite
from ctk.env.request import write_history
from ctk.package.binaries import UnreadableBinary, read_binary
from ctk.package.records import glibc_floor
from ctk.solve.solve import Pick, channel_name

_BLOCK = 4096
# The oldest glibc of all platforms of the channel; packages and binaries may need a newer one.
_OLDEST_GLIBC = "2.17"
# Platform -> the output of `uname -m` on its machines.
_MACHINES = {"linux-64": "x86_64 amd64", "linux-aarch64": "aarch64 arm64"}
# The text states the offset of the data, which is its own length: the number has a fixed width.
_DIGITS = 10


@dataclass(frozen=True)
class PackOrder:
    """The files to write: the program, and others with its name and an ending."""

    file: Path
    force: bool = False  # whether existing files may be replaced

    def beside(self, ending: str) -> Path:
        return self.file.with_name(f"{self.file.name}.{ending}")

    def present(self) -> list[Path]:
        """The files of an earlier pack with this name."""
        return [p for p in (self.file, self.beside("lock"), self.beside("sha256")) if p.exists()]


@dataclass(frozen=True)
class Contents:
    """The content of a pack, for the program and for people."""

    about: tuple[str, ...]  # lines for people: the request, the machine, the packages of interest
    subdir: str
    glibc: str  # the oldest version for its programs, e.g. 2.28
    kibibytes: int  # on disk, unpacked


def refuse_order(order: PackOrder, subdir: str) -> None:
    """Refuses a pack that cannot be written, before anything is solved or fetched.

    Raises:
        BadValue, UnknownName: The place, the name or the platform.
    """
    if subdir.startswith("win-"):
        why = (
            "conda-pack writes for the system that it runs on, and nothing here could try the"
            " result"
        )
        raise BadValue(
            f"environments for {subdir} are not packed here: {why}",
            "run conda-pack on a Windows machine",
        )
    if subdir not in _MACHINES:
        raise UnknownName.of("platform", subdir, _MACHINES)
    if re.search(r"[\n\\]", order.file.name):
        raise BadValue(
            f"{order.file.name!r} has a character that sha256sum does not list",
            "choose another name",
        )
    if not order.file.parent.is_dir():
        raise BadValue(f"there is no folder {order.file.parent}", "make it first, or name another")
    present = [path.name for path in order.present()]
    if present and not order.force:
        step = "name another file, or replace them with --force"
        raise BadValue(f"{order.file.parent} already has {', '.join(present)}", step)


def pack(
    pick: Pick,
    about: Sequence[str],
    order: PackOrder,
    workspace: Workspace,
    say: Callable[[str], None],
    asked: Sequence[str] = (),
) -> tuple[Contents, tuple[Path, ...]]:
    """Installs a pick in a scratch folder and packs it.

    Returns the content and the files, the program first. `about` are lines for people about the
    request and the machine, and `asked` is the request as the user typed it, for the note. Equal
    packages and requests give equal files. The files get their names when all of them are complete.
    """
    if pick.record("python") is None:
        why = "the environment has no Python, which is needed where it is unpacked"
        raise BadValue(why, "ask for python as well")
    # A folder on the disk of the package cache, for hard links, and a folder beside the files,
    # which are only renamed.
    beside = order.file.with_name(f".{order.file.name}.parts")
    glibc, needs = declared_glibc(pick.records)
    because = f": {needs} needs it" if needs else ""
    say(f"for machines with glibc {glibc} or newer{because}")
    with held(workspace.temporary) as folder, held(beside) as done:
        prefix = folder / "env"
        install(pick, prefix, workspace.packages)
        write_startup(prefix)
        newest = max((int(r.timestamp.timestamp()) for r in pick.records if r.timestamp), default=0)
        write_history(pick, prefix, time.gmtime(newest))
        Note(tuple(sorted(Installed.read(prefix).packages)), tuple(asked), PACKED).write(prefix)
        # A second look: a package of a channel that nobody audits may declare too little.
        needed, file = newest_binary(prefix)
        if version_key(needed) > version_key(glibc):
            say(f"for machines with glibc {needed} or newer: {file} needs it, undeclared")
            glibc = needed
        say("packing")
        with disk_errors(order.file.parent):
            # No name and no time: equal input gives equal output. Level 6 takes 1.6 times as long
            # for one percent.
            with (
                (done / "data").open("wb") as sink,
                gzip.GzipFile(
                    filename="", mode="wb", compresslevel=5, fileobj=sink, mtime=0
                ) as target,
            ):
                kibibytes = write_archive(prefix, cast(BinaryIO, target), newest)
            contents = Contents(
                (*about, f"glibc: {glibc} or newer"), pick.scenario.subdir, glibc, kibibytes
            )
            return contents, _finish(pick, contents, order, done)


class Archive:
    """A tar for conda-pack to write into, without the owners, umask and clock of this machine.

    All members have the same modification time, in seconds since 1970. No member may contain the
    environment's path.
    """

    def __init__(self, target: BinaryIO, stamp: int, prefix: Path) -> None:
        kind = tarfile.GNU_FORMAT
        self._tar = tarfile.open(fileobj=target, mode="w|", format=kind)  # noqa: SIM115
        self._stamp, self._prefix = stamp, prefix
        self.kibibytes = 0  # of the members, on a disk with blocks of 4 KiB

    def add(self, source: str, target: str) -> None:
        """Adds a file, link or folder.

        Activation is ours, as conda-pack's leaves a PATH behind in zsh and fish.
        """
        source = os.fspath(ACTIVATION.get(target, source))
        info = self._tar.gettarinfo(source, target)
        with open_plain(Path(source)) if info.isreg() else nullcontext() as content:
            self._write(info, content)

    def add_bytes(self, source: str, sourcebytes: bytes, target: str) -> None:
        """Adds a file with another content than on disk.

        Raises:
            PackFailed: The content has the path of this environment.
        """
        if os.fsencode(self._prefix) in sourcebytes:
            raise PackFailed(
                f"{target} contains {self._prefix}, where the environment was made",
                "leave out the package that it belongs to, or pack in a checkout whose path is"
                " shorter",
            )
        info = self._tar.gettarinfo(source, target)
        # As a hard link to an earlier member, it would have that member's content.
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", len(sourcebytes)
        self._write(info, io.BytesIO(sourcebytes))

    def add_program(self, source: Path, target: str) -> None:
        """Adds a file as executable; pip may have installed it here with another mode."""
        info = tarfile.TarInfo(target)
        info.size, info.mode = source.stat().st_size, 0o755
        with source.open("rb") as file:
            self._write(info, file)

    def close(self) -> None:
        """Ends the tar; the target file stays open."""
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
    """Writes an environment that was just installed, and changes it for that.

    Returns its unpacked size in KiB.
    conda-pack reads the packages from the cache.

    Raises:
        PackFailed: conda-pack refuses the environment, or a file contains its path.
    """
    _remove_traces(prefix)
    with closing(Archive(target, stamp, prefix)) as archive:
        try:
            environment = CondaEnv.from_prefix(str(prefix), on_missing_cache="raise")
            packer = Packer(environment.prefix, archive)
            for file in environment:
                packer.add(file)
            # Files of no package are listed with the environment's path; `add_bytes` made sure that
            # none contains it.
            packer.prefixes = [
                record for record in packer.prefixes if record[1] != environment.prefix
            ]
            packer.finish()
        except CondaPackException as error:
            raise PackFailed(
                f"conda-pack refuses the environment: {' '.join(str(error).split())}",
                "see what the packages that it names hold; `ctk check` looks into packages of the"
                " channel",
            ) from error
        # The last member: if it is there, all members are.
        archive.add_program(RUNNER, f"bin/{RUNNER.name}")
    return archive.kibibytes


def _remove_traces(prefix: Path) -> None:
    """Removes an environment's path and this machine's channels from its records."""
    # rattler marks environments as a cache, which backups leave out; the unpacked environment is
    # the only copy.
    (prefix / "CACHEDIR.TAG").unlink(missing_ok=True)
    for file in (prefix / "conda-meta").glob("*.json"):
        record = json.loads(read_plain(file))
        for path in record.get("paths_data", {}).get("paths", ()):
            # The sha256 of a file with this environment's path in it.
            path.pop("sha256_in_prefix", None)
            if path.get("path_type") == "unix_python_entry_point":
                path.pop("sha256", None)
                path.pop("size_in_bytes", None)
        rewrite(file, json.dumps({**record, **public_source(record)}, indent=1).encode())
    # If this path does not fit into a #! line, commands of Python packages have a form that
    # conda-pack does not change.
    long_form = re.compile(
        rb"#!/bin/sh\n'''exec' \"" + re.escape(os.fsencode(prefix)) + rb"/bin/([^\"/]+)\" .*\n"
    )
    for file in (prefix / "bin").glob("*"):
        if not file.is_file() or file.is_symlink():
            continue
        content = read_plain(file)
        if match := long_form.match(content):
            mode = file.stat().st_mode
            rewrite(file, b"#!/usr/bin/env " + match[1] + b"\n" + content[match.end() :])
            file.chmod(mode)


def public_source(record: Mapping[str, Any]) -> dict[str, str]:
    """Channel and address of an installed package, for others to read.

    Of a channel on this machine only the name is left; an address loses the user's name, password
    and token.
    """
    channel, address = str(record.get("channel") or ""), str(record.get("url") or "")
    if not urlsplit(address).scheme.startswith("http"):
        name = channel_name(channel)
        return {"channel": name, "url": f"file:///{name}/{record['subdir']}/{record['fn']}"}
    return {"channel": public(channel), "url": public(address)}


def declared_glibc(records: Iterable[RepoDataRecord]) -> tuple[str, str]:
    """The oldest glibc that packages declare to run with, and a package that needs it, or ""."""
    oldest, needs = _OLDEST_GLIBC, ""
    for record in records:
        floor = glibc_floor(record.depends)
        if floor and version_key(floor) > version_key(oldest):
            oldest, needs = floor, f"{record.name.normalized} {record.version}"
    return oldest, needs


def newest_binary(prefix: Path) -> tuple[str, str]:
    """The newest glibc that a binary of an environment names, and its path; "" for none."""
    newest, found = "", ""
    for path in sorted(prefix.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            binary = read_binary(path)
        except UnreadableBinary:  # a loader cannot read it either
            continue
        if binary is None or binary.format != "elf":
            continue
        version = ".".join(binary.versions.get("GLIBC", "").split(".")[:2])
        if version_key(version) > version_key(newest):
            newest, found = version, path.relative_to(prefix).as_posix()
    return newest, found


def _finish(pick: Pick, contents: Contents, order: PackOrder, done: Path) -> tuple[Path, ...]:
    """Writes the other files beside the data, and gives all files their names, the program last."""
    new = {order.file: done / "program", order.beside("lock"): done / "lock"}
    with new[order.file].open("wb") as target, (done / "data").open("rb") as source:
        target.write(program_text(contents, file_sha256(done / "data")))
        shutil.copyfileobj(source, target, 1 << 20)
    new[order.file].chmod(0o755)
    (done / "lock").write_text(_explicit(pick, contents), encoding="utf-8")
    lines = [f"{file_sha256(source)}  {path.name}\n" for path, source in new.items()]
    new[order.beside("sha256")] = done / "hashes"
    (done / "hashes").write_text("".join(lines), encoding="utf-8")
    for path in reversed(new):
        os.replace(new[path], path)
    return tuple(new)


def _explicit(pick: Pick, contents: Contents) -> str:
    """The pick in conda's explicit format (CEP 23): file names, which clients search beside it."""
    comments = ["What `ctk env pack` packed", f"platform: {contents.subdir}", *contents.about]
    lines = [f"# {comment}" for comment in comments]
    lines.append("@EXPLICIT")
    for record in pick.records:
        sha256 = record.sha256.hex() if record.sha256 else ""
        lines.append(f"{record.file_name}#sha256:{sha256}")
    return "\n".join([*lines, ""])


def program_text(contents: Contents, sha256: str) -> bytes:
    """The text of ``unpack.sh`` with its values; the data, which have this sha256, follow it."""
    values = {
        "platform": contents.subdir,
        "machines": _MACHINES[contents.subdir],
        "glibc": contents.glibc,
        "kibibytes": str(contents.kibibytes),
        "skip": "0" * _DIGITS,
        "about": "\n".join(contents.about),
        "breaking": "".join(f"\\{sign}" for sign in BREAKING),
        "sha256": sha256,
        "settle": (PROGRAMS / "settle.py").read_text(encoding="utf-8").rstrip("\n"),
        "bytecode": (PROGRAMS / "bytecode.py").read_text(encoding="utf-8").rstrip("\n"),
    }
    text = (PROGRAMS / "unpack.sh").read_text(encoding="utf-8")
    # In one pass, so that a value is never read as a name.
    filled = re.sub(r"@([a-z0-9]+)@", lambda match: values[match[1]], text).encode()
    first = f"skip='{len(filled) + 1}'".ljust(len("skip=''") + _DIGITS)
    return filled.replace(f"skip='{values['skip']}'".encode(), first.encode(), 1)
