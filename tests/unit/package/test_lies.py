"""Packages and wheels that lie: the error names file and reason, and costs little to find."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from ctk.core.errors import (
    AuditFailed,
    printable,
)
from ctk.package import binaries, gpu_fatbin
from ctk.package import reader as package
from kit import binaries as made
from kit.packages import Draft


def test_a_message_is_shown_and_not_obeyed() -> None:
    assert printable("a\x1b[2J\u202eb\tc\nd é") == "a\\x1b[2J\\u202eb\tc\nd é"


# ---- what was built


def package_of(info: bytes, payload: bytes = b"") -> bytes:
    """A package whose two halves unpack to these bytes."""
    out, squeeze = io.BytesIO(), zstandard.ZstdCompressor().compress
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        archive.writestr("pkg-a-1-0.tar.zst", squeeze(payload))
        archive.writestr("info-a-1-0.tar.zst", squeeze(info))
    return out.getvalue()


def tar_header(name: str, kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


PACKAGES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "cannot be read"),
    "halves that are no tar": (package_of(b"abc"), "cannot be read"),
    "metadata of 2 GB in a name": (
        package_of(tar_header("x", b"L", 2 << 30) + bytes(10_240)),
        "a header of 2147483648",
    ),
    "metadata without an end": (
        package_of(tar_header("info/a.json", b"0", 100 << 20) + bytes(100 << 20)),
        "unpacks to more than 67108864 bytes",
    ),
    "a window of 2 GB": (
        package_of(b"").replace(
            zstandard.ZstdCompressor().compress(b""), b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"
        ),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_lies_is_an_error_of_the_audit(tmp_path: Path, name: str) -> None:
    data, reason = PACKAGES[name]
    path = tmp_path / "a-1-0.conda"
    path.write_bytes(data)
    with pytest.raises(AuditFailed, match=reason) as error:
        package.read_info(path)
    assert "a-1-0.conda" in error.value.cause


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("index.json", b"[" * 100_000),
        ("index.json", b'{"name": 1}'),
        ("paths.json", b'{"paths": [3]}'),
        ("run_exports.json", b"3"),
    ],
)
def test_metadata_that_lies_is_an_error_of_the_audit(
    tmp_path: Path, file: str, text: bytes
) -> None:
    path = Draft("a", info={file: text}).write(tmp_path)
    with pytest.raises(AuditFailed, match=r"a-1\.0-h0_0\.conda"):
        package.read_info(path)


def test_a_table_of_versions_without_an_end_is_read_for_a_while(tmp_path: Path) -> None:
    """Billions of entries that are all the same one: the file says that the next is nought bytes
    further on.
    """
    data = bytearray(made.elf(versions={"libc.so.6": ["GLIBC_2.17"]}))
    (sections,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<I", data, sections + 3 * 64 + 44, 0xFFFFFFFF)
    found = binaries.read_bytes(bytes(data))
    assert found and found.versions == {"GLIBC": "2.17"}


def test_more_segments_than_any_linker_makes_are_not_read() -> None:
    """Each of no bytes, so a small file can have 65,535 of them."""
    data = bytearray(made.elf())
    struct.pack_into("<HH", data, 54, 0, 0xFFFF)
    with pytest.raises(binaries.UnreadableBinary, match="more segments or sections"):
        binaries.read_bytes(bytes(data))


def zip_of(
    count: int, size: int = 0, method: int = zipfile.ZIP_DEFLATED, extra: bytes = b""
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for number in range(count):
            member = zipfile.ZipInfo(f"{number}")
            member.extra, member.compress_type = extra, method
            archive.writestr(member, bytes(size))
    return out.getvalue()


WHEELS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "cannot be read"),
    "no zip": (b"a" * 100, "it is not a zip"),
    "a bomb": (zip_of(1, 40 << 20), "which is too much"),
    "many members": (zip_of(50_001), "which is too much"),
    "a directory of 9 MB": (
        zip_of(150, extra=b"\xfe\xca\x5c\xea" + bytes(59_996)),
        "8388608 are the most",
    ),
    "another compression": (zip_of(1, 9, zipfile.ZIP_LZMA), "compressed in a way"),
    "a broken stream": (zip_of(1, 600).replace(b"c`", b"\xff\xff"), "cannot be read"),
}


@pytest.mark.parametrize("name", WHEELS)
def test_somebody_s_wheel_that_lies_is_an_error_of_the_audit(tmp_path: Path, name: str) -> None:
    data, reason = WHEELS[name]
    (tmp_path / "a.whl").write_bytes(data)
    with pytest.raises(AuditFailed, match=reason):
        gpu_fatbin.read_wheel(tmp_path / "a.whl")
