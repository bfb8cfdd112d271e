"""Writes a package again, so that its bytes follow from its inputs alone, and not from the machine or the moment.

rattler-build gives every file the time of the build, and records the working directories, channels, kernel, glibc and
processor of the machine. That would tell every user where a package was built, and make two builds of it differ.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import zstandard

from ctk.build import sbom
from ctk.core.errors import BuildFailed
from ctk.package.package import count_tests, index_record

Edit = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""Takes the files under ``info/`` and returns those of the package."""

_CHUNK = 1 << 20
_BLOCK = 512  # of a tar archive
# zstd's own limit at its highest levels; what rattler-build wrote needs less.
_WINDOW = 1 << 27
_LARGE = 1 << 31  # bytes from which on a member is written with 64-bit sizes; zip needs them from twice that
# What a machine's folders are called in published metadata. The prefix keeps its placeholder's shape, cut short.
BUILD_ROOT = "/build"
_PLACEHOLDER = re.compile(r"(?:_placehold)+(?:_[placehod]*)?")
_INDEX, _ABOUT, _RECIPE = "info/index.json", "info/about.json", "info/recipe/rendered_recipe.yaml"
# A rendered recipe's last part begins here; what is before it comes from the recipe alone.
_CONFIGURATION = "\nbuild_configuration:\n"


def rewrite(package: Path, target: Path, *, time: int, level: int, edit: Edit) -> tuple[dict[str, Any], int]:
    """Writes a package again; returns its record for an index, and the number of its tests.

    Args:
        package: A ``.conda`` file of rattler-build.
        target: The file to write.
        time: Seconds since 1970: the modification time of every file that the package installs.
        level: zstd compression level.
        edit: Takes the files under ``info/`` and returns those of the package.

    Raises:
        OSError, EOFError, tarfile.TarError, zstandard.ZstdError: The disk is full, or the package is broken.
    """
    metadata: Mapping[str, bytes] = {}
    with zipfile.ZipFile(package) as source, target.open("w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for member in source.infolist():
                # A member of its own: the original's extra fields describe the original archive.
                fresh = zipfile.ZipInfo(member.filename)
                large = member.file_size >= _LARGE
                with source.open(member) as old, archive.open(fresh, "w", force_zip64=large) as new:
                    if member.filename.startswith("info-"):
                        metadata = edit(_metadata(old))
                        _write_metadata(metadata, new, time, level)
                    elif member.filename.startswith("pkg-"):
                        _payload(old, new, time, level)
                    else:
                        new.write(old.read())
        return index_record(metadata, _digests(file)), count_tests(metadata)


def _digests(file: IO[bytes]) -> dict[str, Any]:
    """Size and hashes of a file, as the record of a package has them."""
    file.seek(0)
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    while block := file.read(_CHUNK):
        md5.update(block)
        sha256.update(block)
    return {"size": file.tell(), "md5": md5.hexdigest(), "sha256": sha256.hexdigest()}


def _payload(old: IO[bytes], new: IO[bytes], time: int, level: int) -> None:
    with (
        _reader(old) as plain,
        tarfile.open(fileobj=plain, mode="r|", bufsize=_CHUNK) as source,
        _writer(new, level) as target,
    ):
        for member in source:
            _add(target, member, source.extractfile(member) if member.isfile() else None, time)
        target.write(bytes(2 * _BLOCK))


def _metadata(old: IO[bytes]) -> dict[str, bytes]:
    with _reader(old) as plain:
        whole = io.BytesIO(plain.read())
    with tarfile.open(fileobj=whole) as source:
        return {member.name: source.extractfile(member).read() for member in source if member.isfile()}  # type: ignore[union-attr]


def _write_metadata(files: Mapping[str, bytes], new: IO[bytes], time: int, level: int) -> None:
    # Small, and read by every client for every package: worth the highest level that needs no more memory.
    with _writer(new, max(level, 19)) as target:
        for name, content in sorted(files.items()):
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


def portable(files: Mapping[str, bytes], origin: sbom.Provenance, folders: Mapping[str, str]) -> Mapping[str, bytes]:
    """The metadata of a package as it is published, with its SBOM.

    Args:
        files: The files under ``info/``, as rattler-build wrote them.
        origin: The provenance of the package.
        folders: This machine's folders -> what replaces them in a package; longer names are replaced first.

    Raises:
        BuildFailed: This rattler-build writes metadata of another shape.
    """
    index = json.loads(files[_INDEX])
    index["timestamp"] = origin.timestamp * 1000
    texts = {name: _without(files[name].decode(), folders) for name in (_ABOUT, _RECIPE) if name in files}
    if _RECIPE in texts:
        texts[_RECIPE] = _rendered(texts[_RECIPE], origin)
    return {
        **files,
        **{name: text.encode() for name, text in texts.items()},
        _INDEX: json.dumps(index, indent=2, ensure_ascii=False).encode(),
        sbom.place(index["name"]): sbom.write(index, origin),
    }


def _without(text: str, folders: Mapping[str, str]) -> str:
    for old, new in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(old, new)
    return _PLACEHOLDER.sub("", text)


def _rendered(text: str, origin: sbom.Provenance) -> str:
    """A rendered recipe without the virtual packages of the machine, and with the time of the lock."""
    before, found, configuration = text.partition(_CONFIGURATION)
    moment = datetime.fromtimestamp(origin.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for pattern, number, value in (
        (r"^    platform: .*$", 2, f"    platform: {origin.place}"),
        (r"^    virtual_packages:(?: \[\]|(?:\n    - .*)+)$", 2, "    virtual_packages: []"),
        (r"^  timestamp: .*$", 1, f"  timestamp: {moment}"),
        (r"^    compression_level: .*$", 1, f"    compression_level: {origin.level}"),
    ):
        configuration, times = re.subn(pattern, value, configuration, flags=re.MULTILINE)
        if not found or times != number:
            raise BuildFailed(
                f"rattler-build {origin.tools['rattler-build']} writes rendered recipes in another way "
                f"({times} places look like {pattern!r}, not {number})",
                "adapt ctk.build.reproducible to it; without that, two builds of a package would differ",
            )
    return before + found + configuration
