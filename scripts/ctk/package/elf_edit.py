"""Edits of ELF files that change no address: a shorter RPATH, masked paths, debug sections left out.

They make a copy of the interpreter relocatable without a further tool. Nothing that NVIDIA published goes through here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from io import BytesIO

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from ctk.core.errors import BuildFailed

_DT_RPATH = 15
_SHF_ALLOC = 2
_DROPPED = (".debug", ".symtab", ".strtab", ".comment", ".gnu_debug")


def is_elf(data: bytes) -> bool:
    return data[:4] == b"\x7fELF"


def needed(data: bytes) -> list[str]:
    """The libraries that an ELF file asks the loader for."""
    # pyelftools gives a tag the attribute that its kind calls for.
    return [tag.needed for tag in _dynamic(data).iter_tags("DT_NEEDED")]  # type: ignore[attr-defined]


def relocatable(data: bytes, rpath: str, folders: Iterable[str]) -> bytes:
    """A 64-bit ELF file without debug sections that names none of ``folders``; its RPATH, if it has one, is ``rpath``.

    The new RPATH is a DT_RPATH: unlike DT_RUNPATH it also serves the libraries that are loaded later.

    Raises:
        BuildFailed: When the file's own RPATH is shorter than the new one, so that there is no room for it.
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
        # Defaults and source names that nothing opens. The length must stay, and so must the last part: linkers let
        # a string end inside another one, so that the version "3.11.7" may well be the end of a folder's name.
        head, _, last = folder.encode().rpartition(b"/")
        out = out.replace(head + b"/" + last, b"/".ljust(len(head), b"_") + b"/" + last)
    return _without_debug(bytes(out))


def _dynamic(data: bytes) -> DynamicSection:
    section = ELFFile(BytesIO(data)).get_section_by_name(".dynamic")
    if not isinstance(section, DynamicSection):
        raise BuildFailed("an ELF file of the interpreter is not dynamic", "run the build with another Python")
    return section


def _without_debug(data: bytes) -> bytes:
    """The same file minus sections that no loader reads; their headers become empty, so that indexes stay."""
    elf = ELFFile(BytesIO(data))
    sections = list(elf.iter_sections())
    loose = [s for s in sections if not s["sh_flags"] & _SHF_ALLOC and s["sh_type"] not in ("SHT_NULL", "SHT_NOBITS")]
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
