"""Packs the environment of a pick for machines without a network: a program that unpacks itself, in parts where asked.

Beside the program are its parts, the explicit lock and the list of hashes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, UnknownName
from ctk.core.files import disk_errors, file_sha256, held
from ctk.env.archive import needed_glibc, write_archive
from ctk.env.environment import PROGRAMS, compile_modules, install
from ctk.solve.solve import Pick

_CHUNK = 1 << 20
# Platform -> what `uname -m` says on its machines.
_MACHINES = {"linux-64": "x86_64 amd64", "linux-aarch64": "aarch64 arm64"}
# The offset of the data is part of the text whose length it is.
_DIGITS = 10
# As many parts as three digits number.
MOST_PARTS = 1000
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
# The program that another machine needs -> how it is called there, from a pipe to a pipe. docs/closed-networks.md has
# the figures: zstd packs no smaller than xz, and fewer machines have it.
_DECOMPRESS = {"gzip": "gzip -d -c", "xz": "xz -d -c"}


@dataclass(frozen=True)
class PackOrder:
    """What to write: the program, whose other files have its name and an ending."""

    file: Path
    limit: int | None = None  # bytes of a part at most; None for no parts
    force: bool = False  # whether files that are there may be replaced
    compression: str = "gzip"

    @property
    def lock(self) -> Path:
        return self.file.with_name(f"{self.file.name}.lock")

    @property
    def hashes(self) -> Path:
        return self.file.with_name(f"{self.file.name}.sha256")

    def part(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number:03}")

    def present(self) -> list[Path]:
        """The files of an earlier pack of that name."""
        parts = self.file.parent.glob("*.[0-9][0-9][0-9]") if self.file.parent.is_dir() else ()
        own = [p for p in parts if p.name[:-4] == self.file.name]
        return [p for p in (self.file, self.lock, self.hashes, *sorted(own)) if p.exists()]


@dataclass(frozen=True)
class Contents:
    """What a pack holds, for the program and for people."""

    about: tuple[str, ...]  # lines for people: the request, the machine, the packages of interest
    subdir: str
    glibc: str  # the oldest that its programs run with, e.g. 2.28
    kibibytes: int  # on disk, unpacked
    compression: str = "gzip"


@dataclass(frozen=True)
class Packed:
    """The files that were written, the program first, and what they hold."""

    files: tuple[Path, ...]
    contents: Contents

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)


@dataclass(frozen=True)
class PackPart:
    """One written file of the data."""

    path: Path
    size: int
    sha256: str


def size_in_bytes(text: str) -> int:
    """Bytes of ``60M``, ``4GB`` or ``1500000``, as `split` and `dd` read them: M is 1024 x 1024, MB is 1000 x 1000."""
    match = re.fullmatch(r"(\d+)([KMG]B?|)", text.strip().upper())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if not size:
        raise BadValue(f"{text!r} is not a size", "write it as 60M, 700MB or 4G")
    return size


def check(order: PackOrder, subdir: str) -> None:
    """Refuses what cannot be written, before anything is solved or fetched."""
    if subdir.startswith("win-"):
        raise BadValue(
            f"environments for {subdir} are not packed here: conda-pack writes for the system that it runs on, and "
            "nothing here could try the result",
            "run conda-pack on a Windows machine",
        )
    if subdir not in _MACHINES:
        raise UnknownName.of("platform", subdir, _MACHINES)
    if order.compression not in _DECOMPRESS:
        raise UnknownName.of("compression", order.compression, _DECOMPRESS)
    if order.compression == "xz":
        try:
            import lzma  # noqa: F401
        except ImportError:
            raise BadValue("this Python was made without lzma, so it cannot compress with xz", "use gzip") from None
    if re.search(r"[\n\\]", order.file.name):
        raise BadValue(f"{order.file.name!r} has a character that sha256sum does not list", "choose another name")
    if not order.file.parent.is_dir():
        raise BadValue(f"there is no folder {order.file.parent}", "make it first, or name another")
    present = order.present()
    if present and not order.force:
        names = ", ".join(path.name for path in present[:4])
        raise BadValue(
            f"{names}{' ...' if len(present) > 4 else ''}: there already in {order.file.parent}",
            "name another file, or replace them with --force",
        )


def pack(
    pick: Pick,
    about: Sequence[str],
    order: PackOrder,
    workspace: Workspace,
    say: Callable[[str], None] = lambda text: None,
) -> Packed:
    """Installs a pick in a scratch folder and packs it, with lines for people about the request and the machine.

    Equal packages give equal files. Nothing is written under the names of `order` before all of it is done.
    """
    if pick.record("python") is None:
        raise BadValue(
            "the environment has no Python, which writes its path into it where it is unpacked",
            "ask for python as well",
        )
    # One on the disk of the package cache, for hard links; one where the files will be, which then are only renamed.
    beside = order.file.with_name(f".{order.file.name}.parts")
    with held(workspace.cache / "packing") as folder, held(beside) as done:
        prefix = folder / "env"
        install(pick, prefix, workspace.cache / "packages")
        if why := compile_modules(pick, prefix):
            say(f"bytecode is made where it is unpacked: {why}")
        glibc = needed_glibc(pick.records, prefix)
        say("packing")
        newest = max((int(r.timestamp.timestamp()) for r in pick.records if r.timestamp), default=0)
        with disk_errors(order.file.parent):
            writer = PartWriter(done, order.limit)
            with _compressing(writer, order.compression) as target:
                kibibytes = write_archive(prefix, target, newest)
            parts = writer.close()
            lines = (*about, f"glibc: {glibc} or newer")
            contents = Contents(lines, pick.scenario.subdir, glibc, kibibytes, order.compression)
            files = _finish(pick, contents, parts, order, done)
    return Packed(files, contents)


class PartWriter:
    """Writes a stream into files ``000``, ``001`` ... of a folder, each of so many bytes at most."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self._folder, self._limit = folder, limit
        self._done: list[PackPart] = []
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        while len(view):
            if self._file is None or self._size == self._limit:
                self._file = self._next()
            piece = view if self._limit is None else view[: self._limit - self._size]
            self._file.write(piece)
            self._hash.update(piece)
            self._size += len(piece)
            view = view[len(piece) :]
        return len(data)

    def flush(self) -> None:
        """Nothing: `close` writes what is buffered."""

    def close(self) -> tuple[PackPart, ...]:
        """Ends the last part; returns all of them in order."""
        if self._file is not None:
            self._file.close()
            path = self._folder / f"{len(self._done):03}"
            self._done.append(PackPart(path, self._size, self._hash.hexdigest()))
            self._file = None
        return tuple(self._done)

    def _next(self) -> BinaryIO:
        self.close()
        if len(self._done) == MOST_PARTS:
            raise BadValue(
                f"{MOST_PARTS} parts of {self._limit} bytes do not hold the environment", "let --split be larger"
            )
        self._hash, self._size = hashlib.sha256(), 0
        return (self._folder / f"{len(self._done):03}").open("wb")


def _compressing(target: PartWriter, name: str) -> BinaryIO:
    """A file whose content goes to `target` compressed; to be closed before `target` is."""
    sink = cast(BinaryIO, target)
    if name == "xz":
        import lzma

        return cast(BinaryIO, lzma.LZMAFile(sink, "wb", preset=6))
    # Neither name nor time: equal input is equal output. Level 9 takes more than twice the time for half a percent.
    return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0))


def _finish(
    pick: Pick, contents: Contents, parts: Sequence[PackPart], order: PackOrder, done: Path
) -> tuple[Path, ...]:
    """Writes the rest beside the parts, and gives everything its name; the program last, since it needs the others."""
    split = order.limit is not None
    new = {order.part(number): part.path for number, part in enumerate(parts)} if split else {}
    hashes = {order.part(number): part.sha256 for number, part in enumerate(parts)} if split else {}
    texts = {order.lock: _explicit(pick, contents).encode(), order.file: program(contents, parts, split)}
    for path, text in texts.items():
        new[path] = done / f"own{path.name}"
        new[path].write_bytes(text)
    if not split:
        with new[order.file].open("ab") as target, parts[0].path.open("rb") as source:
            shutil.copyfileobj(source, target, _CHUNK)
    new[order.file].chmod(0o755)
    hashes |= {path: file_sha256(new[path]) for path in texts}
    ordered = [order.file, *(path for path in new if path not in texts), order.lock]
    new[order.hashes] = done / "hashes"
    new[order.hashes].write_text("".join(f"{hashes[path]}  {path.name}\n" for path in ordered), encoding="utf-8")
    for path in order.present():
        if path not in new:
            path.unlink()
    for path in reversed([*ordered, order.hashes]):
        os.replace(new[path], path)
    return (*ordered, order.hashes)


def _explicit(pick: Pick, contents: Contents) -> str:
    """The pick in conda's explicit format (CEP 23): file names, which a client looks for beside the list."""
    records = (f"{r.file_name}#sha256:{r.sha256.hex() if r.sha256 else ''}" for r in pick.records)
    comments = (f"# platform: {contents.subdir}", *(f"# {line}" for line in contents.about))
    return "\n".join(["# What `ctk env pack` packed", *comments, "@EXPLICIT", *records, ""])


def program(contents: Contents, parts: Sequence[PackPart], split: bool) -> bytes:
    """The text of ``unpack.sh``, filled in; after it come the data, one part, unless they are split."""
    values = {
        "platform": contents.subdir,
        "machines": _MACHINES[contents.subdir],
        "glibc": contents.glibc,
        "kibibytes": str(contents.kibibytes),
        "parts": str(len(parts) if split else 0),
        "skip": "0" * _DIGITS,
        "about": "\n".join(contents.about),
        "tool": contents.compression,
        "decompress": _DECOMPRESS[contents.compression],
        "hashes": "\n".join(f"{number:03} {part.sha256}" for number, part in enumerate(parts)),
        "settle": (PROGRAMS / "settle.py").read_text(encoding="utf-8").rstrip("\n"),
        "bytecode": (PROGRAMS / "bytecode.py").read_text(encoding="utf-8").rstrip("\n"),
    }
    text = (PROGRAMS / "unpack.sh").read_text(encoding="utf-8")
    # In one pass, so that no value is taken for a name.
    filled = re.sub(r"@([a-z]+)@", lambda match: values[match[1]], text).encode()
    if split:
        return filled
    first = f"skip='{len(filled) + 1}'".ljust(len("skip=''") + _DIGITS)
    return filled.replace(f"skip='{values['skip']}'".encode(), first.encode(), 1)
