"""The surface of an artefact: its files, and the exports and requirements of its programs and libraries.

Surfaces are cached by the artefact's sha256, so that an artefact is fetched and read once, and need not be kept.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection
from pydantic import TypeAdapter

from ctk.core.checkout import Workspace
from ctk.core.errors import MeasureFailed
from ctk.core.memo import Memo, memo
from ctk.fetch.fetch import Progress, borrowed
from ctk.index.index import Index
from ctk.lock.model import Artefact
from ctk.package.binaries import ELF_MAGIC, MOST, PE_MAGIC, UnreadableBinary, parse_pe, read_binary

FORMAT = 1
"""Of the cache. Raised when a surface holds more: a digest of the code would fetch gigabytes again."""

_AT_ONCE = 2  # one is downloaded while another is read; of large artefacts no more lie on disk
_LIBRARY = re.compile(r".*(\.so(\.[\d.]+)?|\.dll|\.pyd)", re.IGNORECASE)
_BASE = 1  # version index of the library itself; 0 is local
_INDEX = 0x7FFF  # the highest bit of a version index says that linkers do not take it by default


@dataclass(frozen=True)
class File:
    """One file of an artefact: bytes, unpacked, and CRC-32 of the content."""

    size: int
    crc: int


@dataclass(frozen=True)
class Shown:
    """What one program or library offers and needs."""

    path: str  # in the artefact, as `place` gives it
    machine: str  # as `ctk.package.binaries.Binary` has it
    soname: str = ""  # for a DLL its file name, "" for the rest
    needed: tuple[str, ...] = ()  # libraries that the loader must find, sorted
    glibc: str = ""  # newest symbol version that it needs
    exports: tuple[str, ...] = ()  # names, sorted; of libraries only

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def stem(self) -> str:
        return stem(self.soname or self.name)


@dataclass(frozen=True)
class Surface:
    """The files of an artefact by path, and its programs and libraries."""

    files: Mapping[str, File]
    binaries: tuple[Shown, ...]

    @cached_property
    def size(self) -> int:
        """Bytes, unpacked."""
        return sum(file.size for file in self.files.values())


_SURFACES = TypeAdapter(Surface)


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


def _note(sha256: str, workspace: Workspace) -> Memo[Surface]:
    """The note of an artefact's surface."""
    return memo(workspace.notes / "surfaces", [FORMAT, sha256], _SURFACES)


def unread(artefacts: Iterable[Artefact], workspace: Workspace) -> list[Artefact]:
    """The artefacts whose surface is not in the cache, each file once."""
    return [a for a in {a.sha256: a for a in artefacts}.values() if not _note(a.sha256, workspace).file.exists()]


def surfaces(
    artefacts: Iterable[Artefact],
    workspace: Workspace,
    index: Callable[[], Index],
    *,
    progress: Progress = lambda artefact, received: None,
) -> dict[str, Surface]:
    """The surface of each artefact by its sha256. What is fetched for it does not stay in the cache."""

    def read(artefact: Artefact) -> tuple[str, Surface]:
        note = _note(artefact.sha256, workspace)
        surface = note.read()
        if surface is None:
            with borrowed([artefact], workspace, index, progress=progress) as (wheel,):
                surface = note.write(read_surface(wheel))
        return artefact.sha256, surface

    with ThreadPoolExecutor(_AT_ONCE) as pool:  # an error of one cancels those that wait
        return dict(pool.map(read, {a.sha256: a for a in artefacts}.values()))


def read_surface(wheel: Path) -> Surface:
    """Reads an artefact once; `MeasureFailed` where it or a binary in it cannot be read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
            files = {place(item.filename): File(item.file_size, item.CRC) for item in items}
            binaries = [shown for item in items if (shown := _read(archive, item, wheel)) is not None]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise MeasureFailed(f"{wheel} cannot be read: {error}", "delete it; the next run fetches it again") from error
    return Surface(dict(sorted(files.items())), tuple(sorted(binaries, key=lambda shown: shown.path)))


def _read(archive: zipfile.ZipFile, item: zipfile.ZipInfo, wheel: Path) -> Shown | None:
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
                return _shown(Path(file.name), place(item.filename))
            except UnreadableBinary as error:
                raise MeasureFailed(f"{wheel.name}: {item.filename}: {error}", "look at that file") from error


def _shown(file: Path, path: str) -> Shown | None:
    binary = read_binary(file)
    if binary is None:  # an object file
        return None
    exports = read_exports(file) if _LIBRARY.fullmatch(path) else ()
    is_dll = binary.format == "pe" and path.lower().endswith(".dll")
    soname = posixpath.basename(path) if is_dll else binary.soname
    needed = tuple(sorted((*binary.needed, *binary.delayed)))
    return Shown(path, binary.machine, soname, needed, binary.versions.get("GLIBC", ""), exports)


def read_exports(path: Path) -> tuple[str, ...]:
    """The exported names of an ELF or PE library, sorted and as they are, each once.

    A versioned ELF symbol is ``name@version``. A version named like the library's own SONAME says nothing new and is
    left out, so that a new CUDA major is not a change of every symbol.

    Raises:
        UnreadableBinary: The tables cannot be parsed.
    """
    with path.open("rb") as stream:
        if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
            return _pe_exports(path)
        try:
            return tuple(sorted(set(_elf_exports(ELFFile(stream)))))
        except Exception as error:  # pyelftools asserts, counts and divides by what the file says
            raise UnreadableBinary(f"not a readable ELF file: {str(error) or type(error).__name__}") from error


def _elf_exports(elf: ELFFile) -> list[str]:
    table = next((s for s in elf.iter_sections("SHT_DYNSYM") if isinstance(s, SymbolTableSection)), None)
    if table is None:
        return []
    versions = next((s for s in elf.iter_sections("SHT_GNU_versym") if isinstance(s, GNUVerSymSection)), None)
    names: dict[int, str] = {}
    for section in elf.iter_sections("SHT_GNU_verdef"):
        if isinstance(section, GNUVerDefSection):
            names |= {v["vd_ndx"]: next(parts).name for v, parts in islice(section.iter_versions(), MOST)}
    base = names.get(_BASE, "")
    exports = []
    for number, symbol in enumerate(table.iter_symbols()):
        hidden = symbol["st_other"]["visibility"] in ("STV_HIDDEN", "STV_INTERNAL")
        if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["bind"] == "STB_LOCAL" or hidden or not symbol.name:
            continue
        index = versions.get_symbol(number)["ndx"] if versions else ""
        version = names.get(index & _INDEX, "") if isinstance(index, int) else ""
        if symbol["st_shndx"] == "SHN_ABS" and symbol.name == (version or base):
            continue  # the version's own entry
        exports.append(f"{symbol.name}@{version}" if version and version != base else symbol.name)
    return exports


def _pe_exports(path: Path) -> tuple[str, ...]:
    parsed = parse_pe(path, without=["imports"])
    if parsed is None:
        raise UnreadableBinary("not a readable PE file")
    table = parsed.get_export()
    # What has no name is called by number.
    return tuple(sorted({str(e.name) or f"#{e.ordinal}" for e in table.entries})) if table else ()
