"""A zip that every program reads alike: one directory, at the end, over members that lie one after another.

Python's zipfile, rattler-build's reader and unzip each take another part of a zip for the truth where its parts differ.
So nothing may differ, and no byte may belong to nothing. The content is unpacked here in memory, piece by piece: a
stream may hold more than the directory says, which zipfile does not notice.
"""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ctk.artefact import names

MEMBERS = 50_000
"""Members at most; the largest of NVIDIA's wheels has 2,724."""
EXPANDED = 16 << 30
"""Bytes of all members at most."""
RATIO = 100
"""How many times its own size an archive may unpack to; NVIDIA's wheels reach 7.6."""
_SMALL = 16 << 20  # bytes that any archive may unpack to
_DIRECTORY = 8 << 20  # bytes of the directory
_PIECE = 1 << 20
_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCATOR, _END64 = 20, 56  # bytes of the two further records of a zip64
_UNKNOWN = 0xFFFFFFFF  # a size that a zip64 field says
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 1, 8, 0x800
_FLAGS = 2 | 4 | _DESCRIPTOR | _UTF8  # 2 and 4: how hard it was compressed
_OTHER_NAME = 0x7075  # a field with a second name, which some readers prefer


class Refused(Exception):
    """What is wrong with an archive.

    Args:
        member: Its name; "" for the archive as a whole.
        reason: Half a sentence.
    """

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{shown(member)}: {reason}" if member else reason)


def shown(member: str) -> str:
    """A member's name for a message: of any length and content, it stays on its line."""
    text = member if len(member) <= 200 else f"{member[:200]}..."
    return text if text.isprintable() else ascii(text)


def most_expanded(size: int) -> int:
    """How many bytes an archive of a size may unpack to."""
    return min(EXPANDED, max(_SMALL, RATIO * size))


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """A zip whose directory has a bearable size and says how long it is.

    Raises:
        Refused: It is something else.
    """
    size = file.seek(0, 2)
    count, length = _end(file, size)
    if count > MEMBERS:
        raise Refused("", f"it has {count} members, and {MEMBERS} are the most")
    if length > _DIRECTORY:
        raise Refused("", f"its directory has {length} bytes, and {_DIRECTORY} are the most")
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise Refused("", f"it is no zip that can be read: {error}") from error
    if len(archive.infolist()) != count:
        raise Refused("", f"its directory has {len(archive.infolist())} members and says {count}")
    if not all(item.filename for item in archive.infolist()):
        raise Refused("", "it has a member without a name")  # of which zipfile cannot say whether it is a folder
    return archive


def _end(file: BinaryIO, size: int) -> tuple[int, int]:
    """Number of members and bytes of the directory, as the record at the end says."""
    if size < _END.size:
        raise Refused("", "it is no zip: it has no directory at its end")
    file.seek(size - _END.size)
    signature, disk, start, here, count, length, offset, comment = _END.unpack(file.read(_END.size))
    if signature != b"PK\5\6" or comment:
        raise Refused("", "it is no zip, is cut short, or has something after its directory")
    end = size - _END.size
    if 0xFFFF in (disk, start, here, count) or _UNKNOWN in (length, offset):
        end -= _LOCATOR + _END64
        if end < 0:
            raise Refused("", "its directory is that of a larger zip")
        file.seek(end)
        record = file.read(_END64 + _LOCATOR)
        if record[:4] != b"PK\6\6" or record[_END64 : _END64 + 4] != b"PK\6\7":
            raise Refused("", "its directory is that of a larger zip")
        disk, start, here, count, length, offset = struct.unpack("<2L4Q", record[16:_END64])
        if struct.unpack("<Q", record[_END64 + 8 : _END64 + 16]) != (end,):
            raise Refused("", "its directory is not where it says")
    if disk or start or here != count or offset + length != end:
        raise Refused("", "it has more than one directory, or one that is not where it says")
    return count, length


def wrong_with_directory(archive: zipfile.ZipFile, file: BinaryIO) -> Iterator[Refused]:
    """Everything that is wrong with the members, as the directory and their own headers tell them."""
    items = archive.infolist()
    for item in items:
        if reason := names.wrong_with(item.orig_filename) or _wrong_with_kind(item):
            yield Refused(item.orig_filename, reason)
    for name, reason in names.clashes(item.orig_filename for item in items):
        yield Refused(name, reason)
    size = file.seek(0, 2)
    expanded = sum(item.file_size for item in items)
    if expanded > most_expanded(size):
        yield Refused("", f"it says that it unpacks to {expanded} bytes, and {most_expanded(size)} are the most")
    yield from _wrong_with_places(items, file, archive.start_dir)


def _wrong_with_kind(item: zipfile.ZipInfo) -> str | None:
    mode = item.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a link" if kind == stat.S_IFLNK else "a device, pipe or socket"
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "it would run as another user"
    if item.is_dir() != (kind == stat.S_IFDIR) and kind:
        return "a folder by its name or by its kind, and not by the other"
    if item.is_dir() and (item.file_size or item.compress_size not in (0, 2)):
        return "a folder with content"
    if item.flag_bits & ~_FLAGS:
        return "encrypted, or of a form that this tool does not know"
    if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compressed in a way that wheels are not ({item.compress_type})"
    if not item.flag_bits & _UTF8 and not item.orig_filename.isascii():
        return "a name in an old alphabet"
    return "a second name" if _OTHER_NAME in _fields(item.extra) else None


def _fields(extra: bytes) -> list[int]:
    """The kinds of a member's extra fields."""
    found = []
    while len(extra) >= 4:
        kind, length = struct.unpack("<2H", extra[:4])
        found.append(kind)
        extra = extra[4 + length :]
    return found


def _wrong_with_places(items: list[zipfile.ZipInfo], file: BinaryIO, directory: int) -> Iterator[Refused]:
    """Members that overlap, leave a gap, or have another header of their own than the directory gives them."""
    position = 0
    for item in sorted(items, key=lambda i: i.header_offset):
        gap = item.header_offset - position
        if gap:
            yield Refused(item.orig_filename, "it overlaps the one before" if gap < 0 else f"{gap} bytes before it")
            return
        file.seek(item.header_offset)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
            yield Refused(item.orig_filename, "no member is where the directory says")
            return
        _, _, flags, method, _, _, crc, packed, size, name_length, extra = _LOCAL.unpack(header)
        name = file.read(name_length).decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        fields = _fields(file.read(extra))
        later = bool(flags & _DESCRIPTOR)  # then its own header may leave them to a record after the content
        stated = [(crc, item.CRC), (packed, item.compress_size), (size, item.file_size)]
        if (name, flags, method) != (item.orig_filename, item.flag_bits, item.compress_type) or any(
            here not in (there, _UNKNOWN, *([0] if later else [])) for here, there in stated
        ):
            yield Refused(item.orig_filename, "its own header is not what the directory says")
            return
        if _OTHER_NAME in fields:
            yield Refused(item.orig_filename, "a second name")
        position = item.header_offset + _LOCAL.size + name_length + extra + item.compress_size
        if later:
            position += _descriptor(file, position, item)
    if position != directory:
        yield Refused("", "it overlaps its directory, or has something between its members and the directory")


def _descriptor(file: BinaryIO, position: int, item: zipfile.ZipInfo) -> int:
    """Bytes of the record after a member's content; 0 when there is none that fits."""
    file.seek(position)
    found = file.read(24)
    large = max(item.compress_size, item.file_size) > _UNKNOWN
    forms = ["<LQQ"] if large else ["<LLL", "<LQQ"]
    records = [
        s + struct.pack(f, item.CRC, item.compress_size, item.file_size) for s in (b"PK\7\x08", b"") for f in forms
    ]
    return next((len(record) for record in records if found.startswith(record)), 0)


def unpacked(file: BinaryIO, item: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a member, in pieces of at most a megabyte.

    Raises:
        Refused: It is broken, or is not of the size and checksum that the directory says.
    """
    file.seek(item.header_offset)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != b"PK\3\4":
        raise Refused(item.orig_filename, "no member is where the directory says")
    file.seek(sum(_LOCAL.unpack(header)[-2:]), 1)
    pieces = _inflated if item.compress_type == zipfile.ZIP_DEFLATED else _stored
    size = crc = 0
    for piece in pieces(file, item):
        size += len(piece)
        if size > item.file_size:
            raise Refused(item.orig_filename, f"unpacks to more than the {item.file_size} bytes that it says")
        crc = zlib.crc32(piece, crc)
        yield piece
    if (size, crc) != (item.file_size, item.CRC):
        raise Refused(item.orig_filename, "is damaged: its size or checksum is not the one that it says")


def _stored(file: BinaryIO, item: zipfile.ZipInfo) -> Iterator[bytes]:
    left = item.compress_size
    while left and (piece := file.read(min(left, _PIECE))):
        left -= len(piece)
        yield piece


def _inflated(file: BinaryIO, item: zipfile.ZipInfo) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for packed in _stored(file, item):
            while packed and not inflate.eof:
                yield inflate.decompress(packed, _PIECE)
                packed = inflate.unconsumed_tail
        while not inflate.eof and (rest := inflate.decompress(b"", _PIECE)):
            yield rest
    except zlib.error as error:
        raise Refused(item.orig_filename, f"is damaged: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise Refused(item.orig_filename, "is cut short, or has something after its content")
