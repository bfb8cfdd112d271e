"""Writes a package again, so that its bytes follow from its inputs alone, and adds its SBOM.

rattler-build records the time of the build, its folders and channels, and the kernel, glibc and
processor of the machine. Here these are replaced, and the archives get one time, one owner and one
order.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, cast

import zstandard

from ctk.build import LEVEL, standins
from ctk.build.originals import Wheel, compare
from ctk.core.errors import BuildFailed
from ctk.package.reader import BUFFER, count_tests, digests, index_record

if TYPE_CHECKING:
    from ctk.build.sbom import Provenance

Find = Callable[[bytes], AbstractContextManager[standins.Found | None]]
"""Takes the content of a file; gives the file that it stands for, None if it is not a stand-in."""
Edit = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""Takes the files under ``info/`` and returns those of the package."""

_CHUNK = 1 << 20
_BLOCK = 512  # of a tar archive
# zstd's own limit at its highest levels; what rattler-build wrote needs less.
_WINDOW = 1 << 27
# Bytes from which on a member is written with 64-bit sizes; zip needs them from twice that.
_LARGE = 1 << 31
# The name of this machine's folders in published metadata. The prefix keeps the start of its
# placeholder.
BUILD_ROOT = "/build"
_FILLING = b"_placehold"
_PLACEHOLDER = re.compile(r"(?:_placehold)+(?:_[placehod]*)?")
_PATHS = "info/paths.json"
_INDEX, _ABOUT, _RECIPE = "info/index.json", "info/about.json", "info/recipe/rendered_recipe.yaml"
# The last part of a rendered recipe begins here; the parts before it come from the recipe alone.
_CONFIGURATION = "\nbuild_configuration:\n"


def rewrite(
    package: Path,
    target: Path,
    *,
    time: int,
    edit: Edit,
    find: Find = lambda content: nullcontext(),
) -> tuple[dict[str, Any], int]:
    """Writes a package again; returns its record for an index, and the number of its tests.

    Raises:
        Changed: The package has a stand-in elsewhere than as the content of a file, or with the
            prefix in it.
    """
    metadata: Mapping[str, bytes] = {}
    entries: dict[str, tuple[str, int]] = {}  # sha256 of a stand-in -> sha256 and size of the file
    with zipfile.ZipFile(package) as source, target.open("w+b") as file:
        (of_info,) = (name for name in source.namelist() if name.startswith("info-"))
        with source.open(of_info) as packed_info:
            info = {m.name: content.read() for m, content in _tar(packed_info) if content}
        prefixed = _prefixed(info[_PATHS])
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for member in source.infolist():
                # A member of its own: the original's extra fields describe the original archive.
                fresh = zipfile.ZipInfo(member.filename)
                large = member.file_size >= _LARGE
                with source.open(member) as old, archive.open(fresh, "w", force_zip64=large) as new:
                    if member.filename.startswith("info-"):
                        _refuse_stand_ins(info.values(), find)
                        if entries or prefixed:
                            info[_PATHS] = _true_entries(info[_PATHS], entries, prefixed)
                        metadata = edit(info)
                        files = (_file(name, content) for name, content in sorted(metadata.items()))
                        _write_tar(plain := io.BytesIO(), files, time)
                        # Small: a twentieth smaller at a higher level, which costs a millisecond;
                        # at 19, 25 of them.
                        new.write(_compressor(9).compress(plain.getbuffer()))
                    elif member.filename.startswith("pkg-"):
                        packed = _compressor(LEVEL).stream_writer(
                            new, write_size=_CHUNK, closefd=False
                        )
                        # Each call of it takes 70 µs, and a header has 512 bytes.
                        with (
                            packed,
                            io.BufferedWriter(cast(io.RawIOBase, packed), _CHUNK) as gathered,
                        ):
                            _write_tar(
                                gathered, _put_back(_tar(old), find, entries, prefixed), time
                            )
                    else:
                        new.write(old.read())
        return index_record(metadata, digests(file)), count_tests(metadata)


def edit_texts(package: Path, edit: Callable[[str], str]) -> None:
    """Edits what a package says of the channels that it was built against.

    Everything else stays byte for byte.
    """
    fresh = package.with_suffix(".part")
    with (
        zipfile.ZipFile(package) as source,
        zipfile.ZipFile(fresh, "w", zipfile.ZIP_STORED) as archive,
    ):
        for member in source.infolist():
            large = member.file_size >= _LARGE
            with (
                source.open(member) as old,
                archive.open(member.filename, "w", force_zip64=large) as new,
            ):
                if not member.filename.startswith("info-"):
                    shutil.copyfileobj(old, new, _CHUNK)
                    continue
                packed = _compressor(9).stream_writer(new, closefd=False)
                with (
                    packed,
                    tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as target,
                ):
                    for info, content in _tar(old):
                        text = content.read() if content else b""
                        if info.name in (_ABOUT, _RECIPE):
                            text = edit(text.decode()).encode()
                            info.size = len(text)
                        target.addfile(info, io.BytesIO(text))
    fresh.replace(package)


_Members = Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]
"""The members of a tar archive in order, with the contents of files."""


def _tar(compressed: IO[bytes]) -> _Members:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    with (
        decompressor.stream_reader(compressed, read_size=BUFFER) as plain,
        tarfile.open(fileobj=plain, mode="r|", bufsize=BUFFER) as archive,
    ):
        for member in archive:
            yield member, archive.extractfile(member) if member.isfile() else None


def _prefixed(paths: bytes) -> dict[str, tuple[bytes, bytes]]:
    """Path -> the prefix in this file, and one as long that is the same for every build.

    The first is a folder of this build.
    """
    found: dict[str, tuple[bytes, bytes]] = {}
    for entry in json.loads(paths)["paths"]:
        if prefix := entry.get("prefix_placeholder", "").encode():
            same = f"{BUILD_ROOT}/host_env".encode() + _FILLING * (len(prefix) // len(_FILLING) + 1)
            found[entry["_path"]] = prefix, same[: len(prefix)]
    return found


def _put_back(
    members: _Members,
    find: Find,
    entries: dict[str, tuple[str, int]],
    prefixed: dict[str, tuple[bytes, bytes]],
) -> _Members:
    """The members of a package with real files for stand-ins, and the same prefix for every build.

    Their sha256 and sizes go into `entries`.
    """
    for member, content in members:
        if content and (prefixes := prefixed.get(member.name)):
            text = content.read()
            with find(text) as found:
                if found:
                    raise standins.Changed("a stand-in has the prefix in it")
            same = text.replace(*prefixes)
            entries[hashlib.sha256(text).hexdigest()] = hashlib.sha256(same).hexdigest(), len(same)
            yield member, io.BytesIO(same)
            continue
        if content is None or member.size > standins.LONGEST:
            yield member, content
            continue
        start = content.read(member.size)
        with find(start) as found:
            if found is None:
                yield member, io.BytesIO(start)
            else:
                member.size = found.size
                yield member, found.content
                entries[hashlib.sha256(start).hexdigest()] = found.sha256, found.size


def _refuse_stand_ins(contents: Iterable[bytes], find: Find) -> None:
    """Raises `Changed` if metadata has a stand-in in it."""
    for content in contents:
        with find(content) as found:
            if found:
                raise standins.Changed("metadata has a stand-in in it")


def _true_entries(
    text: bytes, entries: Mapping[str, tuple[str, int]], prefixed: Mapping[str, tuple[bytes, bytes]]
) -> bytes:
    """A paths.json with the prefixes, sha256 and sizes of the files as `_put_back` gives them."""
    document = json.loads(text)
    for entry in document["paths"]:
        if prefixes := prefixed.get(entry["_path"]):
            entry["prefix_placeholder"] = prefixes[1].decode()
        if found := entries.get(entry["sha256"]):
            entry["sha256"] = found[0]
            if entry["path_type"] == "hardlink":  # for a link, it is the link's own
                entry["size_in_bytes"] = found[1]
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def _file(name: str, content: bytes) -> tuple[tarfile.TarInfo, IO[bytes]]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, io.BytesIO(content)


def _write_tar(target: IO[bytes], members: _Members, time: int) -> None:
    for member, content in members:
        member.mtime = time
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        # The umask of the build does not reach users: rattler and conda keep the executable bit
        # alone.
        member.mode = (
            0o777 if member.issym() else 0o755 if member.isdir() or member.mode & 0o111 else 0o644
        )
        target.write(member.tobuf(tarfile.GNU_FORMAT))
        left = member.size if content else 0
        while content and left:
            block = content.read(min(_CHUNK, left))
            if not block:
                raise EOFError(f"{member.name} ends {left} bytes early")
            target.write(block)
            left -= len(block)
        if content:
            target.write(bytes(-member.size % _BLOCK))
    target.write(bytes(2 * _BLOCK))


@cache
def _compressor(level: int) -> zstandard.ZstdCompressor:
    # Kept: making one takes most of the time of a small file. One thread: with several, the result
    # depends on how the work is cut.
    return zstandard.ZstdCompressor(level=level)


def portable(
    files: Mapping[str, bytes],
    origin: Provenance,
    folders: Mapping[str, str],
    wheels: Sequence[Wheel] = (),
    edits: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, bytes]:
    """The metadata of a package as it is published, with its SBOM.

    Args:
        files: The files under ``info/``, as rattler-build wrote them.
        origin: The provenance of the package.
        folders: This machine's folders -> their names in the package; longer names are replaced
            first.
        wheels: Its artefacts.
        edits: Path -> what patchelf changed in it.
    """
    from ctk.build import sbom  # its import takes a fifth of a second

    index, paths = json.loads(files[_INDEX]), json.loads(files[_PATHS])["paths"]
    index["timestamp"] = origin.timestamp * 1000
    texts = {
        name: _without(files[name].decode(), folders) for name in (_ABOUT, _RECIPE) if name in files
    }
    if _RECIPE in texts:
        texts[_RECIPE] = _rendered(texts[_RECIPE], origin)
    return {
        **files,
        **{name: text.encode() for name, text in texts.items()},
        _INDEX: json.dumps(index, indent=2, ensure_ascii=False).encode(),
        sbom.place(index["name"]): sbom.write(index, origin, compare(paths, wheels, edits)),
    }


def _without(text: str, folders: Mapping[str, str]) -> str:
    for old, new in sorted(folders.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(old, new)
    return _PLACEHOLDER.sub("", text)


def _rendered(text: str, origin: Provenance) -> str:
    """A rendered recipe without the machine's virtual packages, and with the time of the lock."""
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
                f"rattler-build {origin.tools['rattler-build']} writes rendered recipes in another"
                f" way ({times} places look like {pattern!r}, not {number})",
                "adapt ctk.build.reproducible to it; without that, two builds of a package would"
                " differ",
            )
    return before + found + configuration
