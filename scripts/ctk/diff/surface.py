"""The surface of an artefact: its files, and what its programs and libraries show to others."""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ctk.core.errors import MeasureFailed
from ctk.diff.exports import read_exports
from ctk.package.binaries import ELF_MAGIC, PE_MAGIC, UnreadableBinary, read_binary

_LIBRARY = re.compile(r".*(\.so(\.[\d.]+)?|\.dll|\.pyd)", re.IGNORECASE)
_HEADER = re.compile(r".*\.(h|hh|hpp|inl|cuh)", re.IGNORECASE)
_NAME = re.compile(rb"[A-Za-z_]\w*")
# The headers of cudart write these endings by token pasting.
_PASTED = re.compile(r"_pt(sz|ds)$")


@dataclass(frozen=True)
class File:
    """One file of an artefact.

    Attributes:
        size: Bytes, unpacked.
        crc: CRC-32 of the content.
    """

    size: int
    crc: int


@dataclass(frozen=True)
class Shown:
    """What one program or library shows.

    Attributes:
        path: In the artefact, as `place` gives it.
        machine: As `ctk.package.binaries.Binary` has it.
        soname: The name that programs ask the loader for: the SONAME, for a DLL its file name, "" for the rest.
        needed: Libraries that the loader must find, sorted.
        glibc: Newest glibc symbol version that it needs, "" without one.
        exports: Names that it exports, sorted; of libraries only.
        declared: Those of them that a header of the same artefact names.
    """

    path: str
    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    glibc: str = ""
    exports: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def stem(self) -> str:
        return stem(self.soname or self.name)


@dataclass(frozen=True)
class Surface:
    """What an artefact shows.

    Attributes:
        files: By path; folders are not files.
        binaries: Programs and libraries, by path.
    """

    files: Mapping[str, File]
    binaries: tuple[Shown, ...]

    @cached_property
    def size(self) -> int:
        """Bytes, unpacked."""
        return sum(file.size for file in self.files.values())


def stem(name: str) -> str:
    """A library's name without what a version adds: ``libcublas`` of libcublas.so.13."""
    name = name.lower()
    return re.sub(r"\d[\d_.]*", "", name) if name.endswith(".dll") else name.partition(".so")[0]


def place(path: str) -> str:
    """The path of a file without what names the distribution or its version: ``lib/libcudart.so.13``."""
    first, _, rest = path.partition("/")
    if first == "nvidia" and "/" in rest:
        return rest.partition("/")[2]
    return f"dist-info/{rest}" if first.endswith(".dist-info") else path


def read_surface(wheel: Path) -> Surface:
    """Reads an artefact once.

    Raises:
        MeasureFailed: It is no archive that can be read, or a binary in it cannot be.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
            files = {place(item.filename): File(item.file_size, item.CRC) for item in items}
            names = _header_names(archive, items)
            binaries = [shown for item in items if (shown := _read(archive, item, names, wheel)) is not None]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise MeasureFailed(f"{wheel} cannot be read: {error}", "delete it; the next run fetches it again") from error
    return Surface(dict(sorted(files.items())), tuple(sorted(binaries, key=lambda shown: shown.path)))


def _header_names(archive: zipfile.ZipFile, items: list[zipfile.ZipInfo]) -> frozenset[str]:
    """Every identifier in the headers: an export among them is meant for programs."""
    texts: Iterator[bytes] = (archive.read(item) for item in items if _HEADER.fullmatch(item.filename))
    return frozenset(name.decode() for text in texts for name in set(_NAME.findall(text)))


def _read(archive: zipfile.ZipFile, item: zipfile.ZipInfo, names: frozenset[str], wheel: Path) -> Shown | None:
    with archive.open(item) as stream:
        start = stream.read(len(ELF_MAGIC))
        if start != ELF_MAGIC and start[:2] != PE_MAGIC:
            return None
        # Parsers seek, and a library may be larger than memory allows: it is unpacked to disk.
        with tempfile.NamedTemporaryFile(prefix="ctk-surface-") as file:
            file.write(start)
            shutil.copyfileobj(stream, file, 1 << 20)
            file.flush()
            try:
                return _shown(Path(file.name), place(item.filename), names)
            except UnreadableBinary as error:
                raise MeasureFailed(f"{wheel.name}: {item.filename}: {error}", "look at that file") from error


def _shown(file: Path, path: str, names: frozenset[str]) -> Shown | None:
    binary = read_binary(file)
    if binary is None:  # an object file
        return None
    exports = read_exports(file) if _LIBRARY.fullmatch(path) else ()
    soname = binary.soname
    if binary.format == "pe" and path.lower().endswith(".dll"):
        soname = posixpath.basename(path)
    declared = tuple(e for e in exports if _PASTED.sub("", e.partition("@")[0]) in names)
    needed = tuple(sorted((*binary.needed, *binary.delayed)))
    return Shown(path, binary.machine, soname, needed, binary.versions.get("GLIBC", ""), exports, declared)
