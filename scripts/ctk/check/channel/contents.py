"""One package against what the index says of it: the file, its metadata and its payload, read again from inside."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ctk.channel.attesting import FIELD
from ctk.channel.index_files import TIME
from ctk.check.audit.files import ArchiveMatchesPaths
from ctk.check.channel.archive import entries
from ctk.check.channel.problem import Problem
from ctk.check.channel.sboms import check_sbom
from ctk.check.channel.strict import differences, loads, shown
from ctk.core.errors import AuditFailed
from ctk.package import package
from ctk.package.archives import Refused, hold_names
from ctk.package.package import PLACEHOLDER, IndexJson, PackageInfo
from ctk.package.scan import PackageScan, ScannedFile

_CHUNK = 1 << 20
_INFO = re.compile(
    r"info/((about|hash_input|index|link|paths|run_exports)\.json|(licenses|recipe|sboms)/.+|tests/tests\.yaml)"
)
_LINK = {"noarch": {"type": "python"}, "package_metadata_version": 1}
_PATH = {"_path", "path_type", "sha256", "size_in_bytes"}
_PREFIX = {"prefix_placeholder", "file_mode"}
_OF_INDEX = {"sha256", "md5", "size", "run_exports", TIME, FIELD}
"""What a record has beside the keys of the package's own index.json."""


def check_package(channel: Path, name: str, record: Mapping[str, Any], exports: Any) -> Iterator[Problem]:
    """Reads a package for its hashes, and once more for all that is in it, with nothing unpacked to disk.

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
        with package.readable(path):
            yield from _same_content(path, name, record, exports)
    except AuditFailed as error:
        yield Problem(name, "file", error.cause.splitlines()[0])


def _same_content(path: Path, name: str, record: Mapping[str, Any], exports: Any) -> Iterator[Problem]:
    texts: dict[str, bytes] = {}
    held: list[ScannedFile] = []
    times = set()
    for entry in entries(path):
        member, size, digest = entry.member, 0, hashlib.sha256()
        times.add(entry.time)
        if entry.wrong:
            yield Problem(name, "payload", f"{member.path}: {entry.wrong}")
        if member.part == "info":
            texts[member.path] = b"".join(entry.content)
        for piece in entry.content:
            digest.update(piece)
            size += len(piece)
        held.append(ScannedFile(member.part, member.path, member.kind, size, digest.hexdigest(), member.link))
    try:
        hold_names([f"{f.path}/" if f.kind == "folder" else f.path for f in held])
    except Refused as refused:
        yield Problem(name, "payload", str(refused))
    found = {file: loads(text) for file, text in texts.items() if re.fullmatch(r"info/[^/]+\.json", file)}
    raw, run_exports = found["info/index.json"], found.get("info/run_exports.json", {})
    info = PackageInfo(
        index=package.index_of(raw),
        paths=tuple(map(package.path_entry, found["info/paths.json"]["paths"])),
        run_exports=run_exports,
    )
    if {1000 * time for time in times} != {info.index.timestamp}:
        yield Problem(name, "payload", "its files have other times than its index.json")
    yield from _same_metadata(raw, info.index, name, record)
    yield from _same_exports(run_exports, name, exports, "run_exports.json")
    if "run_exports" in record:
        yield from _same_exports(run_exports, name, {"run_exports": record["run_exports"]}, "repodata")
    yield from _known_form(found, texts, info.index, name)
    for finding in ArchiveMatchesPaths(PackageScan(str(path), "", info, tuple(held))):
        yield Problem(name, "payload", f"{finding.path}: {finding.message}" if finding.path else finding.message)
    yield from check_sbom(texts, name, info.index)


def _same_file(path: Path, name: str, record: Mapping[str, Any]) -> Iterator[Problem]:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
            size += len(chunk)
    held = {"sha256": sha256.hexdigest(), "md5": md5.hexdigest(), "size": size}
    said = {key: record[key] for key in held if key in record}
    for key in ("sha256", "size"):
        if key not in said:
            yield Problem(name, "file", f"repodata has no {key} of it")
    for key, theirs, ours in differences(said, {key: held[key] for key in said}):
        yield Problem(name, "file", f"repodata says {key} {theirs}, it has {ours}")


def _same_metadata(raw: Mapping[str, Any], index: IndexJson, name: str, record: Mapping[str, Any]) -> Iterator[Problem]:
    subdir, _, file = name.partition("/")
    if file != f"{index.identity}.conda":
        yield Problem(name, "metadata", f"it is {index.identity} by its own index.json")
    if index.subdir != subdir:
        yield Problem(name, "metadata", f"it is for {index.subdir} by its own index.json")
    for key in sorted(raw.keys() - {field.name for field in fields(IndexJson)}):
        yield Problem(name, "metadata", f"its index.json has {key!r}, which none of ours has")
    said = {key: value for key, value in record.items() if key not in _OF_INDEX}
    for key, theirs, ours in differences(said, raw):
        yield Problem(name, "metadata", f"repodata says {key} {theirs}, its index.json {ours}")


def _same_exports(inside: Mapping[str, Any], name: str, entry: Any, where: str) -> Iterator[Problem]:
    said = entry.get("run_exports") if isinstance(entry, Mapping) else None
    if entry is None:
        yield Problem(name, "run-exports", f"{where} does not name it")
    elif not isinstance(said, Mapping) or len(entry) != 1:
        yield Problem(name, "run-exports", f"its entry in {where} cannot be read")
    elif any(differences(said, inside)):
        yield Problem(name, "run-exports", f"{where} says {shown(said)}, the package {shown(inside)}")


def _known_form(found: Mapping[str, Any], texts: Mapping[str, bytes], index: IndexJson, name: str) -> Iterator[Problem]:
    """Files under ``info/`` that none of our packages has: some of them tell a client to do something."""
    for file in texts:
        if not _INFO.fullmatch(file):
            yield Problem(name, "metadata", f"it has {file}, which none of ours has")
    if found.get("info/link.json") != (_LINK if index.noarch == "python" else None):
        yield Problem(name, "metadata", f"its info/link.json says {shown(found.get('info/link.json'))}")
    paths = found["info/paths.json"]
    if paths.keys() != {"paths", "paths_version"} or paths["paths_version"] != 1:
        yield Problem(name, "metadata", "its info/paths.json is of another form than ours")
    for entry in paths["paths"]:
        replaced = entry.keys() & _PREFIX
        if entry.keys() - replaced != _PATH or (
            replaced and (replaced != _PREFIX or PLACEHOLDER not in entry["prefix_placeholder"])
        ):
            yield Problem(name, "metadata", f"its info/paths.json has another form than ours for {entry['_path']!r}")
