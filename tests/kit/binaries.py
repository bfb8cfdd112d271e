"""The smallest ELF and PE files that say something of themselves, made byte by byte: no compiler,
always the same.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_MACHINES = {"x86_64": (62, 0x8664), "aarch64": (183, 0xAA64), "cuda": (190, 0)}
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_SHT_STRTAB, _SHT_DYNAMIC, _SHT_VERNEED = 3, 6, 0x6FFFFFFE
_SHT_DYNSYM, _SHT_VERSYM = 11, 0x6FFFFFFF


class _Strings:
    def __init__(self) -> None:
        self.table = b"\0"

    def add(self, text: str) -> int:
        at = len(self.table)
        self.table += text.encode() + b"\0"
        return at


def elf(
    needed: Sequence[str] = ("libc.so.6",),
    *,
    soname: str = "",
    runpath: str | None = None,
    rpath: str | None = None,
    versions: Mapping[str, Sequence[str]] | None = None,
    machine: str = "x86_64",
    imports: Sequence[str] = (),
    payload: bytes = b"",
) -> bytes:
    """A shared library.

    Args:
        versions: Library -> symbol versions needed of it, e.g. ``{"libc.so.6": ["GLIBC_2.17"]}``.
        imports: Undefined symbols, ``name``, ``?name`` for a weak one, or ``name@2`` with the
            number of its version.
        payload: Bytes at the end, for what is looked for in files.
    """
    strings = _Strings()
    tags = [(_DT_NEEDED, strings.add(name)) for name in needed]
    tags += [(_DT_SONAME, strings.add(soname))] if soname else []
    tags += [(_DT_RUNPATH, strings.add(runpath))] if runpath is not None else []
    tags += [(_DT_RPATH, strings.add(rpath))] if rpath is not None else []
    verneed = _verneed(versions or {}, strings)
    dynsym, versym = _symbols(imports, strings) if imports else (b"", b"")
    names = _Strings()
    section_names = [
        names.add(name)
        for name in (".dynstr", ".dynamic", ".gnu.version_r", ".shstrtab", ".dynsym")
    ]
    strings.table += bytes(-len(strings.table) % 8)  # patchelf wants the section after it aligned
    dynstr = 64 + 2 * 56
    dynamic = dynstr + len(strings.table)
    tags += [(_DT_STRTAB, dynstr), (_DT_STRSZ, len(strings.table)), (0, 0)]
    dynamic_bytes = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    version_at = dynamic + len(dynamic_bytes)
    shstrtab = version_at + len(verneed)
    payload_at = shstrtab + len(names.table)
    dynsym_at = payload_at + len(payload)
    versym_at = dynsym_at + len(dynsym)
    sections_at = versym_at + len(versym)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack(
        "<HHIQQQIHHHHHH", 3, _MACHINES[machine][0], 1, 0, 64, sections_at, 0, 64, 56, 2, 64, 7, 4
    )
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, sections_at, sections_at, 4096)
    segments += struct.pack(
        "<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, len(dynamic_bytes), len(dynamic_bytes), 8
    )
    sections = bytes(64)
    for name, kind, offset, size, link, info, entry in (
        (section_names[0], _SHT_STRTAB, dynstr, len(strings.table), 0, 0, 0),
        (section_names[1], _SHT_DYNAMIC, dynamic, len(dynamic_bytes), 1, 0, 16),
        (section_names[2], _SHT_VERNEED, version_at, len(verneed), 1, len(versions or {}), 0),
        (section_names[3], _SHT_STRTAB, shstrtab, len(names.table), 0, 0, 0),
        (section_names[4], _SHT_DYNSYM if dynsym else 0, dynsym_at, len(dynsym), 1, 2, 24),
        (section_names[4], _SHT_VERSYM if versym else 0, versym_at, len(versym), 5, 0, 2),
    ):
        sections += struct.pack(
            "<IIQQQQIIQQ", name, kind, 2, offset, offset, size, link, info, 1, entry
        )
    tables = dynsym + versym
    return (
        header
        + segments
        + strings.table
        + dynamic_bytes
        + verneed
        + names.table
        + payload
        + tables
        + sections
    )


def _symbols(imports: Sequence[str], strings: _Strings) -> tuple[bytes, bytes]:
    """The tables .dynsym and .gnu.version, with a local and a hidden symbol too."""
    entries = [
        ("", 0, 0, 0, 0),
        ("a_local_one", 0x02, 0, 1, 0),
        ("puts", 0x12, 0, 0, 1),
        ("hidden_one", 0x12, 2, 1, 1),
    ]
    for name in imports:
        plain, _, version = name.removeprefix("?").partition("@")
        entries.append((plain, 0x22 if name.startswith("?") else 0x12, 0, 0, int(version or 1)))
    dynsym, versym = b"", b""
    for name, info, other, section, version in entries:
        dynsym += struct.pack(
            "<IBBHQQ", strings.add(name) if name else 0, info, other, section, 64, 0
        )
        versym += struct.pack("<H", version)
    return dynsym, versym


def _verneed(versions: Mapping[str, Sequence[str]], strings: _Strings) -> bytes:
    result = b""
    for position, (library, names) in enumerate(versions.items()):
        size = 16 + 16 * len(names)
        following = size if position < len(versions) - 1 else 0
        result += struct.pack("<HHIII", 1, len(names), strings.add(library), 16, following)
        for index, name in enumerate(names):
            result += struct.pack(
                "<IHHII", 0, 0, index + 2, strings.add(name), 16 if index < len(names) - 1 else 0
            )
    return result


def pe(
    imports: Sequence[str] = ("KERNEL32.dll",),
    *,
    machine: str = "x86_64",
    payload: bytes = b"",
) -> bytes:
    """A DLL that imports one function, by number, from each of some DLLs."""
    rva, raw = 0x1000, 0x200
    tables = 20 * (len(imports) + 1)
    names_at = tables + 32 * len(imports)
    descriptors, thunks, names = b"", b"", b""
    for index, name in enumerate(imports):
        lookup = rva + tables + 32 * index
        descriptors += struct.pack("<IIIII", lookup, 0, 0, rva + names_at + len(names), lookup + 16)
        thunks += struct.pack("<QQQQ", 1 << 63 | 1, 0, 1 << 63 | 1, 0)
        names += name.encode() + b"\0"
    section = descriptors + bytes(20) + thunks + names
    section += payload
    size = len(section)
    padded = section + bytes(-size % 0x200)
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", _MACHINES[machine][1], 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, len(padded), 0, 0, rva)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", 0x180000000, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x3000, raw, 0, 2, 0
    )
    optional += struct.pack("<QQQQII", 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    directories = [(0, 0)] * 16
    directories[1] = (rva, tables)
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    sections = b".idata\0\0" + struct.pack(
        "<IIIIIIHHI", size, rva, len(padded), raw, 0, 0, 0, 0, 0xC0000040
    )
    headers = dos + coff + optional + sections
    return headers + bytes(raw - len(headers)) + padded


_KINDS = {"ptx": 1, "cubin": 2, "lto": 8}
FATBIN = b"\x50\xed\x55\xba"


def fatbin(*entries: bytes) -> bytes:
    """A fat binary of such entries."""
    content = b"".join(entries)
    return FATBIN + struct.pack("<HHQ", 1, 16, len(content)) + content


def code(
    kind: str, target: str, isa: str = "8.8", *, size: int = 4096, plain: int = 0, zstd: bool = True
) -> bytes:
    """An entry of a fat binary as ``fatbinary`` lays it out: compressed content, which nothing
    reads, is zeros.

    Args:
        target: ``90a``: what it is for.
        plain: Bytes when decompressed.
    """
    flags = 0x11 | (0x8000 if zstd else 0x2000) | {"a": 0x100000, "f": 0x200000}.get(target[-1], 0)
    major, minor = map(int, isa.split(".")) if kind == "ptx" else (1, 8)
    number = int(target.rstrip("af"))
    head = (
        _KINDS[kind],
        0x101,
        80,
        size,
        size,
        64,
        minor,
        major,
        number,
        0,
        0,
        flags,
        0,
        plain or 3 * size,
    )
    return struct.pack("<HHIQIIHHIIIQQQ", *head) + struct.pack("<II8x", 72, 0) + bytes(size)


def together(*targets: str, size: int = 1024) -> bytes:
    """Cubins that are compressed as one, as ``fatbinary --concat`` packs them."""
    parts = b"".join(code("cubin", target, size=0, plain=5000) for target in targets)
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        256,
        0x101,
        72 + len(parts),
        size,
        size,
        64,
        1,
        0,
        0,
        0,
        0,
        0x8011,
        0,
        9999,
    )
    return header + struct.pack("<II", len(targets), len(parts) + 8) + parts + bytes(size)
