"""One package against what the index says of it: the file, its metadata and its payload, read again from inside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ctk import package
from ctk.audit.contents import ArchiveMatchesPaths
from ctk.audit.scan import PackageScan, ScannedFile
from ctk.check.problem import Problem
from ctk.check.sboms import check_sbom
from ctk.errors import AuditFailed
from ctk.package import Index, PackageInfo

_CHUNK = 1 << 20


def check_package(channel: Path, name: str, record: Mapping[str, Any], exports: Any) -> Iterator[Problem]:
    """Reads a package for its hashes, for its metadata, and for its payload, with nothing unpacked to disk.

    Args:
        channel: The channel.
        name: ``subdir/file``.
        record: What repodata says.
        exports: What run_exports.json says, None for nothing.
    """
    path = channel / name
    if not path.is_file():
        yield Problem(name, "file", "the index names it, and it is not there")
        return
    yield from _same_file(path, name, record)
    try:
        info = package.read_info(path)
        yield from _same_metadata(info, name, record)
        yield from _same_exports(info, name, exports)
        yield from _same_payload(path, info, name)
        yield from check_sbom(path, name, info.index)
    except AuditFailed as error:
        yield Problem(name, "file", error.cause.splitlines()[0])


def _same_file(path: Path, name: str, record: Mapping[str, Any]) -> Iterator[Problem]:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
            size += len(chunk)
    held = {"sha256": sha256.hexdigest(), "md5": md5.hexdigest(), "size": size}
    for key, value in held.items():
        if key not in record and key != "md5":
            yield Problem(name, "file", f"repodata has no {key} of it")
        elif record.get(key, value) != value:
            yield Problem(name, "file", f"repodata says {key} {record[key]}, it has {value}")


def _same_metadata(info: PackageInfo, name: str, record: Mapping[str, Any]) -> Iterator[Problem]:
    subdir, _, file = name.partition("/")
    if file != f"{info.index.identity}.conda":
        yield Problem(name, "metadata", f"it is {info.index.identity} by its own index.json")
    if info.index.subdir != subdir:
        yield Problem(name, "metadata", f"it is for {info.index.subdir} by its own index.json")
    try:
        said = package.index_of(record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield Problem(name, "metadata", f"its record in repodata cannot be read: {type(error).__name__}: {error}")
        return
    for field in fields(Index):
        inside, outside = getattr(info.index, field.name), getattr(said, field.name)
        if inside != outside:
            yield Problem(
                name, "metadata", f"repodata says {field.name} {_text(outside)}, its index.json {_text(inside)}"
            )


def _same_exports(info: PackageInfo, name: str, entry: Any) -> Iterator[Problem]:
    try:
        said = None if entry is None else package.run_exports_of(entry["run_exports"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield Problem(name, "run-exports", f"its entry in run_exports.json cannot be read: {type(error).__name__}")
        return
    if said is None:
        yield Problem(name, "run-exports", "run_exports.json does not name it")
    elif said != info.run_exports:
        yield Problem(
            name, "run-exports", f"run_exports.json says {_text(said)}, the package {_text(info.run_exports)}"
        )


def _same_payload(path: Path, info: PackageInfo, name: str) -> Iterator[Problem]:
    scan = PackageScan(str(path), "", info, tuple(_held(path)))
    for finding in ArchiveMatchesPaths().check(scan):
        yield Problem(name, "payload", f"{finding.path}: {finding.message}" if finding.path else finding.message)


def _held(path: Path) -> Iterator[ScannedFile]:
    for member, stream in package.members(path, "pkg"):
        digest, size = hashlib.sha256(), 0
        while stream is not None and (chunk := stream.read(_CHUNK)):
            digest.update(chunk)
            size += len(chunk)
        yield ScannedFile(member.part, member.path, member.kind, size, digest.hexdigest(), member.link)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(part)}" for key, part in sorted(value.items())) or "nothing"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return repr(value)
