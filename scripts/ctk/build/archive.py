"""Writes a ``.conda`` archive again, so that its bytes follow from its contents alone.

rattler-build gives every member the moment of the build as its time, and compresses on the way. Here each member gets a
time from outside, the modes that the installer can tell apart, and one compression.
"""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import zstandard

Edit = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""The files under ``info/`` -> what the package gets instead."""

_CHUNK = 1 << 20
_BLOCK = 512  # what a tar archive is made of
# zstd's own limit at its highest levels; what rattler-build wrote needs less.
_WINDOW = 1 << 27
_LARGE = 1 << 31  # bytes from which on a member is written with 64-bit sizes; zip needs them from twice that


def rewrite(package: Path, *, time: int, level: int, edit: Edit) -> None:
    """Writes a package again, in place.

    Args:
        package: A ``.conda`` file.
        time: Seconds since 1970: the modification time of every file that the package installs.
        level: zstd compression level.
        edit: Told of the metadata; what it returns replaces it.

    Raises:
        OSError, EOFError, tarfile.TarError, zstandard.ZstdError: The disk is full, or the package is broken. It stays
            as it was.
    """
    temporary = package.with_suffix(".tmp")
    try:
        with zipfile.ZipFile(package) as source, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as target:
            for member in source.infolist():
                # A member of its own: the original's extra fields describe the original archive.
                fresh = zipfile.ZipInfo(member.filename)
                with source.open(member) as old, target.open(fresh, "w", force_zip64=member.file_size >= _LARGE) as new:
                    if member.filename.startswith("info-"):
                        _metadata(old, new, time, level, edit)
                    elif member.filename.startswith("pkg-"):
                        _payload(old, new, time, level)
                    else:
                        new.write(old.read())
        os.replace(temporary, package)
    finally:
        temporary.unlink(missing_ok=True)


def _payload(old: IO[bytes], new: IO[bytes], time: int, level: int) -> None:
    with (
        _reader(old) as plain,
        tarfile.open(fileobj=plain, mode="r|", bufsize=_CHUNK) as source,
        _writer(new, level) as target,
    ):
        for member in source:
            _add(target, member, source.extractfile(member) if member.isfile() else None, time)
        target.write(bytes(2 * _BLOCK))


def _metadata(old: IO[bytes], new: IO[bytes], time: int, level: int, edit: Edit) -> None:
    with _reader(old) as plain:
        whole = io.BytesIO(plain.read())
    with tarfile.open(fileobj=whole) as source:
        files = {member.name: source.extractfile(member).read() for member in source if member.isfile()}  # type: ignore[union-attr]
    # Small, and read by every client for every package: worth the highest level that needs no more memory.
    with _writer(new, max(level, 19)) as target:
        for name, content in sorted(edit(files).items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            _add(target, member, io.BytesIO(content), time)
        target.write(bytes(2 * _BLOCK))


def _add(target: IO[bytes], member: tarfile.TarInfo, content: IO[bytes] | None, time: int) -> None:
    member.mtime = time
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    # What the umask of the build left is not what users get: rattler and conda keep the executable bit alone.
    member.mode = 0o777 if member.issym() else 0o755 if member.isdir() or member.mode & 0o111 else 0o644
    target.write(member.tobuf(tarfile.GNU_FORMAT))
    if content is None:
        return
    left = member.size
    while left:
        block = content.read(min(_CHUNK, left))
        if not block:
            raise EOFError(f"{member.name} ends {left} bytes early")
        target.write(block)
        left -= len(block)
    target.write(bytes(-member.size % _BLOCK))


def _reader(compressed: IO[bytes]) -> zstandard.ZstdDecompressionReader:
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(compressed, read_size=_CHUNK)


def _writer(target: IO[bytes], level: int) -> zstandard.ZstdCompressionWriter:
    # One thread: with several, the result depends on how the work is cut.
    return zstandard.ZstdCompressor(level=level).stream_writer(target, write_size=_CHUNK, closefd=False)
