"""ELF and PE headers are read right."""

from __future__ import annotations

import pytest

from ctk.package.binaries import (
    Binary,
    ElfParts,
    SearchPath,
    UnreadableBinary,
    oldest_glibc,
    read_bytes,
)
from kit.binaries import elf, pe


def test_an_elf_library_says_its_name_its_needs_its_path_and_its_versions() -> None:
    library = elf(
        ("libc.so.6", "libstdc++.so.6"),
        soname="libx.so.1",
        runpath="$ORIGIN:$ORIGIN/../lib",
        versions={
            "libc.so.6": ["GLIBC_2.9", "GLIBC_2.17", "GLIBC_PRIVATE"],
            "libstdc++.so.6": ["GLIBCXX_3.4.21", "CXXABI_1.3"],
        },
        machine="aarch64",
    )
    assert read_bytes(library) == Binary(
        "elf",
        "aarch64",
        "libx.so.1",
        ("libc.so.6", "libstdc++.so.6"),
        (),
        (SearchPath("RUNPATH", "$ORIGIN:$ORIGIN/../lib"),),
        {"CXXABI": "1.3", "GLIBC": "2.17", "GLIBCXX": "3.4.21"},
    )


def test_a_dll_says_its_machine_and_its_imports() -> None:
    assert read_bytes(pe(("KERNEL32.dll", "nvcuda.dll"), machine="aarch64")) == Binary(
        "pe", "aarch64", needed=("KERNEL32.dll", "nvcuda.dll")
    )


def test_a_text_is_no_binary_and_a_broken_one_is_an_error() -> None:
    assert read_bytes(b"#!/bin/sh\n") is None
    for broken in (b"\x7fELF", elf()[:100], b"MZ", pe()[:80]):
        with pytest.raises(UnreadableBinary):
            read_bytes(broken)


@pytest.mark.parametrize(
    ("imports", "needed", "moved"),
    [
        (["shm_open", "puts"], ["libc.so.6"], ("shm_open",)),
        (["shm_open"], ["librt.so.1", "libc.so.6"], ()),
        (["?shm_open"], ["libc.so.6"], ()),
        (["shm_open@2"], ["libc.so.6"], ()),
        (["dlopen", "pthread_create"], ["libc.so.6"], ()),
    ],
    ids=["without its library", "with it", "weak", "with a version", "what every program has"],
)
def test_symbols_that_libc_took_over_are_seen_where_an_older_glibc_lacks_them(
    imports: list[str], needed: list[str], moved: tuple[str, ...]
) -> None:
    binary = read_bytes(elf(needed, imports=imports, versions={"libc.so.6": ["GLIBC_2.17"]}))
    assert binary
    assert binary.moved == moved
    assert oldest_glibc(binary, lambda name: ()) == ("2.34" if moved else "2.17")


def test_a_library_that_another_one_brings_is_there() -> None:
    binary, beside = (
        read_bytes(elf(n, imports=["shm_open"])) for n in (["libx.so.1"], ["liby.so.1"])
    )
    brings = read_bytes(elf(["librt.so.1"]))
    assert binary and beside and brings
    named = {"libx.so.1": beside, "liby.so.1": brings}
    assert oldest_glibc(binary, lambda name: filter(None, [named.get(name)])) == ""
    assert oldest_glibc(binary, lambda name: [beside] if name == "libx.so.1" else []) == "2.34"


def test_parts_end_where_the_file_ends() -> None:
    """As PyTorch's libraries, whose strings are their last bytes: a reader of strings asks for more
    than there is.
    """
    parts = ElfParts()
    parts.feed(bytes(100) + b"libx.so.1\0")
    parts.seek(100)
    assert parts.read(64) == b"libx.so.1\0"
    assert parts.read(64) == b""
