"""Compares a package with its record in the index: archive, metadata, payload and SBOM."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ctk.audit.files import ArchiveMatchesPaths
from ctk.build import sbom
from ctk.channel.publish import FIELD
from ctk.channel.repodata import TIME
from ctk.core.errors import AuditFailed
from ctk.core.files import open_plain
from ctk.core.inside import wrong_with
from ctk.package.archives import shown as shown_name
from ctk.package.reader import (
    IndexJson,
    PackageInfo,
    Part,
    ScannedFile,
    digests,
    index_of,
    members,
    path_entry,
    readable,
)
from ctk.package.scan import PackageScan
from ctk.rules import Finding, Severity, check

COMMIT_FIRST = "commit the changes of the recipe, and then build it again with `ctk build`"
_PARTS: tuple[Part, ...] = ("info", "pkg")
_CHUNK = 1 << 20  # bytes
_MAX_SHOWN = 1000  # characters of a value in a message
_EMPTY: tuple[object, ...] = (None, "", [], {})  # values that mean the same as a missing key
_OF_CHANNELS = {TIME, FIELD}  # keys that a channel adds to the record of a package
_OPTIONAL = {"md5", "run_exports"}


@dataclass(frozen=True)
class ChannelPackage:
    """A package, named ``subdir/file``, with its entries in repodata and run_exports.json.

    `is_ours` is whether recipes of this repository make it, and then it has an SBOM.
    """

    channel: Path
    name: str
    record: Mapping[str, Any]
    exports: Any = None
    is_ours: bool = True

    @property
    def path(self) -> Path:
        return self.channel / self.name

    @property
    def size(self) -> int:
        """The size in bytes that the index states."""
        size = self.record.get("size")
        return size if isinstance(size, int) else 0


@dataclass(frozen=True)
class OpenedPackage:
    """A package after its archive was read."""

    indexed: ChannelPackage
    scan: PackageScan
    record: Mapping[str, Any]  # the record that the index should have
    texts: Mapping[str, bytes]
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.indexed.name

    @property
    def index(self) -> IndexJson:
        return self.scan.info.index


@check(ChannelPackage, "file")
def PackageFile(package: ChannelPackage) -> Iterator[Finding]:
    """The package can be read, and has the size, hashes and metadata that its record states.

    It is read once for its hashes, and once for its members; nothing is unpacked to disk.
    """
    if not package.path.is_file():
        yield Finding(package.name, "the index names it, but it is missing")
        return
    try:
        with readable(package.path):
            opened = _open(package)
            for inside in (Payload, Metadata, RunExports, Sbom):
                yield from inside(opened)
    except AuditFailed as error:
        yield Finding(package.name, error.cause.splitlines()[0])


def _open(package: ChannelPackage) -> OpenedPackage:
    """Reads both halves of a package, metadata first.

    Raises:
        AuditFailed: A half cannot be read.
    """
    texts: dict[str, bytes] = {}
    files: list[ScannedFile] = []
    faults: list[str] = []
    for part in _PARTS:
        for member, content in members(package.path, part):
            if wrong_with(member.path) or member.kind == "other":
                faults.append(
                    f"{shown_name(member.path)}: not a file, link or folder inside the package"
                )
            # Both halves are unpacked into one folder.
            if (member.path.partition("/")[0] == "info") != (part == "info"):
                faults.append(f"{shown_name(member.path)}: is in the {part} half")
            digest = hashlib.sha256()
            while content and (piece := content.read(_CHUNK)):
                digest.update(piece)
                if part == "info":
                    texts[member.path] = texts.get(member.path, b"") + piece
            files.append(replace(member, sha256=digest.hexdigest()))
    with open_plain(package.path) as stream:
        hashes = digests(stream)
    index, exports = (
        json.loads(texts.get(f"info/{name}.json", b"{}")) for name in ("index", "run_exports")
    )
    paths = tuple(map(path_entry, json.loads(texts["info/paths.json"])["paths"]))
    scan = PackageScan(
        str(package.path), "", PackageInfo(index_of(index), paths, exports), tuple(files)
    )
    return OpenedPackage(
        package, scan, {**index, **hashes, "run_exports": exports}, texts, tuple(faults)
    )


@check(OpenedPackage, "payload")
def Payload(package: OpenedPackage) -> Iterator[Finding]:
    """Each half has only members that belong there, and the payload is the list of paths.json."""
    for fault in package.faults:
        yield Finding(package.name, fault)
    for found in ArchiveMatchesPaths(package.scan):
        yield Finding(
            package.name, f"{found.path}: {found.message}" if found.path else found.message
        )


@check(OpenedPackage, "metadata")
def Metadata(package: OpenedPackage) -> Iterator[Finding]:
    """The record is that of this file, and repeats the package's index.json and run exports."""
    name, index, record = package.name, package.index, package.indexed.record
    subdir, _, file = name.partition("/")
    if file != f"{index.identity}.conda":
        yield Finding(name, f"it is {index.identity} by its own index.json")
    if index.subdir != subdir:
        yield Finding(name, f"it is for {index.subdir} by its own index.json")
    wanted = {
        key: value for key, value in package.record.items() if key in record or key not in _OPTIONAL
    }
    for key, theirs, ours in differences(
        {k: v for k, v in record.items() if k not in _OF_CHANNELS}, wanted
    ):
        yield Finding(name, f"repodata says {key} {theirs}, the package {ours}")


@check(OpenedPackage, "run-exports")
def RunExports(package: OpenedPackage) -> Iterator[Finding]:
    """run_exports.json repeats the run exports of the package."""
    entry, ours = package.indexed.exports, package.record["run_exports"]
    stated = entry.get("run_exports") if isinstance(entry, Mapping) else None
    if entry is None:
        yield Finding(package.name, "run_exports.json does not name it")
    elif not isinstance(stated, Mapping) or len(entry) != 1:
        yield Finding(package.name, "its entry in run_exports.json cannot be read")
    elif any(differences(stated, ours)):
        yield Finding(
            package.name, f"run_exports.json says {shown(stated)}, the package {shown(ours)}"
        )


@check(OpenedPackage, "sbom")
def Sbom(package: OpenedPackage) -> Iterator[Finding]:
    """The package has a single SBOM that can be read.

    It is about this package, and names commit and licences. A package that another repository
    made may have none.
    """
    name, index = package.name, package.index
    place = sbom.place(index.name)
    text = package.texts.get(place)
    for other in sorted(package.texts):
        if other.startswith(f"{sbom.FOLDER}/") and other != place:
            yield Finding(name, f"{other} does not belong to this package")
    if text is None:
        severity: Severity = "error" if package.indexed.is_ours else "hint"
        yield Finding(name, "it has no SBOM", severity=severity)
        return
    try:
        found = sbom.read(text)
    except AuditFailed as error:
        yield Finding(name, error.cause)
        return
    ours = f"{index.name} {index.version} {index.build} for {index.subdir}"
    theirs = f"{found.name} {found.version} {found.build} for {found.subdir}"
    if ours != theirs:
        yield Finding(name, f"it is about {theirs}")
    if not found.provenance.commit:
        yield Finding(
            name,
            "it names no commit of the recipe, which had changes when it was built: commit them,"
            f" if they are not, then `ctk build {shlex.quote(found.provenance.recipe)}`",
            fix=COMMIT_FIRST,
        )
    for given in found.provenance.inputs:
        if not given.license:
            yield Finding(name, f"it states no licence of {given.artefact.file}")


def differences(
    found: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """The keys in which two mappings differ, with both values as text.

    An empty value equals a missing key.
    """
    for key in sorted(found.keys() | wanted.keys()):
        ours, theirs = _form(found.get(key)), _form(wanted.get(key))
        if ours != theirs or key not in wanted:
            yield key, shown(found.get(key)), shown(wanted.get(key))


def shown(value: Any) -> str:
    """A value for a message."""
    return "nothing" if value in _EMPTY else repr(value)[:_MAX_SHOWN]


def _form(value: Any) -> Any:
    return None if value in _EMPTY else value
