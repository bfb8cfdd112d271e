"""Headers of ELF and PE binaries, and edits of ELF files that change no address.

ELF is read with pyelftools, which reads only the tables that it needs; PE with lief, which uses
about twice the file's size of memory. The edits make a copy of the interpreter relocatable; nothing
that NVIDIA published is edited.
"""

from __future__ import annotations

import io
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from ctk.core.errors import BuildFailed
from ctk.core.files import open_plain
from ctk.core.versions import version_key

ELF_MAGIC = b"\x7fELF"
PE_MAGIC = b"MZ"
MOST = 1000
"""Entries of a table that are read: a file may claim billions. The libraries here have up to 48."""
_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9][0-9.]*)")
# Relative relocations are announced by a name, not a number; glibc has understood them since 2.36.
_NAMED_VERSIONS = {"GLIBC_ABI_DT_RELR": ("GLIBC", "2.36"), "GLIBC_ABI_GNU_TLS": ("GLIBC", "2.42")}
_ELF_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_CUDA": "cuda"}
_PE_MACHINES = {"AMD64": "x86_64", "ARM64": "aarch64", "I386": "x86"}
_READ = ("DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH")
_DT_RPATH = 15
# Pieces at the start and the end of a file, where linkers and patchelf put its strings.
_START, _END = (
    32,
    8,
)
_SHF_ALLOC = 2
_SYMBOL = struct.Struct("<IBxH16x")  # of 64 bits: name, binding and type, section
_SHN_UNDEF, _STB_GLOBAL, _VER_NDX_GLOBAL = 0, 1, 1
_DROPPED = (".debug", ".symtab", ".strtab", ".comment", ".gnu_debug")


# Symbols that moved from librt.so.1 into libc.so.6 in glibc 2.34.
#
# Its NEWS: "all functionality formerly implemented in the libraries libpthread, libdl, libutil,
# libanl has been integrated into libc"; its lists of symbols show it for librt. A file may use such
# a symbol without a version, and not need librt. An older glibc does not find the symbol. In all
# locked wheels only symbols of librt are used so.
#
# Each name that libc.abilist of 2.34 has, and librt.abilist, but not libc.abilist, of 2.33: those
# of sysdeps/unix/sysv/linux/x86_64/64; those for aarch64 are equal.
LIBRT = "librt.so.1"
_NAMES = """
    __mq_open_2 aio_cancel aio_cancel64 aio_error aio_error64 aio_fsync aio_fsync64 aio_init
    aio_read aio_read64 aio_return aio_return64 aio_suspend aio_suspend64 aio_write aio_write64
    lio_listio lio_listio64 mq_close mq_getattr mq_notify mq_open mq_receive mq_send mq_setattr
    mq_timedreceive mq_timedsend mq_unlink shm_open shm_unlink timer_create timer_delete
    timer_getoverrun timer_gettime timer_settime
"""
MOVED = frozenset(_NAMES.split())
_MOVED_IN = "2.34"


class UnreadableBinary(ValueError):
    """A file that begins like a binary, and cannot be parsed."""


@dataclass(frozen=True)
class SearchPath:
    """An RPATH or RUNPATH as written in the file."""

    tag: str  # ``RPATH`` or ``RUNPATH``
    text: str  # the entries, joined by colons

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(self.text.split(":"))


@dataclass(frozen=True)
class Dynamic:
    """The SONAME, search paths and needed libraries of an ELF file."""

    soname: str = ""
    search: tuple[SearchPath, ...] = ()
    needed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Binary:
    """The headers of an ELF or PE file."""

    format: Literal["elf", "pe"]  # ``elf`` or ``pe``
    machine: str  # ``x86_64``, ``aarch64``, or the format's own name for any other
    soname: str = ""  # of an ELF library, "" without one
    # Libraries the loader must find (DT_NEEDED, import table), in file order.
    needed: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()  # DLLs that are loaded at their first use (PE only)
    search: tuple[SearchPath, ...] = ()  # RPATH and RUNPATH (ELF only)
    # The highest symbol version needed of each family: ``{"GLIBC": "2.17"}`` (ELF only).
    versions: Mapping[str, str] = field(default_factory=dict)
    # The symbols of `MOVED` that it needs without a version and without librt (ELF only).
    moved: tuple[str, ...] = ()


def read_elf(stream: BinaryIO) -> Binary | None:
    """The headers of an ELF file; None for object files, which no loader sees.

    Raises:
        UnreadableBinary: The tables cannot be parsed.
    """
    try:
        elf = ELFFile(stream)
        if elf["e_type"] not in ("ET_DYN", "ET_EXEC"):
            return None
        if elf["e_phnum"] > MOST or elf.num_sections() > MOST:
            raise ValueError("more segments or sections than any linker makes")
        machine = _ELF_MACHINES.get(elf["e_machine"], str(elf["e_machine"]))
        dynamic = next(
            (s for s in elf.iter_segments("PT_DYNAMIC") if isinstance(s, DynamicSegment)), None
        )
        tags = (
            [(tag.entry.d_tag, tag) for tag in islice(dynamic.iter_tags(), MOST)] if dynamic else []
        )
        stated = _from_tags(tags)
        moved = (
            () if LIBRT in stated.needed else tuple(sorted(MOVED.intersection(_unversioned(elf))))
        )
        return Binary(
            "elf",
            machine,
            stated.soname,
            stated.needed,
            (),
            stated.search,
            _symbol_versions(elf),
            moved,
        )
    except Exception as error:  # pyelftools raises anything for wrong numbers
        raise UnreadableBinary(
            f"not a readable ELF file: {str(error) or type(error).__name__}"
        ) from error


def _from_tags(tags: Iterable[tuple[str, Any]]) -> Dynamic:
    """The content of a dynamic section, from its tags by kind."""
    # pyelftools gives a tag the attribute that its kind calls for.
    values = [
        (kind[3:], str(getattr(tag, kind[3:].lower()))) for kind, tag in tags if kind in _READ
    ]
    needed, sonames = (
        [text for kind, text in values if kind == name] for name in ("NEEDED", "SONAME")
    )
    search = [SearchPath(kind, text) for kind, text in values if kind in ("RPATH", "RUNPATH")]
    return Dynamic(sonames[-1] if sonames else "", tuple(search), tuple(needed))


class ElfParts(io.BytesIO):
    """The parts of a 64-bit ELF file that its dynamic section needs.

    They are kept while the file is read in pieces.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[tuple[int, bytes]] = []
        self._last: deque[tuple[int, bytes]] = deque(maxlen=_END)
        self._size = self._at = 0
        self._wanted = range(0)

    def feed(self, piece: bytes) -> None:
        """Takes the next piece; the first must have the program headers."""
        if not self._size:
            # Without section headers, which are at the end: the program headers are enough.
            piece = piece[:40] + bytes(8) + piece[48:58] + bytes(6) + piece[64:]
            self._parts.append((0, piece))
            with suppress(Exception):
                found = next(ELFFile(BytesIO(piece)).iter_segments("PT_DYNAMIC"))
                self._wanted = range(found["p_offset"], found["p_offset"] + found["p_filesz"])
        elif (
            len(self._parts) < _START
            or self._wanted.start - len(piece) < self._size < self._wanted.stop
        ):
            self._parts.append((self._size, piece))
        else:
            self._last.append((self._size, piece))
        self._size += len(piece)

    def dynamic(self) -> Dynamic | None:
        """The dynamic section, None without one.

        Raises:
            UnreadableBinary: It is damaged, or its strings are not near the start or the end of the
                file.
        """
        try:
            found = next(ELFFile(self).iter_segments("PT_DYNAMIC"), None)
            if not isinstance(found, DynamicSegment):
                return None
            tags = islice(found.iter_tags(), MOST)
            return _from_tags((tag.entry.d_tag, tag) for tag in tags)
        except Exception as error:  # as above
            raise UnreadableBinary(
                f"not a readable ELF file: {str(error) or type(error).__name__}"
            ) from error

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        size = -1 if size is None else size
        for start, part in (*self._parts, *self._last):
            if start <= self._at < start + len(part):
                found = part[self._at - start :][: size if size >= 0 else None]
                self._at += len(found)
                return found if len(found) == size else found + self.read(size - len(found))
        if self._at >= self._size:  # strings may end with the file, and are read in chunks
            return b""
        raise UnreadableBinary(f"byte {self._at} was not kept")


def _symbol_versions(elf: ELFFile) -> dict[str, str]:
    highest: dict[str, str] = {}
    for section in elf.iter_sections("SHT_GNU_verneed"):
        if not isinstance(section, GNUVerNeedSection):
            continue
        for _, names in islice(section.iter_versions(), MOST):
            for name in islice(names, MOST):
                match = _VERSION.fullmatch(name.name)
                family, version = (
                    match.groups() if match else _NAMED_VERSIONS.get(name.name, ("", ""))
                )
                if family and version_key(version) > version_key(highest.get(family, "0")):
                    highest[family] = version
    return dict(sorted(highest.items()))


def _unversioned(elf: ELFFile) -> Iterator[str]:
    """The undefined symbols without a version that are not weak."""
    table = next(elf.iter_sections("SHT_DYNSYM"), None)
    if table is None or elf.elfclass != 64:
        return
    versions = next(elf.iter_sections("SHT_GNU_versym"), None)
    numbers = memoryview(versions.data() if versions else b"").cast("H")
    names, symbols = elf.get_section(table["sh_link"]).data(), table.data()
    for number, (name, info, section) in enumerate(
        _SYMBOL.iter_unpack(symbols[: len(symbols) // 24 * 24])
    ):
        known = number < len(numbers) and numbers[number] & 0x7FFF > _VER_NDX_GLOBAL
        if section == _SHN_UNDEF and info >> 4 == _STB_GLOBAL and not known:
            yield names[name : names.find(b"\0", name)].decode(errors="replace")


def exported(path: Path) -> set[str]:
    """The symbols that an ELF library defines; none of another file."""
    with open_plain(path) as stream, suppress(ELFError):
        tables = ELFFile(stream).iter_sections("SHT_DYNSYM")
        symbols = (
            s
            for table in tables
            if isinstance(table, SymbolTableSection)
            for s in table.iter_symbols()
        )
        return {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
    return set()


def oldest_glibc(binary: Binary, named: Callable[[str], Iterable[Binary]]) -> str:
    """The oldest glibc, ``2.27``, that an ELF file can run with.

    "" for a file that does not need glibc. ``named`` returns the libraries of a name that are
    loaded with the file: the libraries that they need are loaded, too.
    """
    stated = binary.versions.get("GLIBC", "")
    reached, queue = set(binary.needed), list(binary.needed)
    while queue and binary.moved and LIBRT not in reached:
        more = {name for library in named(queue.pop()) for name in library.needed} - reached
        reached |= more
        queue += more
    return (
        max(stated, _MOVED_IN, key=version_key) if binary.moved and LIBRT not in reached else stated
    )


def oldest_glibc_of(files: Mapping[str, Binary]) -> str:
    """The oldest glibc that has what all ELF files need, ``2.27``; "" if none needs glibc.

    Keys are names of files, by which files without a SONAME are loaded.
    """
    elf = {name: binary for name, binary in files.items() if binary.format == "elf"}
    named = {binary.soname or name: binary for name, binary in elf.items()}

    def same_name(name: str) -> list[Binary]:
        return [named[name]] if name in named else []

    needs = (oldest_glibc(binary, same_name) for binary in elf.values())
    return max(needs, key=version_key, default="")


def parse_pe(source: Path | bytes, without: Iterable[str]) -> Any:
    """A PE file (EXE, DLL, extension module), parsed by lief; None if it cannot be parsed."""
    import lief  # takes a third of a second

    lief.logging.disable()
    config = lief.PE.ParserConfig()
    for part in (*without, "signature", "reloc", "rsrc", "exceptions", "arm64x_binary"):
        setattr(config, f"parse_{part}", False)
    parsed = lief.PE.parse(str(source) if isinstance(source, Path) else source, config)
    return parsed if isinstance(parsed, lief.PE.Binary) else None


def read_pe(source: Path | bytes) -> Binary:
    """The headers of a PE file (EXE, DLL, extension module)."""
    parsed = parse_pe(source, without=["exports"])
    if parsed is None:
        raise UnreadableBinary("not a readable PE file")
    machine = parsed.header.machine.name
    return Binary(
        "pe",
        _PE_MACHINES.get(machine, machine),
        needed=tuple(str(entry.name) for entry in parsed.imports),
        delayed=tuple(str(entry.name) for entry in parsed.delay_imports),
    )


def read_binary(path: Path) -> Binary | None:
    """The headers of a file on disk; None if it is not a program, library or extension module."""
    with open_plain(path) as stream:
        magic = stream.read(4)
        if magic == ELF_MAGIC:
            return read_elf(stream)
    return read_pe(path) if magic[:2] == PE_MAGIC else None


def read_bytes(content: bytes) -> Binary | None:
    """The same for a file in memory."""
    if content.startswith(ELF_MAGIC):
        return read_elf(BytesIO(content))
    return read_pe(content) if content.startswith(PE_MAGIC) else None


def relocatable(data: bytes, rpath: str, folders: Iterable[str]) -> bytes:
    """A copy of a 64-bit ELF file without debug sections and without names of ``folders``.

    Its RPATH becomes ``rpath``. The new RPATH is a DT_RPATH: unlike DT_RUNPATH it is also used for
    libraries that are loaded later.

    Raises:
        BuildFailed: The file's own RPATH is shorter than the new one, so that there is no room for
            it.
    """
    out = bytearray(data)
    dynamic = _dynamic(data)
    strings = dynamic.elffile.get_section(dynamic["sh_link"])["sh_offset"]
    for index, tag in enumerate(dynamic.iter_tags()):
        if tag.entry.d_tag not in ("DT_RPATH", "DT_RUNPATH"):
            continue
        start = strings + tag.entry.d_val
        old = data[start : data.index(b"\0", start)]
        if not old.startswith(b"$ORIGIN"):
            if len(old) < len(rpath):
                raise BuildFailed(
                    f"the interpreter's RPATH {old.decode()!r} is too short to become {rpath!r}",
                    "run the build with another Python, e.g. the distribution's own",
                )
            out[start : start + len(old)] = rpath.encode().ljust(len(old), b"\0")
        struct.pack_into("<Q", out, dynamic["sh_offset"] + index * dynamic["sh_entsize"], _DT_RPATH)
    for folder in folders:
        # Defaults and source names that nothing opens. The length and the last part must stay:
        # linkers share ends of strings, so that the version "3.11.7" may be the end of a folder's
        # name.
        head, _, last = folder.encode().rpartition(b"/")
        out = out.replace(head + b"/" + last, b"/".ljust(len(head), b"_") + b"/" + last)
    return _without_debug(bytes(out))


def _dynamic(data: bytes) -> DynamicSection:
    section = ELFFile(BytesIO(data)).get_section_by_name(".dynamic")
    if not isinstance(section, DynamicSection):
        raise BuildFailed(
            "an ELF file of the interpreter is not dynamic", "run the build with another Python"
        )
    return section


def _without_debug(data: bytes) -> bytes:
    """The file without sections that no loader reads.

    Their headers become empty, so that indexes stay.
    """
    elf = ELFFile(BytesIO(data))
    sections = list(elf.iter_sections())
    loose = [
        s
        for s in sections
        if not s["sh_flags"] & _SHF_ALLOC and s["sh_type"] not in ("SHT_NULL", "SHT_NOBITS")
    ]
    end = max(s["p_offset"] + s["p_filesz"] for s in elf.iter_segments())
    if not loose or min(s["sh_offset"] for s in loose) < end:
        return data
    out, headers = bytearray(data[:end]), bytearray()
    size = elf["e_shentsize"]
    for index, section in enumerate(sections):
        at = elf["e_shoff"] + index * size
        header = bytearray(data[at : at + size])
        if section in loose:
            if section.name.startswith(_DROPPED):
                header = bytearray(size)
            else:
                out += b"\0" * (-len(out) % 8)
                struct.pack_into("<Q", header, 24, len(out))
                out += section.data()
        headers += header
    out += b"\0" * (-len(out) % 8)
    struct.pack_into("<Q", out, 40, len(out))
    return bytes(out + headers)
