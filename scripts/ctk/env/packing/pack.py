"""Packs the environment of a pick: the program, its parts, the explicit lock and the list of hashes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctk.core.checkout import Workspace
from ctk.core.errors import BadValue, UnknownName
from ctk.core.files import disk_errors, file_sha256, held
from ctk.env.environment import compile_modules, install
from ctk.env.packing.archive import write_archive
from ctk.env.packing.compression import check_compression, compressing
from ctk.env.packing.needs import needed_glibc
from ctk.env.packing.parts import Part, PartWriter
from ctk.env.packing.program import PLATFORMS, Contents, program
from ctk.solve.solve import Pick

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Order:
    """What is to be written.

    Attributes:
        file: The program; its other files have its name and an ending.
        limit: Bytes of a part at most; None for no parts.
        force: Whether files that are there may be replaced.
        compression: ``gzip`` or ``xz``.
    """

    file: Path
    limit: int | None = None
    force: bool = False
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
class Packed:
    """What was written.

    Attributes:
        files: Program first, then parts, lock and hashes.
        contents: What it holds.
    """

    files: tuple[Path, ...]
    contents: Contents

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)


def check(order: Order, subdir: str) -> None:
    """Refuses what cannot be written, before anything is solved or fetched.

    Raises:
        UnknownName: No such platform or compression.
        BadValue: A Windows platform, a name that cannot be listed, no folder, or files in the way.
    """
    if subdir.startswith("win-"):
        raise BadValue(
            f"environments for {subdir} are not packed here: conda-pack writes for the system that it runs on, and "
            "nothing here could try the result",
            "run conda-pack on a Windows machine",
        )
    if subdir not in PLATFORMS:
        raise UnknownName.of("platform", subdir, PLATFORMS)
    check_compression(order.compression)
    if re.search(r"[\n\\]", order.file.name):
        raise BadValue(f"{order.file.name!r} has a character that sha256sum does not list", "choose another name")
    if not order.file.parent.is_dir():
        raise BadValue(f"there is no folder {order.file.parent}", "make it first, or name another")
    found = order.present()
    if found and not order.force:
        names = ", ".join(path.name for path in found[:4])
        raise BadValue(
            f"{names}{' ...' if len(found) > 4 else ''}: there already in {order.file.parent}",
            "name another file, or replace them with --force",
        )


def pack(
    pick: Pick, about: Sequence[str], order: Order, workspace: Workspace, say: Callable[[str], None] = lambda text: None
) -> Packed:
    """Installs a pick in a scratch folder and packs it.

    Equal packages give equal files. Nothing is written under the names of `order` before all of it is done.

    Args:
        pick: The packages; Python must be among them.
        about: Lines for people: the request and the machine.
        order: Where to, and in which size.
        workspace: The checkout, whose cache has room for the environment.
        say: Told what is being done.

    Raises:
        BadValue: No Python in the pick, or more parts than can be numbered.
        PackFailed: conda-pack refuses the environment.
        NoSpace: The disk is full.
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
        with disk_errors(order.file.parent):
            writer = PartWriter(done, order.limit)
            with compressing(writer, order.compression) as target:
                kibibytes = write_archive(prefix, target, _stamp(pick))
            parts = writer.close()
            lines = (*about, f"glibc: {glibc} or newer")
            contents = Contents(lines, pick.scenario.subdir, glibc, kibibytes, order.compression)
            files = _finish(pick, contents, parts, order, done)
    return Packed(files, contents)


def explicit(pick: Pick, contents: Contents) -> str:
    """The pick in conda's explicit format (CEP 23): file names, which a client looks for beside the list."""
    records = (f"{r.file_name}#sha256:{r.sha256.hex() if r.sha256 else ''}" for r in pick.records)
    comments = (f"# platform: {contents.subdir}", *(f"# {line}" for line in contents.about))
    return "\n".join(["# What `ctk env pack` packed", *comments, "@EXPLICIT", *records, ""])


def _finish(pick: Pick, contents: Contents, parts: Sequence[Part], order: Order, done: Path) -> tuple[Path, ...]:
    """Writes the rest beside the parts, and gives everything its name; the program last, since it needs the others."""
    split = order.limit is not None
    new = {order.part(number): part.path for number, part in enumerate(parts)} if split else {}
    hashes = {order.part(number): part.sha256 for number, part in enumerate(parts)} if split else {}
    texts = {order.lock: explicit(pick, contents).encode(), order.file: program(contents, parts, split)}
    for path, text in texts.items():
        new[path] = done / f"own{path.name}"
        new[path].write_bytes(text)
    if not split:
        with new[order.file].open("ab") as target, parts[0].path.open("rb") as source:
            shutil.copyfileobj(source, target, _CHUNK)
    new[order.file].chmod(0o755)
    hashes |= {path: file_sha256(new[path]) for path in texts}
    ordered = [order.file, *(path for path in new if path not in texts), order.lock]
    listing = done / "hashes"
    listing.write_text("".join(f"{hashes[path]}  {path.name}\n" for path in ordered), encoding="utf-8")
    new[order.hashes] = listing
    for path in order.present():
        if path not in new:
            path.unlink()
    for path in reversed([*ordered, order.hashes]):
        os.replace(new[path], path)
    return (*ordered, order.hashes)


def _stamp(pick: Pick) -> int:
    """When the newest package was made, in seconds since 1970."""
    return max((int(r.timestamp.timestamp()) for r in pick.records if r.timestamp), default=0)
