"""A ``.conda`` in the form in which `ctk.build.runner` writes it, so that all clients unpack the same from it.

The zip's bytes follow from the names, sizes and checksums of its members, and those of a tar's headers from the names,
sizes and one time. They are made again here and compared: what the form does not ask for is not there.
"""

from __future__ import annotations

import io
import itertools
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from ctk.core.errors import AuditFailed
from ctk.package.archives import shown
from ctk.package.package import BUFFER, Member, Part, unpacked

_NAMES = ("metadata.json", "pkg-{}.tar.zst", "info-{}.tar.zst")
_PARTS: tuple[Part, ...] = ("info", "pkg")
_METADATA = b'{"conda_pkg_format_version":2}'
_BLOCK, _LONG = tarfile.BLOCKSIZE, 1 << 16  # bytes; the second: of a header with a long name
_BLOCKS = 1 << 20  # of a zstd frame; they have up to 128 KiB each
_MEMBERS = 100_000  # of a half; the largest have some thousand
_KINDS: dict[bytes, Any] = {tarfile.REGTYPE: "file", tarfile.SYMTYPE: "link", tarfile.DIRTYPE: "folder"}


@dataclass(frozen=True)
class Entry:
    """One member of a half.

    Attributes:
        member: With its path as written.
        time: Seconds since 1970.
        wrong: What is not as it should be with its header, "" for nothing.
        content: To be read before the next entry is taken.
    """

    member: Member
    time: int
    wrong: str
    content: Iterator[bytes]


def entries(path: Path) -> Iterator[Entry]:
    """The members of both halves of a package, metadata first; for a block of `ctk.package.package.readable`.

    Raises:
        AuditFailed: The archive around them is of another form.
    """
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        _hold_to_form(file, archive, path)
        for part in _PARTS:
            with archive.open(f"{part}-{path.stem}.tar.zst") as compressed:
                yield from _members(part, io.BufferedReader(unpacked(compressed, part), BUFFER), path)


def is_one_frame(file: IO[bytes], start: int, end: int) -> bool:
    """Whether a part of a file is one frame of zstd: what follows one, some clients read and others do not."""
    file.seek(start)
    head = file.read(min(18, end - start))
    if not head.startswith(zstandard.FRAME_HEADER):
        return False
    start += zstandard.frame_header_size(head)
    for _ in range(_BLOCKS):
        file.seek(start)
        block = int.from_bytes(file.read(3), "little")  # from the lowest bit: last, two of the kind, size
        start += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)  # of a repeated byte there is one
        if block & 1 or start >= end:
            return bool(block & 1) and start + 4 * zstandard.get_frame_parameters(head).has_checksum == end
    return False


class _Tail(io.BytesIO):
    """The end of a zip, for zipfile to write as if the beginning were there."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def tell(self) -> int:
        return self._start + super().tell()

    def seek(self, place: int, whence: int = 0) -> int:
        return super().seek(place - self._start, whence)


def _hold_to_form(file: IO[bytes], archive: zipfile.ZipFile, path: Path) -> None:
    found, wanted = archive.infolist(), [name.format(path.stem) for name in _NAMES]
    if [member.filename for member in found] != wanted:
        said = ", ".join(shown(member.filename) for member in found[:9])
        raise _refused(path, f"holds {said or 'nothing'}, not {', '.join(wanted)}")
    at, ours, fixed = 0, [], []
    for member in found:
        info = zipfile.ZipInfo(member.filename)
        info.file_size = info.compress_size = member.file_size
        info.CRC, info.header_offset, info.create_system, info.external_attr = member.CRC, at, 3, 0o600 << 16
        header = info.FileHeader()
        ours.append(info)
        fixed.append((at, header))
        at += len(header) + member.file_size
    tail = _Tail(at)
    with zipfile.ZipFile(tail, "w") as again:
        again.filelist = ours
    for place, content in (*fixed, (at, tail.getvalue())):
        file.seek(place)
        # One byte more at the end shows whether there is one.
        if file.read(len(content) + (place == at)) != content:
            raise _refused(path, f"is no zip as ctk writes it: from byte {place} on, it has something else")
    for (place, header), info in zip(fixed[1:], ours[1:], strict=True):
        if not is_one_frame(file, place + len(header), place + len(header) + info.file_size):
            raise _refused(path, f"holds in {info.filename} something else than one frame of zstd")
    if ours[0].file_size != len(_METADATA) or archive.read(found[0]) != _METADATA:
        raise _refused(path, f"has another {wanted[0]} than {_METADATA.decode()}")


def _members(part: Part, plain: IO[bytes], path: Path) -> Iterator[Entry]:
    for count in itertools.count():
        if (raw := plain.read(_BLOCK)) == bytes(_BLOCK):
            break
        if count == _MEMBERS:
            raise _refused(path, f"holds more than {_MEMBERS} files in its {part} half")
        entry, raw = _header(raw, plain)
        if entry.type not in _KINDS or entry.size < 0:
            raise _refused(path, f"holds {entry.name!r}, which is neither a file nor a link nor a folder")
        size = entry.size if entry.isreg() else 0
        content = _content(plain, size)
        member = Member(part, entry.name, _KINDS[entry.type], size, entry.linkname)
        yield Entry(member, int(entry.mtime), _wrong(part, entry, raw), content)
        for _ in content:
            pass
        if plain.read(-size % _BLOCK).strip(b"\0"):
            raise _refused(path, f"holds something behind the end of {entry.name!r}")
    if plain.read(_BLOCK + 1) != bytes(_BLOCK):
        raise _refused(path, f"holds something behind the end of its {part} half")


def _header(raw: bytes, plain: IO[bytes]) -> tuple[tarfile.TarInfo, bytes]:
    """A member's header and all of its bytes, with what precedes it when a name is long."""
    entry, long = tarfile.TarInfo.frombuf(raw, "utf-8", "surrogateescape"), {}
    while entry.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK) and len(raw) < _LONG:
        size = min(max(entry.size, 0), _LONG)
        text, block = plain.read(size + -size % _BLOCK), plain.read(_BLOCK)
        long[entry.type] = text[:size].rstrip(b"\0").decode("utf-8", "surrogateescape")
        entry, raw = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape"), raw + text + block
    entry.name = long.get(tarfile.GNUTYPE_LONGNAME, entry.name)
    entry.linkname = long.get(tarfile.GNUTYPE_LONGLINK, entry.linkname)
    return entry, raw


def _content(plain: IO[bytes], left: int) -> Iterator[bytes]:
    while left:
        piece = plain.read(min(BUFFER, left))
        if not piece:
            raise tarfile.ReadError("it ends within a file")
        left -= len(piece)
        yield piece


def _wrong(part: Part, entry: tarfile.TarInfo, raw: bytes) -> str:
    # Both halves are unpacked into one folder, on some systems without regard to case.
    if (entry.name.partition("/")[0].casefold() == "info") != (part == "info"):
        return f"is in the {part} half"
    fresh = tarfile.TarInfo(entry.name)
    fresh.type, fresh.mtime = entry.type, entry.mtime
    fresh.size = entry.size if entry.isreg() else 0
    fresh.linkname = entry.linkname if entry.issym() else ""
    fresh.mode = 0o777 if entry.issym() else 0o755 if entry.isdir() or entry.mode & 0o111 else 0o644
    if part == "info" and (not entry.isreg() or entry.mode & 0o111):
        return "is no plain file"
    if fresh.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") == raw:
        return ""
    odd = [key for key in ("mode", "uid", "gid", "uname", "gname") if getattr(entry, key) != getattr(fresh, key)]
    said = ", ".join(f"{key} {oct(entry.mode) if key == 'mode' else repr(getattr(entry, key))}" for key in odd)
    return f"has {said or 'a header of another form'}"


def _refused(path: Path, what: str) -> AuditFailed:
    return AuditFailed(f"{path.name} {what}", "build it again; a package must not be changed after it was built")
