"""Scans packages and wheels: hashes, searches for byte strings, reads headers of binaries.

This is the slow half of the audit, without its rules. The result is plain data, kept by the
package's sha256, so that a package is opened once, however often the rules run.
"""

from __future__ import annotations

import ast
import hashlib
import io
import posixpath
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath
from typing import IO

from pydantic import TypeAdapter

from ctk.core.errors import MeasureFailed
from ctk.core.files import file_sha256, open_plain
from ctk.core.memo import Memo, memo
from ctk.core.platforms import PLATFORMS
from ctk.package import binaries, gpu_fatbin
from ctk.package import reader as package
from ctk.package.archives import Refused, open_zip
from ctk.package.binaries import Binary, UnreadableBinary
from ctk.package.reader import PLACEHOLDER, Kind, PackageInfo, ScannedFile, Sighting

_CHUNK = 1 << 20
_PLACEHOLDER = PLACEHOLDER.encode()
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class Search:
    """Finds whole paths in a stream of chunks, also across chunks.

    A path counts if no character of a file name is beside it: ``/home/me`` is not found in
    ``/mnt/home/meta``. A folder of the root, such as ``/root``, is on every machine: it counts only
    with a path below it. Placeholders, declared or not, count everywhere.
    """

    def __init__(self, forbidden: Sequence[bytes], declared: Sequence[bytes] = ()) -> None:
        self._forbidden, self._declared = forbidden, declared
        self._exact = frozenset((_PLACEHOLDER, *declared))
        self._needles = (*forbidden, *self._exact.difference(forbidden))
        self._keep = max((len(needle) for needle in self._needles), default=0) + 1
        self._next = dict.fromkeys(self._needles, 0)
        self._tail = b""
        self._start = 0  # offset of the window's first byte
        self.hits: dict[bytes, list[int]] = {}
        self.context: dict[bytes, str] = {}

    def feed(self, chunk: bytes, last: bool = False) -> None:
        window = self._tail + chunk
        for needle in self._needles:
            at = window.find(needle, max(0, self._next[needle] - self._start))
            while at >= 0 and (last or at + len(needle) < len(window)):
                self._next[needle] = self._start + at + 1
                if needle in self._exact or self._is_whole(window, at, at + len(needle)):
                    self.hits.setdefault(needle, []).append(self._start + at)
                    self.context.setdefault(
                        needle, _printable(window[max(0, at - 8) : at + len(needle) + 40])
                    )
                at = window.find(needle, at + 1)
        self._tail = window[-self._keep :]
        self._start += len(window) - len(self._tail)

    @staticmethod
    def _is_whole(window: bytes, start: int, end: int) -> bool:
        if (
            window.count(b"/", start, end) == 1
            and window[start : start + 1] == b"/"
            and window[end : end + 1] != b"/"
        ):
            return False
        return (start == 0 or window[start - 1] not in _NAME) and (
            end >= len(window) or window[end] not in _NAME
        )

    def sightings(self) -> tuple[Sighting, ...]:
        """Forbidden paths, and placeholders that are not inside a declared placeholder."""
        covered = [
            (at, at + len(needle)) for needle in self._declared for at in self.hits.get(needle, ())
        ]
        found = []
        for needle in (*self._forbidden, _PLACEHOLDER):
            offsets = [
                at
                for at in self.hits.get(needle, ())
                if not any(start <= at < end for start, end in covered)
            ]
            if offsets:
                found.append(Sighting(needle.decode(), len(offsets), self.context[needle]))
        return tuple(found)


def _printable(content: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in content)


def outermost(paths: Sequence[str]) -> tuple[str, ...]:
    """The folders that are in no other of them, without the root and trailing slashes."""
    plain = sorted({path.rstrip("/") for path in paths} - {""})
    return tuple(path for path in plain if not any(path.startswith(f"{other}/") for other in plain))


@dataclass(frozen=True)
class PackageScan:
    """The metadata and the files of a package, for the checks."""

    file: str  # its path as given
    sha256: str  # of the package file, "" if only its metadata was read
    info: PackageInfo
    # Members of both halves; for a package that is only a dependency, the entries of its
    # paths.json.
    files: tuple[ScannedFile, ...] = field(repr=False, default=())

    @property
    def name(self) -> str:
        return self.info.index.name

    @property
    def subdir(self) -> str:
        return self.info.index.subdir

    @property
    def file_name(self) -> str:
        return PurePath(self.file).name

    @property
    def half(self) -> str:
        """The subdir of a ``noarch`` package whose name ends with ``_<subdir>``, else ""."""
        subdirs = PLATFORMS if self.info.index.noarch else ()
        return next((subdir for subdir in subdirs if self.name.endswith(f"_{subdir}")), "")

    @property
    def target_subdir(self) -> str:
        """The subdir whose machines run the package's binaries, "" for all."""
        return self.half or ("" if self.info.index.noarch else self.subdir)

    def installed(self) -> Iterator[ScannedFile]:
        """The files that end up in an environment."""
        return (file for file in self.files if file.part == "pkg" and file.kind != "folder")

    def places(self) -> Iterator[str]:
        """Their paths, and the folders that they are in."""
        for file in self.installed():
            path = file.path
            while path:
                yield path
                path = posixpath.dirname(path)


_SCANS = TypeAdapter(PackageScan)


@dataclass(frozen=True)
class BinaryContent:
    """What a binary says of itself."""

    binary: Binary | None = None
    unreadable: str = ""  # why it has no headers that can be read
    code: gpu_fatbin.FileCode | None = None  # of its GPU code, if it has any


@dataclass(frozen=True)
class Scanner:
    """Reads packages whole, each once: a scan is kept by what it is of.

    Attributes:
        forbidden: Paths to look for in every file.
        cache: The folder of notes.
        known: sha256 of a binary -> what it says, for the packages that have the same one.
    """

    forbidden: Sequence[str]
    cache: Path | None = None
    known: dict[str, BinaryContent] = field(default_factory=dict, compare=False, repr=False)

    def scan(self, path: Path) -> PackageScan:
        """The scan of a package, which is opened once, for its sha256 and for all that is in it.

        Raises:
            AuditFailed: The package cannot be read.
        """
        with package.readable(path):
            file = open_plain(path)
        with file:
            with package.readable(path):
                sha256 = file_sha256(file)
            if self.cache is None:
                return self._read(path, file, sha256)
            scan = self.note(self.cache, sha256).get(lambda: self._read(path, file, sha256))
        return replace(scan, file=str(path))

    def note(self, cache: Path, sha256: str) -> Memo[PackageScan]:
        """The note of a package's scan.

        Its content, the paths searched for and the reading code decide it.
        """
        return memo(cache / "scans", [sha256, _code(), outermost(self.forbidden)], _SCANS)

    def _read(self, path: Path, file: IO[bytes], sha256: str) -> PackageScan:
        # Declared placeholders are in paths.json, so the metadata is read before anything is
        # searched.
        metadata = [
            (member, stream.read() if stream else None)
            for member, stream in package.members(path, "info", file)
        ]
        info = package.info_of(path, metadata)
        placeholders = {
            entry.path: entry.placeholder.encode() for entry in info.paths if entry.placeholder
        }
        forbidden = [text.encode() for text in outermost(self.forbidden)]
        files = []
        for member, content in metadata:
            # It repeats the declared placeholders for the installer.
            declared = tuple(placeholders.values()) if member.path == "info/paths.json" else ()
            search = Search(forbidden, declared)
            files.append(
                _scan_member(
                    member, None if content is None else io.BytesIO(content), search, self.known
                )
            )
        for member, stream in package.members(path, "pkg", file):
            declared = (placeholders[member.path],) if member.path in placeholders else ()
            files.append(_scan_member(member, stream, Search(forbidden, declared), self.known))
        return PackageScan(
            str(path), sha256, info, tuple(sorted(files, key=lambda scanned: scanned.path))
        )


@cache
def _code() -> list[str]:
    return [
        file_sha256(Path(file))
        for file in (package.__file__, binaries.__file__, gpu_fatbin.__file__, __file__)
    ]


def listed_package(path: Path) -> PackageScan:
    """A package by its metadata alone: enough for a dependency, not for the audit."""
    info = package.read_info(path)
    kinds: dict[str, Kind] = {"softlink": "link", "directory": "folder"}
    files = [
        ScannedFile("pkg", e.path, kinds.get(e.kind, "file"), e.size, sha256=e.sha256)
        for e in info.paths
    ]
    return PackageScan(str(path), "", info, tuple(files))


def _scan_member(
    file: ScannedFile,
    stream: IO[bytes] | None,
    search: Search,
    known: dict[str, BinaryContent],
) -> ScannedFile:
    if stream is None:
        return file
    digest, size = hashlib.sha256(), 0
    chunk = stream.read(_CHUNK)
    is_binary = file.part == "pkg" and chunk.startswith((binaries.ELF_MAGIC, binaries.PE_MAGIC))
    is_module = file.part == "pkg" and file.path.endswith(".py")
    with tempfile.NamedTemporaryFile(prefix="ctk-audit-") if is_binary else io.BytesIO() as kept:
        while chunk:
            size += len(chunk)
            digest.update(chunk)
            search.feed(chunk)
            if is_binary or is_module:
                kept.write(chunk)
            chunk = stream.read(_CHUNK)
        search.feed(b"", last=True)
        kept.flush()
        sha256 = digest.hexdigest()
        if is_binary and sha256 not in known:
            known[sha256] = _binary_content(Path(kept.name))
        content = known[sha256] if is_binary else BinaryContent()
        folders = (
            _dll_folders(kept.getvalue()) if is_module and isinstance(kept, io.BytesIO) else ()
        )
    file = replace(
        file,
        size=size,
        sha256=sha256,
        binary=content.binary,
        unreadable=content.unreadable,
        code=content.code,
        dll_folders=folders,
    )
    return replace(file, sightings=search.sightings())


def _binary_content(file: Path) -> BinaryContent:
    """What a binary says of itself."""
    read = gpu_fatbin.read_file(file, uses=False)
    code = read if read.says_something else None
    try:
        return BinaryContent(binaries.read_binary(file), code=code)
    except UnreadableBinary as error:
        return BinaryContent(unreadable=str(error), code=code)


def _dll_folders(source: bytes) -> tuple[str, ...]:
    """The names of folders in the arguments of a module's calls of `os.add_dll_directory`."""
    if b"add_dll_directory" not in source:
        return ()
    found: set[str] = set()
    with suppress(
        SyntaxError, ValueError, RecursionError, MemoryError
    ):  # Python does not run such a file either
        nodes = list(ast.walk(ast.parse(source)))
        calls = [
            n
            for n in nodes
            if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_dll_directory"
        ]
        given = [argument for call in calls for argument in call.args]
        names = {argument.id for argument in given if isinstance(argument, ast.Name)}
        for node in nodes:  # the values of these names
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                given += [
                    part
                    for part in (getattr(node, "value", None), getattr(node, "iter", None))
                    if part
                ]
        for node in (inner for path in given for inner in ast.walk(path)):
            parts = [node.right] if isinstance(node, ast.BinOp) else []
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "join":
                parts = node.args
            found.update(
                p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)
            )
    return tuple(sorted(found))


def scan_wheel(path: Path) -> Iterator[ScannedFile]:
    """The members of a wheel, scanned as those of a package.

    Raises:
        MeasureFailed: The wheel, or a binary in it, cannot be read.
    """
    try:
        with open_plain(path) as file, open_zip(file) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    member = ScannedFile("pkg", item.filename, "file", item.file_size)
                    with archive.open(item) as stream:
                        member = _scan_member(member, stream, Search(()), {})
                    if member.unreadable:
                        raise MeasureFailed(
                            f"{path}: {member.path}: {member.unreadable}", "look at that file"
                        )
                    yield member
    except Refused as error:
        raise MeasureFailed(
            f"{path} cannot be read: {error}", "delete it; the next run fetches it again"
        ) from error
