"""Reading a ``.conda`` package as a stream: its metadata, and its members one by one, with nothing unpacked to disk."""

from __future__ import annotations

import io
import json
import posixpath
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, cast

import zstandard

from ctk.core.document import Document
from ctk.core.errors import AuditFailed
from ctk.package.archives import BROKEN, EXPANDED, Limited, ShortHeaders
from ctk.package.binaries import Binary
from ctk.package.gpu_fatbin import FileCode

Part = Literal["pkg", "info"]
Kind = Literal["file", "link", "folder", "other"]
PLACEHOLDER = "_placehold_placehold"
BUFFER = 1 << 18
"""Bytes that a tar is read in. Of more, tarfile would copy more for each small member, of fewer for each large one."""
_WINDOW = 1 << 27  # bytes; the highest level of zstd needs no more
_METADATA = 64 << 20  # bytes of everything under info/
_MEMBERS = 100_000  # of a half; the largest have some thousand


@dataclass(frozen=True)
class IndexJson:
    """``info/index.json``: what a solver sees of the package."""

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
    """One line of ``info/paths.json``."""

    path: str
    kind: str  # ``hardlink``, ``softlink`` or ``directory``, as conda names them
    sha256: str = ""
    size: int = 0  # bytes
    placeholder: str = ""  # the prefix that the installer replaces in this file, "" for none


@dataclass(frozen=True)
class Promise:
    """What the recipe, as rendered into the package, said the package would hold."""

    files: tuple[str, ...] = ()  # globs of ``build.files``, without those that exclude
    contents: tuple[str, ...] = ()  # globs of the ``package_contents`` tests
    absent: tuple[str, ...] = ()  # globs of those that say what is not there


@dataclass(frozen=True)
class PackageInfo:
    """Everything under ``info/`` that the tooling uses."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}
    index: IndexJson
    paths: tuple[PathEntry, ...]
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # specs by kind (``weak``, ``strong`` ...)
    about: Mapping[str, Any] = field(default_factory=dict)
    licenses: Mapping[str, bytes] = field(default_factory=dict)  # the files under ``info/licenses``
    sboms: Mapping[str, bytes] = field(default_factory=dict)  # the files under ``info/sboms``
    promise: Promise | None = None  # None when the package carries no rendered recipe


@dataclass(frozen=True)
class Sighting:
    """A byte string that was searched for and found."""

    needle: str  # the string
    offset: int  # where it was first seen, in bytes
    count: int  # how often
    context: str  # what stands there, printable


@dataclass(frozen=True)
class ScannedFile:
    """One member of the archive as it really is; what follows the link is known of those that were read whole."""

    part: Part  # ``pkg`` for what is installed, ``info`` for metadata
    path: str
    kind: Kind
    size: int = 0  # bytes, 0 for links
    link: str = ""  # where a symbolic link points, as written
    sha256: str = ""
    binary: Binary | None = None  # headers, when it is an executable, a library or an extension module
    exports: tuple[str, ...] = ()  # names that a library exports, where they were asked for
    unreadable: str = ""  # why the headers could not be read, "" when they could
    sightings: tuple[Sighting, ...] = ()  # forbidden paths that it holds, and undeclared placeholder prefixes
    code: FileCode | None = None  # what a binary holds for GPUs, None where it holds nothing
    gpus: str = ""  # the GPUs that its code runs on, as a spec, where only that is known of it
    dll_folders: tuple[str, ...] = ()  # of a Python module: the names of folders that it has Windows search for DLLs

    @property
    def target(self) -> str:
        """Where a relative link leads, as a path from the prefix."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.path), self.link))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns whatever breaks while a package is read into an `AuditFailed` that names it."""
    try:
        yield
    except FileNotFoundError:
        raise AuditFailed(f"{path} does not exist", "build it first") from None
    except PermissionError:  # says nothing of the package
        raise
    except RecursionError as error:
        raise AuditFailed(f"{path.name} has metadata nested too deeply", "build it again") from error
    except (*BROKEN, zstandard.ZstdError) as error:
        raise AuditFailed(f"{path.name} cannot be read: {error}", "delete it and build it again") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        detail = f"{type(error).__name__}: {error}".splitlines()[0]
        raise AuditFailed(f"{path.name} has broken metadata: {detail}", "build it again") from error


def unpacked(compressed: IO[bytes], part: Part) -> Limited:
    """The stream of one half of a package, from its zstd frame."""
    plain = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(compressed, read_size=BUFFER)
    return Limited(plain, _METADATA if part == "info" else EXPANDED)


class _Content(io.RawIOBase):
    """The content of a member: what breaks while it is read is the package's error, wherever that is."""

    def __init__(self, content: IO[bytes], path: Path) -> None:
        self._content, self._path = content, path

    def read(self, size: int = -1) -> bytes:
        with readable(self._path):
            return self._content.read(size)


def members(path: Path, part: Part, file: IO[bytes] | None = None) -> Iterator[tuple[ScannedFile, IO[bytes] | None]]:
    """The entries of one half of the package in archive order; a stream is valid until the next entry is taken.

    Raises:
        AuditFailed: The file is no readable ``.conda``; from reading a stream, too.
    """
    with readable(path), zipfile.ZipFile(file or path) as archive:
        inner = [name for name in archive.namelist() if name.startswith(f"{part}-") and name.endswith(".tar.zst")]
        if len(inner) != 1:
            raise AuditFailed(f"{path.name} holds {len(inner)} {part}-*.tar.zst, not one", "build it again")
        with (
            archive.open(inner[0]) as compressed,
            tarfile.open(fileobj=unpacked(compressed, part), mode="r|", bufsize=BUFFER, tarinfo=ShortHeaders) as tar,
        ):
            for count, entry in enumerate(tar):
                if count == _MEMBERS:
                    raise AuditFailed(f"{path.name} holds more than {_MEMBERS} files", "build it again")
                kind: Kind = "link" if entry.issym() else "folder" if entry.isdir() else "other"
                name = entry.name.removeprefix("./")
                if content := tar.extractfile(entry) if entry.isfile() else None:
                    yield ScannedFile(part, name, "file", entry.size), cast(IO[bytes], _Content(content, path))
                else:
                    yield ScannedFile(part, name, kind, link=entry.linkname), None


def read_info(path: Path) -> PackageInfo:
    """The package's metadata, read without touching its contents."""
    return info_of(path, ((member, stream.read() if stream else None) for member, stream in members(path, "info")))


def info_of(path: Path, metadata: Iterable[tuple[ScannedFile, bytes | None]]) -> PackageInfo:
    """The package's metadata, from the members of its ``info`` half and their contents."""
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
            promise=_promise(texts.get("info/recipe/rendered_recipe.yaml")),
        )


def index_of(raw: Mapping[str, Any]) -> IndexJson:
    """An ``info/index.json``, or the record in repodata made of one; TypeError for one that lacks a field."""
    given = {f.name: raw[f.name] for f in fields(IndexJson) if raw.get(f.name) is not None}
    features = given.get("track_features", ())
    given["track_features"] = features.split() if isinstance(features, str) else features
    lists = {name: tuple(given.get(name, ())) for name in ("depends", "constrains", "track_features")}
    return IndexJson(**{**given, **lists})


def index_record(texts: Mapping[str, bytes], archive: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a package in repodata, from the files under ``info/`` and the archive's size and hashes.

    What is empty is absent, except `depends`.
    """
    record = json.loads(texts["info/index.json"]) | archive
    record["run_exports"] = json.loads(texts.get("info/run_exports.json", b"{}"))
    record["track_features"] = " ".join(index_of(record).track_features)
    return {key: value for key, value in record.items() if value or key in ("build_number", "depends")}


def count_tests(texts: Mapping[str, bytes]) -> int:
    """How many tests the files under ``info/`` carry; rattler-build keeps no contents tests, it runs them."""
    return len(_yaml(texts.get("info/tests/tests.yaml", b"[]")) or ())


def path_entry(raw: Mapping[str, Any]) -> PathEntry:
    """An entry of ``info/paths.json``; KeyError for one that lacks its path or its kind."""
    sha256, size, placeholder = (raw.get(key) for key in ("sha256", "size_in_bytes", "prefix_placeholder"))
    return PathEntry(raw["_path"], raw["path_type"], sha256 or "", size or 0, placeholder or "")


def run_exports_of(raw: Any) -> dict[str, tuple[str, ...]]:
    """An ``info/run_exports.json``, or the entry of a channel's that was made of one."""
    kinds = {"weak": raw} if isinstance(raw, list) else raw
    return {kind: tuple(specs) for kind, specs in kinds.items() if specs}


def _promise(text: bytes | None) -> Promise | None:
    if text is None:
        return None
    recipe = _yaml(text)["recipe"]
    tests = [test["package_contents"] for test in recipe.get("tests") or () if "package_contents" in test]
    return Promise(
        files=_globs((recipe.get("build") or {}).get("files")),
        contents=tuple(glob for test in tests for glob in _globs(test.get("files"))),
        absent=tuple(
            glob
            for test in tests
            if isinstance(test.get("files"), Mapping)
            for glob in _globs(test["files"].get("not_exists"))
        ),
    )


def _yaml(text: bytes) -> Any:
    document = Document(text.decode())
    if document.problems:
        raise ValueError(document.problems[0])
    return document.data


def _globs(raw: Any) -> tuple[str, ...]:
    """The patterns that a list of globs, or its long form with ``include`` or ``exists``, asks for."""
    if isinstance(raw, Mapping):
        raw = raw.get("include") or raw.get("exists")
    return tuple([raw] if isinstance(raw, str) else raw or ())
