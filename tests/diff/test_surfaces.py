"""What an artefact shows: read from wheels made byte by byte."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ctk.core.errors import MeasureFailed
from ctk.diff.scan import read_exports, read_surface, stem
from ctk.package.binaries import UnreadableBinary
from kit.binaries import elf, pe


def wheel(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def written(folder: Path, content: bytes) -> Path:
    path = folder / "binary"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "exports"),
    [
        (elf(soname="liba.so.1", exports=["second", "first"]), ("first", "second")),
        (elf(soname="liba.so.1", exports=["plain", "old@A_1", "new@A_2"]), ("new@A_2", "old@A_1", "plain")),
        (elf(soname="liba.so.13", exports=["first@liba.so.13"]), ("first",)),
        (pe(exports=["second", "first"]), ("first", "second")),
        (pe(), ()),
    ],
    ids=["names", "with versions", "a version named like the library", "of a DLL", "of a DLL without any"],
)
def test_what_programs_can_bind_to_is_an_export(tmp_path: Path, content: bytes, exports: tuple[str, ...]) -> None:
    assert read_exports(written(tmp_path, content)) == exports


def test_what_cannot_be_parsed_is_an_error_not_an_empty_list(tmp_path: Path) -> None:
    for content in (b"\x7fELF", b"MZ" + bytes(100)):
        with pytest.raises(UnreadableBinary):
            read_exports(written(tmp_path, content))


def test_a_surface_has_files_and_what_binaries_show(tmp_path: Path) -> None:
    library = elf(
        ["libb.so.2", "libc.so.6"],
        soname="liba.so.13",
        versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.4"]},
        exports=["aCreate", "aCreate_ptsz", "aSecret", "_ZN1a6createEv"],
    )
    files = {
        "nvidia/cu13/lib/liba.so.13": library,
        "nvidia/cu13/lib/liba_static.a": b"!<arch>\n",
        "nvidia/cu13/include/a.h": b"int aCreate(int); // not a Secret",
        "nvidia/cu13/bin/tool": elf(exports=["main"]),
        "nvidia/cu13/bin/a64_13.dll": pe(["b.dll"], exports=["aCreate"]),
        "a-1.dist-info/RECORD": b"",
    }
    surface = read_surface(wheel(tmp_path, files))
    assert list(surface.files) == [
        "bin/a64_13.dll",
        "bin/tool",
        "dist-info/RECORD",
        "include/a.h",
        "lib/liba.so.13",
        "lib/liba_static.a",
    ]
    assert surface.size == sum(map(len, files.values()))
    dll, tool, shown = surface.binaries
    assert (dll.soname, dll.needed, dll.exports) == ("a64_13.dll", ("b.dll",), ("aCreate",))
    assert (tool.path, tool.exports) == ("bin/tool", ())  # nothing binds to a program
    assert (shown.soname, shown.machine, shown.glibc) == ("liba.so.13", "x86_64", "2.17")
    assert shown.needed == ("libb.so.2", "libc.so.6")
    assert shown.exports == ("_ZN1a6createEv", "aCreate", "aCreate_ptsz", "aSecret")


def test_a_broken_wheel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.whl"
    path.write_bytes(b"PK")
    with pytest.raises(MeasureFailed, match=r"broken\.whl cannot be read"):
        read_surface(path)


def test_a_binary_that_cannot_be_read_is_named_with_its_wheel(tmp_path: Path) -> None:
    with pytest.raises(MeasureFailed, match=r"a-1-py3-none-any.whl: nvidia/a/lib/liba.so: "):
        read_surface(wheel(tmp_path, {"nvidia/a/lib/liba.so": b"\x7fELF" + bytes(10)}))


def test_versions_of_a_library_have_one_stem() -> None:
    assert stem("libcublas.so.12") == stem("libcublas.so.13") != stem("libcublasLt.so.13")
    assert stem("nvrtc64_120_0.dll") == stem("nvrtc64_130_0.dll") != stem("nvrtc64_130_0.alt.dll")
    assert stem("nvrtc64_120_0.alt.dll") == stem("nvrtc64_130_0.alt.dll")
