"""One package of a channel against its record in the index: its archive, metadata, payload and SBOM.

The archive has the form in which `ctk.build.runner` writes it, so that all clients unpack the same from it. The
zip's bytes follow from the names, sizes and checksums of its members, and those of a tar's headers from the names,
sizes and one time. They are made again here and compared: what the form does not ask for is not there.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import IO, Any

import zstandard

from ctk.build import sbom
from ctk.build.runner import digests
from ctk.channel.folder import FIELD
from ctk.channel.index_files import TIME
from ctk.check import Finding, check
from ctk.check.audit.files import ArchiveMatchesPaths
from ctk.core.errors import AuditFailed
from ctk.package.archives import Refused, hold_names
from ctk.package.archives import shown as shown_name
from ctk.package.package import (
    BUFFER,
    PLACEHOLDER,
    IndexJson,
    PackageInfo,
    Part,
    ScannedFile,
    index_of,
    path_entry,
    readable,
    unpacked,
)
from ctk.package.scan import PackageScan

_NAMES = ("metadata.json", "pkg-{}.tar.zst", "info-{}.tar.zst")
_PARTS: tuple[Part, ...] = ("info", "pkg")
_METADATA = b'{"conda_pkg_format_version":2}'
_BLOCK, _LONG = tarfile.BLOCKSIZE, 1 << 16  # bytes; the second: of a header with a long name
_BLOCKS = 1 << 20  # of a zstd frame; they have up to 128 KiB each
_MEMBERS = 100_000  # of a half; the largest have some thousand
_KINDS: dict[bytes, Any] = {tarfile.REGTYPE: "file", tarfile.SYMTYPE: "link", tarfile.DIRTYPE: "folder"}


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
        said = ", ".join(shown_name(member.filename) for member in found[:9])
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


def _members(plain: IO[bytes], part: Part, path: Path) -> Iterator[tuple[tarfile.TarInfo, str, str, bytes]]:
    """Of each member of a half its header, what is wrong with it, the sha256 of its content, and metadata's content."""
    for count in itertools.count():
        if (raw := plain.read(_BLOCK)) == bytes(_BLOCK):
            break
        if count == _MEMBERS:
            raise _refused(path, f"holds more than {_MEMBERS} files in its {part} half")
        entry, raw = _header(raw, plain)
        if entry.type not in _KINDS or entry.size < 0:
            raise _refused(path, f"holds {entry.name!r}, which is neither a file nor a link nor a folder")
        wrong, digest, texts = _wrong(part, entry, raw), hashlib.sha256(), []
        left = entry.size = entry.size if entry.isreg() else 0
        while left:
            piece = plain.read(min(BUFFER, left))
            if not piece:
                raise tarfile.ReadError("it ends within a file")
            left -= len(piece)
            digest.update(piece)
            if part == "info":
                texts.append(piece)
        if plain.read(-entry.size % _BLOCK).strip(b"\0"):
            raise _refused(path, f"holds something behind the end of {entry.name!r}")
        yield entry, wrong, digest.hexdigest(), b"".join(texts)
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


_LARGEST_SBOM = 1 << 20  # bytes
_LONGEST = 1000  # characters of a value in a message
_INFO = re.compile(
    r"info/((about|hash_input|index|link|paths|run_exports)\.json|(licenses|recipe|sboms)/.+|tests/tests\.yaml)"
)
_LINK = {"noarch": {"type": "python"}, "package_metadata_version": 1}
_PATH = {"_path", "path_type", "sha256", "size_in_bytes"}
_PREFIX = {"prefix_placeholder", "file_mode"}
_ONLY_IN_RECORDS = {"sha256", "md5", "size", "run_exports", TIME, FIELD}


@dataclass(frozen=True)
class ChannelPackage:
    """A package that an index names as ``subdir/file``, with its entries in repodata and run_exports.json."""

    channel: Path
    name: str
    record: Mapping[str, Any]
    exports: Any = None

    @property
    def path(self) -> Path:
        return self.channel / self.name

    @property
    def size(self) -> int:
        """Bytes as the index states them."""
        size = self.record.get("size")
        return size if isinstance(size, int) else 0


@dataclass(frozen=True)
class OpenedPackage:
    """A package whose archive was read; the metadata in `texts` is parsed later, and may be broken."""

    indexed: ChannelPackage
    files: tuple[ScannedFile, ...]
    texts: Mapping[str, bytes]
    times: frozenset[int]
    faults: tuple[str, ...]

    @cached_property
    def documents(self) -> dict[str, Any]:
        """The JSON files under ``info/``."""
        return {file: loads(text) for file, text in self.texts.items() if re.fullmatch(r"info/[^/]+\.json", file)}

    @cached_property
    def scan(self) -> PackageScan:
        info = PackageInfo(
            index=index_of(self.documents["info/index.json"]),
            paths=tuple(map(path_entry, self.documents["info/paths.json"]["paths"])),
            run_exports=self.run_exports,
        )
        return PackageScan(str(self.indexed.path), "", info, self.files)

    @property
    def name(self) -> str:
        return self.indexed.name

    @property
    def index(self) -> IndexJson:
        return self.scan.info.index

    @property
    def run_exports(self) -> dict[str, Any]:
        found: dict[str, Any] = self.documents.get("info/run_exports.json", {})
        return found


@check(ChannelPackage, "file")
def PackageFile(package: ChannelPackage) -> Iterator[Finding]:
    """The file has the hashes and the size of its record, can be read, and holds what the record says.

    It is read for its hashes, and once more for all that is in it, with nothing unpacked to disk.
    """
    if not package.path.is_file():
        yield Finding(package.name, "the index names it, and it is not there")
        return
    yield from _hashes(package)
    try:
        with readable(package.path):
            opened = _open(package)
            for inside in (Payload, Metadata, RunExports, Sbom):
                yield from inside(opened)
    except AuditFailed as error:
        yield Finding(package.name, error.cause.splitlines()[0])


def _hashes(package: ChannelPackage) -> Iterator[Finding]:
    with package.path.open("rb") as stream:
        held = digests(stream)
    said = {key: package.record[key] for key in held if key in package.record}
    for key in ("sha256", "size"):
        if key not in said:
            yield Finding(package.name, f"repodata has no {key} of it")
    for key, theirs, ours in differences(said, {key: held[key] for key in said}):
        yield Finding(package.name, f"repodata says {key} {theirs}, it has {ours}")


def _open(package: ChannelPackage) -> OpenedPackage:
    """Reads both halves of a package, metadata first; for a block of `ctk.package.package.readable`.

    Raises:
        AuditFailed: The archive around them is of another form.
    """
    texts: dict[str, bytes] = {}
    files: list[ScannedFile] = []
    faults: list[str] = []
    times = set()
    with package.path.open("rb") as file, zipfile.ZipFile(file) as archive:
        _hold_to_form(file, archive, package.path)
        for part in _PARTS:
            with archive.open(f"{part}-{package.path.stem}.tar.zst") as compressed:
                plain = io.BufferedReader(unpacked(compressed, part), BUFFER)
                for entry, wrong, sha256, text in _members(plain, part, package.path):
                    times.add(int(entry.mtime))
                    if wrong:
                        faults.append(f"{entry.name}: {wrong}")
                    if part == "info":
                        texts[entry.name] = text
                    kind = _KINDS[entry.type]
                    files.append(ScannedFile(part, entry.name, kind, entry.size, entry.linkname, sha256))
    try:
        hold_names([f"{f.path}/" if f.kind == "folder" else f.path for f in files])
    except Refused as refused:
        faults.append(str(refused))
    return OpenedPackage(package, tuple(files), texts, frozenset(times), tuple(faults))


@check(OpenedPackage, "payload")
def Payload(package: OpenedPackage) -> Iterator[Finding]:
    """The archive has the form that ctk writes, and holds what its paths.json lists."""
    for fault in package.faults:
        yield Finding(package.name, fault)
    if {1000 * time for time in package.times} != {package.index.timestamp}:
        yield Finding(package.name, "its files have other times than its index.json")
    for found in ArchiveMatchesPaths(package.scan):
        yield Finding(package.name, f"{found.path}: {found.message}" if found.path else found.message)


@check(OpenedPackage, "metadata")
def Metadata(package: OpenedPackage) -> Iterator[Finding]:
    """The record repeats the package's index.json, and ``info/`` has nothing that tells a client to do more."""
    name, index, documents = package.name, package.index, package.documents
    subdir, _, file = name.partition("/")
    if file != f"{index.identity}.conda":
        yield Finding(name, f"it is {index.identity} by its own index.json")
    if index.subdir != subdir:
        yield Finding(name, f"it is for {index.subdir} by its own index.json")
    for key in sorted(documents["info/index.json"].keys() - {field.name for field in fields(IndexJson)}):
        yield Finding(name, f"its index.json has {key!r}, which none of ours has")
    said = {key: value for key, value in package.indexed.record.items() if key not in _ONLY_IN_RECORDS}
    for key, theirs, ours in differences(said, documents["info/index.json"]):
        yield Finding(name, f"repodata says {key} {theirs}, its index.json {ours}")
    for file in package.texts:
        if not _INFO.fullmatch(file):
            yield Finding(name, f"it has {file}, which none of ours has")
    link = documents.get("info/link.json")
    if link != (_LINK if index.noarch == "python" else None):
        yield Finding(name, f"its info/link.json says {shown(link)}")
    paths = documents["info/paths.json"]
    if paths.keys() != {"paths", "paths_version"} or paths["paths_version"] != 1:
        yield Finding(name, "its info/paths.json is of another form than ours")
    for entry in paths["paths"]:
        replaced = entry.keys() & _PREFIX
        if entry.keys() - replaced != _PATH or (
            replaced and (replaced != _PREFIX or PLACEHOLDER not in entry["prefix_placeholder"])
        ):
            yield Finding(name, f"its info/paths.json has another form than ours for {entry['_path']!r}")


@check(OpenedPackage, "run-exports")
def RunExports(package: OpenedPackage) -> Iterator[Finding]:
    """run_exports.json, and the record where it has them, repeat the run exports of the package."""
    places = {"run_exports.json": package.indexed.exports}
    if "run_exports" in package.indexed.record:
        places["repodata"] = {"run_exports": package.indexed.record["run_exports"]}
    for where, entry in places.items():
        said = entry.get("run_exports") if isinstance(entry, Mapping) else None
        if entry is None:
            yield Finding(package.name, f"{where} does not name it")
        elif not isinstance(said, Mapping) or len(entry) != 1:
            yield Finding(package.name, f"its entry in {where} cannot be read")
        elif any(differences(said, package.run_exports)):
            yield Finding(package.name, f"{where} says {shown(said)}, the package {shown(package.run_exports)}")


@check(OpenedPackage, "sbom")
def Sbom(package: OpenedPackage) -> Iterator[Finding]:
    """The package carries one SBOM, which is valid and about this package."""
    name, index = package.name, package.index
    place = sbom.place(index.name)
    text = package.texts.get(place)
    for other in sorted(package.texts):
        if other.startswith(f"{sbom.FOLDER}/") and other != place:
            yield Finding(name, f"{other} is none of this package")
    if text is None or len(text) > _LARGEST_SBOM:
        yield Finding(name, "there is none" if text is None else f"it has more than {_LARGEST_SBOM} bytes")
        return
    if wrong := _invalid(text):
        yield Finding(name, f"it is not valid CycloneDX: {wrong}")
    try:
        said = sbom.read(text)
    except AuditFailed as error:
        yield Finding(name, error.cause)
        return
    ours = f"{index.name} {index.version} {index.build} for {index.subdir}"
    theirs = f"{said.name} {said.version} {said.build} for {said.subdir}"
    if ours != theirs:
        yield Finding(name, f"it is about {theirs}")
    if not said.provenance.commit:
        yield Finding(name, "it names no commit of the recipe: built with changes that were not committed?")
    for given in said.provenance.inputs:
        if not given.license:
            yield Finding(name, f"it states no licence of {given.artefact.file}")


@cache
def _validator() -> Any:
    # Imported here: what reads the schema takes a second to load, and every command would pay for it.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6)


def _invalid(text: bytes) -> str:
    """What the standard's schema says against a text, "" for nothing, or without the library that reads schemas."""
    from cyclonedx.exception import MissingOptionalDependencyException

    try:
        loads(text)
        found = _validator().validate_str(text.decode(errors="replace"))
    except MissingOptionalDependencyException:
        return ""
    except (ValueError, RecursionError) as error:
        return str(error)
    return " ".join(str(found).split())[:200] if found else ""


def loads(text: bytes) -> Any:
    """What a text of JSON says: UTF-8, no key twice, no number that JSON does not have.

    Raises:
        ValueError, RecursionError: It is something else.
    """
    return json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse)


def differences(said: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The keys that two mappings differ in, with what each says; what is wanted to be empty may be missing."""
    for key in sorted(said.keys() | wanted.keys()):
        ours, theirs = _form(said.get(key)), _form(wanted.get(key))
        if ours != theirs or key not in wanted:
            yield key, shown(said.get(key)), shown(wanted.get(key))


def shown(value: Any) -> str:
    """A value for a message."""
    if isinstance(value, list):
        text = f"[{', '.join(map(str, value))}]"
    elif isinstance(value, Mapping):
        text = ", ".join(
            f"{key}: {shown(part) if isinstance(part, list) else repr(part)}" for key, part in value.items()
        )
    else:
        text = "" if value is None else repr(value)
    return f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text or "nothing"


def _form(value: Any) -> str:
    # As text: to Python 1, 1.0 and true are equal, and to clients they are not.
    return "" if value in (None, "", [], {}) else json.dumps(value, sort_keys=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"{twice!r} is in it twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
