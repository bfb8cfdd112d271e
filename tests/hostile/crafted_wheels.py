"""Wheels written byte by byte: everything that a header can say of a member can be a lie here."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from fake_index import record

from ctk.lock.lock import Artefact

INFO = "nvidia_cuda_runtime-13.4.92.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: nvidia-cuda-runtime\nVersion: 13.4.92\n"
WHEEL = b"Wheel-Version: 1.0\nTag: py3-none-manylinux2014_x86_64\nTag: py3-none-manylinux_2_17_x86_64\n"
DEFLATED = 8


@dataclass(frozen=True)
class Entry:
    """One member. What is None is the truth.

    Attributes:
        packed: The bytes in the file, for those that `data` does not give.
        local_name: The name in its own header.
        claims: The unpacked size that both headers state.
        crc: The checksum that both state.
        offset: Where the directory says that it is.
    """

    name: bytes
    data: bytes = b""
    mode: int = 0o100644
    method: int = 0
    flags: int = 0
    extra: bytes = b""
    packed: bytes | None = None
    local_name: bytes | None = None
    claims: int | None = None
    crc: int | None = None
    offset: int | None = None


def deflated(data: bytes) -> bytes:
    """The bytes as a zip holds them."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


def zip_of(entries: Iterable[Entry], *, between: bytes = b"", count: int | None = None, comment: bytes = b"") -> bytes:
    """An archive.

    Args:
        entries: Its members.
        between: Bytes before its directory.
        count: The number of members that it states.
        comment: After the directory, with its length stated.
    """
    body, directory, number = bytearray(), bytearray(), 0
    for entry in entries:
        packed = entry.packed if entry.packed is not None else entry.data
        if entry.method == DEFLATED and entry.packed is None:
            packed = deflated(entry.data)
        crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
        size = len(entry.data) if entry.claims is None else entry.claims
        common = struct.pack("<4H3L", entry.flags, entry.method, 0, 0x21, crc, len(packed), size)
        offset = len(body) if entry.offset is None else entry.offset
        own = entry.name if entry.local_name is None else entry.local_name
        body += b"PK\3\4" + struct.pack("<H", 20) + common + struct.pack("<2H", len(own), len(entry.extra))
        body += own + entry.extra + packed
        directory += b"PK\1\2" + struct.pack("<2H", 3 << 8 | 20, 20) + common
        directory += struct.pack("<5H2L", len(entry.name), len(entry.extra), 0, 0, 0, entry.mode << 16, offset)
        directory += entry.name + entry.extra
        number += 1
    body += between
    stated = number if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, stated, stated, len(directory), len(body), len(comment))
    return bytes(body + directory + end + comment)


def hash_of(data: bytes) -> str:
    """The sha256 as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def with_descriptors(entries: Iterable[Entry], *, lie: int = 0) -> bytes:
    """An archive whose members state their sizes after their content only; ``lie`` is added to the size there."""
    body, directory, number = bytearray(), bytearray(), 0
    for entry in entries:
        crc, size, place = zlib.crc32(entry.data), len(entry.data), len(body)
        body += b"PK\3\4" + struct.pack("<5H3L2H", 20, 8, 0, 0, 0x21, 0, 0, 0, len(entry.name), 0)
        body += entry.name + entry.data + struct.pack("<4s3L", b"PK\7\x08", crc, size, size + lie)
        directory += b"PK\1\2" + struct.pack("<6H3L", 788, 20, 8, 0, 0, 0x21, crc, size, size)
        directory += struct.pack("<5H2L", len(entry.name), 0, 0, 0, 0, 0o100644 << 16, place) + entry.name
        number += 1
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(directory), len(body), 0)
    return bytes(body + directory + end)


def wheel_of(*entries: Entry, **changes: object) -> bytes:
    """A wheel whose RECORD is right for what its members say that they hold."""
    return zip_of(with_record(entries), **changes)  # type: ignore[arg-type]


def with_record(entries: Iterable[Entry], wheel: bytes = WHEEL) -> list[Entry]:
    """Members, with METADATA, WHEEL and the RECORD of all of them."""
    everything = [*entries, Entry(f"{INFO}/METADATA".encode(), METADATA), Entry(f"{INFO}/WHEEL".encode(), wheel)]
    files = {e.name.decode("utf-8", "replace"): e.data for e in everything if not e.name.endswith(b"/")}
    return [*everything, Entry(f"{INFO}/RECORD".encode(), record(files, INFO))]


def artefact(data: bytes, target: str = "linux-64", file: str = "") -> Artefact:
    """The artefact that a lock would name with these very bytes: a hash does not help against its publisher."""
    file = file or "nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.whl"
    digest = hashlib.sha256(data).hexdigest()
    return Artefact("cudart", "nvidia-cuda-runtime", "13.4.92", target, file, digest, len(data))
