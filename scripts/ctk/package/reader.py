"""Reads ``.conda`` packages as streams, without unpacking: metadata, and member by member."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, cast

import zstandard

from ctk.core.document import load_yaml
from ctk.core.errors import AuditFailed
from ctk.core.files import open_plain
from ctk.package.archives import BROKEN, EXPANDED, Limited, ShortHeaders
from ctk.package.binaries import Binary
from ctk.package.gpu_fatbin import FileCode

Part = Literal["pkg", "info"]
Kind = Literal["file", "link", "folder", "other"]
PLACEHOLDER = "_placehold" * 2
BUFFER = 1 << 18
"""Bytes that are read of a tar at once.

With more, small members are slower; with fewer, large members.
"""
_WINDOW = 1 << 27  # bytes; the highest level of zstd needs no more
_METADATA = 64 << 20  # bytes of everything under info/
_MEMBERS = 100_000  # of a half; the largest packages have some thousand


@dataclass(frozen=True)
class IndexJson:
    """``info/index.json``: the metadata that solvers use."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    noarch: str = ""
    arch: str = ""
    platform: str = ""
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    track_features: tuple[str, ...] = ()
    license: str = ""
    timestamp: int = 0  # milliseconds since 1970, 0 without one

    @property
    def identity(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"


@dataclass(frozen=True)
class PathEntry:
    """An entry of ``info/paths.json``."""

    path: str
    kind: str  # ``hardlink``, ``softlink`` or ``directory``, as conda names them
    sha256: str = ""
    size: int = 0  # bytes
    placeholder: str = ""  # the prefix that the installer replaces in this file, "" for none


@dataclass(frozen=True)
class Promise:
    """The files that the recipe of a planned package promises."""

    files: tuple[str, ...] = ()  # globs of ``build.files``, without ``exclude``
    contents: tuple[str, ...] = ()  # globs of the ``package_contents`` tests
    absent: tuple[str, ...] = ()  # globs of ``not_exists`` in these tests


@dataclass(frozen=True)
class PackageInfo:
    """Everything under ``info/`` that the tooling uses."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}
    index: IndexJson
    paths: tuple[PathEntry, ...]
    # Specs by kind (``weak``, ``strong`` ...).
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    licenses: Mapping[str, bytes] = field(default_factory=dict)  # the files under ``info/licenses``
    sboms: Mapping[str, bytes] = field(default_factory=dict)  # the files under ``info/sboms``
    promise: Promise | None = None  # of a planned package; rattler-build checks it in a build


@dataclass(frozen=True)
class Sighting:
    """A byte string that was found in a file."""

    needle: str  # the string
    count: int  # how often
    context: str  # the bytes around it, printable


@dataclass(frozen=True)
class ScannedFile:
    """A member of an archive; fields after ``link`` are known of members that were read."""

    part: Part  # ``pkg`` for what is installed, ``info`` for metadata
    path: str
    kind: Kind
    size: int = 0  # bytes, 0 for links
    link: str = ""  # where a symbolic link points, as written
    sha256: str = ""
    binary: Binary | None = (
        None  # headers, if it is an executable, a library or an extension module
    )
    unreadable: str = ""  # why the headers cannot be read, "" if they can
    # Forbidden paths in it, and undeclared placeholder prefixes.
    sightings: tuple[Sighting, ...] = ()
    code: FileCode | None = None  # the code for GPUs of a binary, None without code
    gpus: str = ""  # the GPUs that its code runs on, as a spec, if only that is known
    # Of a Python module: names of folders that it adds to the DLL search of Windows.
    dll_folders: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The target of a relative link, as a path from the prefix."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.path), self.link))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns all errors of reading a package into an `AuditFailed` that names it."""
    try:
        yield
    except FileNotFoundError:
        raise AuditFailed(f"{path} does not exist", "build it first") from None
    except PermissionError:  # not an error of the package
        raise
    except RecursionError as error:
        raise AuditFailed(
            f"{path.name} has metadata nested too deeply", "build it again"
        ) from error
    except (*BROKEN, zstandard.ZstdError) as error:
        raise AuditFailed(
            f"{path.name} cannot be read: {error}", "delete it and build it again"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        detail = f"{type(error).__name__}: {error}".splitlines()[0]
        raise AuditFailed(f"{path.name} has broken metadata: {detail}", "build it again") from error


def unpacked(compressed: IO[bytes], part: Part) -> Limited:
    """The unpacked stream of a half of a package."""
    plain = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(
        compressed, read_size=BUFFER
    )
    return Limited(plain, _METADATA if part == "info" else EXPANDED)


class _Content(io.RawIOBase):
    """The content of a member; errors while it is read name the package."""

    def __init__(self, content: IO[bytes], path: Path) -> None:
        self._content, self._path = content, path

    def read(self, size: int = -1) -> bytes:
        with readable(self._path):
            return self._content.read(size)


def _opened(path: Path, file: IO[bytes] | None) -> AbstractContextManager[IO[bytes]]:
    """A file that is open already, which stays open, or the one at a path."""
    return nullcontext(file) if file else open_plain(path)


def members(
    path: Path, part: Part, file: IO[bytes] | None = None
) -> Iterator[tuple[ScannedFile, IO[bytes] | None]]:
    """The members of a half of a package in archive order.

    A stream is valid until the next member is taken.

    Raises:
        AuditFailed: The file is not a readable ``.conda``; reading a stream raises it, too.
    """
    with readable(path), _opened(path, file) as stream, zipfile.ZipFile(stream) as archive:
        inner = [
            name
            for name in archive.namelist()
            if name.startswith(f"{part}-") and name.endswith(".tar.zst")
        ]
        if len(inner) != 1:
            raise AuditFailed(
                f"{path.name} has {len(inner)} {part}-*.tar.zst, not one", "build it again"
            )
        with (
            archive.open(inner[0]) as compressed,
            tarfile.open(
                fileobj=unpacked(compressed, part), mode="r|", bufsize=BUFFER, tarinfo=ShortHeaders
            ) as tar,
        ):
            for count, entry in enumerate(tar):
                if count == _MEMBERS:
                    raise AuditFailed(
                        f"{path.name} has more than {_MEMBERS} files", "build it again"
                    )
                kind: Kind = "link" if entry.issym() else "folder" if entry.isdir() else "other"
                name = entry.name.removeprefix("./")
                if content := tar.extractfile(entry) if entry.isfile() else None:
                    yield (
                        ScannedFile(part, name, "file", entry.size),
                        cast(IO[bytes], _Content(content, path)),
                    )
                else:
                    yield ScannedFile(part, name, kind, link=entry.linkname), None


def read_info(path: Path) -> PackageInfo:
    """The metadata of a package; its files are not read."""
    return info_of(
        path,
        ((member, stream.read() if stream else None) for member, stream in members(path, "info")),
    )


def info_of(path: Path, metadata: Iterable[tuple[ScannedFile, bytes | None]]) -> PackageInfo:
    """The metadata of a package, from the members of its ``info`` half and their contents."""
    texts = {member.path: content for member, content in metadata if content is not None}
    licenses, sboms = (
        {path.removeprefix(folder): text for path, text in texts.items() if path.startswith(folder)}
        for folder in ("info/licenses/", "info/sboms/")
    )
    with readable(path):
        return PackageInfo(
            index=index_of(json.loads(texts["info/index.json"])),
            paths=tuple(map(path_entry, json.loads(texts["info/paths.json"])["paths"])),
            run_exports=run_exports_of(json.loads(texts.get("info/run_exports.json", b"{}"))),
            about=json.loads(texts.get("info/about.json", b"{}")),
            licenses=licenses,
            sboms=sboms,
        )


def index_of(raw: Mapping[str, Any]) -> IndexJson:
    """Parses an ``info/index.json``, or a record of repodata; TypeError if a field is missing."""
    given = {f.name: raw[f.name] for f in fields(IndexJson) if raw.get(f.name) is not None}
    features = given.get("track_features", ())
    given["track_features"] = features.split() if isinstance(features, str) else features
    lists = {
        name: tuple(given.get(name, ())) for name in ("depends", "constrains", "track_features")
    }
    return IndexJson(**{**given, **lists})


def index_record(texts: Mapping[str, bytes], archive: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a package in repodata, from its ``info/`` and the archive's size and hashes.

    Empty fields are left out, except `depends`.
    """
    record = json.loads(texts["info/index.json"]) | archive
    record["run_exports"] = json.loads(texts.get("info/run_exports.json", b"{}"))
    record["track_features"] = " ".join(index_of(record).track_features)
    return {
        key: value for key, value in record.items() if value or key in ("build_number", "depends")
    }


def record_of(path: Path) -> dict[str, Any]:
    """The record of a package in repodata, read from the package itself.

    Raises:
        AuditFailed: The file is not a readable ``.conda``.
    """
    texts = {member.path: stream.read() for member, stream in members(path, "info") if stream}
    with readable(path), open_plain(path) as file:
        return index_record(texts, digests(file))


def digests(file: IO[bytes]) -> dict[str, Any]:
    """Size and hashes of a file, as the record of a package has them."""
    file.seek(0)
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    while block := file.read(BUFFER):
        md5.update(block)
        sha256.update(block)
    return {"size": file.tell(), "md5": md5.hexdigest(), "sha256": sha256.hexdigest()}


def count_tests(texts: Mapping[str, bytes]) -> int:
    """The number of tests in the files under ``info/``.

    Rattler-build runs contents tests and does not keep them.
    """
    return len(load_yaml(texts.get("info/tests/tests.yaml", b"[]")) or ())


def path_entry(raw: Mapping[str, Any]) -> PathEntry:
    """Parses an entry of ``info/paths.json``; KeyError if its path or kind is missing."""
    sha256, size, placeholder = (
        raw.get(key) for key in ("sha256", "size_in_bytes", "prefix_placeholder")
    )
    return PathEntry(raw["_path"], raw["path_type"], sha256 or "", size or 0, placeholder or "")


def run_exports_of(raw: Any) -> dict[str, tuple[str, ...]]:
    """Parses an ``info/run_exports.json``, or an entry of a channel's ``run_exports.json``."""
    kinds = {"weak": raw} if isinstance(raw, list) else raw
    return {kind: tuple(specs) for kind, specs in kinds.items() if specs}
