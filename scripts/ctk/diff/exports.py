"""The names that a shared library gives to programs: dynamic symbols of an ELF file, exports of a DLL."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from ctk.package import pe
from ctk.package.binaries import ELF_MAGIC, MOST, UnreadableBinary

_BASE = 1  # version index of the library itself; 0 is local
_INDEX = 0x7FFF  # the highest bit of a version index says that linkers do not take it by default


def read_exports(path: Path) -> tuple[str, ...]:
    """The exported names of a library, sorted and as they are, each once.

    A versioned ELF symbol is ``name@version``. A version named like the library's own SONAME says nothing new and is
    left out, so that a new CUDA major is not a change of every symbol.

    Args:
        path: An ELF or PE file.

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
    names, base = _defined_versions(elf)
    found = []
    for number, symbol in enumerate(table.iter_symbols()):
        hidden = symbol["st_other"]["visibility"] in ("STV_HIDDEN", "STV_INTERNAL")
        if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["bind"] == "STB_LOCAL" or hidden or not symbol.name:
            continue
        index = versions.get_symbol(number)["ndx"] if versions else ""
        version = names.get(index & _INDEX, "") if isinstance(index, int) else ""
        if symbol["st_shndx"] == "SHN_ABS" and symbol.name == (version or base):
            continue  # the version's own entry
        found.append(f"{symbol.name}@{version}" if version and version != base else symbol.name)
    return found


def _defined_versions(elf: ELFFile) -> tuple[dict[int, str], str]:
    """The versions that a library defines by index, and the one that names the library."""
    names: dict[int, str] = {}
    for section in elf.iter_sections("SHT_GNU_verdef"):
        if isinstance(section, GNUVerDefSection):
            for version, parts in islice(section.iter_versions(), MOST):
                names[version["vd_ndx"]] = next(part.name for part in parts)
    return names, names.get(_BASE, "")


def _pe_exports(path: Path) -> tuple[str, ...]:
    parsed = pe.parse(path, without=["imports"])
    if parsed is None:
        raise UnreadableBinary("not a readable PE file")
    table = parsed.get_export()
    # What has no name is called by number.
    return tuple(sorted({str(e.name) or f"#{e.ordinal}" for e in table.entries})) if table else ()
