"""One pass over a package: every file hashed, searched for byte strings, and its headers read if it is a binary.

This is the slow half of the audit and knows no rule. Its result is plain data, so that a package is opened once however
often the rules run (`ctk.package.cache`).
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ctk.core.files import file_sha256
from ctk.package import binaries, package
from ctk.package.binaries import Binary, UnreadableBinary
from ctk.package.package import PLACEHOLDER, Kind, Member, PackageInfo, Part
from ctk.package.search import Search, Sighting, outermost

_CHUNK = 1 << 20
_PLACEHOLDER = PLACEHOLDER.encode()
_IN_MEMORY = 8 << 20  # bytes; a larger binary is parsed from a temporary file


@dataclass(frozen=True)
class ScannedFile:
    """One member of the archive as it really is.

    Attributes:
        size: Bytes.
        link: Where a symbolic link points, as written.
        binary: Headers, when it is an executable, a library or an extension module.
        unreadable: Why the headers could not be read, "" when they could.
        sightings: Forbidden paths that it holds, and undeclared placeholder prefixes.
        evidence: Which of the probed strings it holds.
    """

    part: Part
    path: str
    kind: Kind
    size: int = 0
    sha256: str = ""
    link: str = ""
    binary: Binary | None = None
    unreadable: str = ""
    sightings: tuple[Sighting, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageScan:
    """All that the checks know of a package.

    Attributes:
        file: Its path as given.
        sha256: Of the package file, "" when only its metadata was read.
        files: Members of both halves; for a package that is only there to depend on, what its paths.json lists.
    """

    file: str
    sha256: str
    info: PackageInfo
    files: tuple[ScannedFile, ...] = field(repr=False, default=())

    @property
    def name(self) -> str:
        return self.info.index.name

    @property
    def subdir(self) -> str:
        return self.info.index.subdir

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


def scan_package(
    path: Path, forbidden: Sequence[str], probes: Mapping[str, Sequence[str]], sha256: str = ""
) -> PackageScan:
    """Reads a whole package once.

    Args:
        path: The package file.
        forbidden: Paths to look for in every file.
        probes: Package name -> other strings to look for, as evidence for a check.
        sha256: Of the package file, computed when not given.

    Raises:
        AuditFailed: The package cannot be read.
    """
    info = package.read_info(path)
    placeholders = {entry.path: entry.placeholder.encode() for entry in info.paths if entry.placeholder}
    wanted = _Wanted(
        tuple(text.encode() for text in outermost(forbidden)),
        tuple(text.encode() for text in probes.get(info.index.name, ())),
    )
    files = []
    for part in ("info", "pkg"):
        for member, stream in package.members(path, part):
            own = placeholders.get(member.path, b"")
            # paths.json repeats the declared placeholders for the installer.
            declared = tuple(placeholders.values()) if member.path == "info/paths.json" else (own,) if own else ()
            files.append(_scan_member(member, stream, wanted, declared))
    return PackageScan(str(path), sha256 or file_sha256(path), info, tuple(sorted(files, key=lambda file: file.path)))


def listed_package(path: Path) -> PackageScan:
    """A package known by its metadata alone: enough to depend on, not to audit.

    Raises:
        AuditFailed: The package cannot be read.
    """
    info = package.read_info(path)
    kinds: dict[str, Kind] = {"softlink": "link", "directory": "folder"}
    files = tuple(
        ScannedFile("pkg", entry.path, kinds.get(entry.kind, "file"), entry.size, entry.sha256) for entry in info.paths
    )
    return PackageScan(str(path), "", info, files)


@dataclass(frozen=True)
class _Wanted:
    """What is searched for: paths that must not be there, and evidence that a check needs."""

    forbidden: tuple[bytes, ...]
    evidence: tuple[bytes, ...]


def _scan_member(member: Member, stream: IO[bytes] | None, wanted: _Wanted, declared: Sequence[bytes]) -> ScannedFile:
    if stream is None:
        return ScannedFile(member.part, member.path, member.kind, link=member.link)
    search = Search(wanted.forbidden, (_PLACEHOLDER, *wanted.evidence, *declared))
    digest = hashlib.sha256()
    chunk = stream.read(_CHUNK)
    is_binary = member.part == "pkg" and chunk.startswith((binaries.ELF_MAGIC, binaries.PE_MAGIC))
    binary, unreadable, size = None, "", 0
    with _keeper(member.size if is_binary else 0) as kept:
        while chunk:
            size += len(chunk)
            digest.update(chunk)
            search.feed(chunk)
            if is_binary:
                kept.write(chunk)
            chunk = stream.read(_CHUNK)
        search.feed(b"", last=True)
        if is_binary:
            binary, unreadable = _headers(kept)
    return ScannedFile(
        member.part,
        member.path,
        member.kind,
        size,
        digest.hexdigest(),
        binary=binary,
        unreadable=unreadable,
        sightings=search.sightings((*wanted.forbidden, _PLACEHOLDER), declared),
        evidence=tuple(text.decode() for text in wanted.evidence if text in search.hits),
    )


def _keeper(size: int) -> IO[bytes]:
    """A place for a binary until it is parsed: memory for a small one, a temporary file for a large one."""
    return tempfile.NamedTemporaryFile(prefix="ctk-audit-") if size > _IN_MEMORY else io.BytesIO()


def _headers(kept: IO[bytes]) -> tuple[Binary | None, str]:
    try:
        if isinstance(kept, io.BytesIO):
            return binaries.read_bytes(kept.getvalue()), ""
        kept.flush()
        return binaries.read_binary(Path(kept.name)), ""
    except UnreadableBinary as error:
        return None, str(error)
