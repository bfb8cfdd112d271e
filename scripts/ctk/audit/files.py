"""Checks of one package: its metadata, files, links and Python tags."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress

from ctk.build.originals import UNREAD
from ctk.core.errors import AuditFailed
from ctk.core.versions import PythonTag
from ctk.lock.redistribution import NEXT_STEP
from ctk.package.reader import PLACEHOLDER, PathEntry, ScannedFile
from ctk.package.records import spec_name
from ctk.package.scan import PackageScan
from ctk.rules import Finding, Severity, check


def at(
    package: PackageScan, file: ScannedFile | str, message: str, severity: Severity = ""
) -> Finding:
    """A finding in a file of a package; the severity is that of the check by default."""
    return Finding(
        package.file_name, message, file if isinstance(file, str) else file.path, severity=severity
    )


# Licence or exception -> words that its text has; for all that recipes name, except LicenseRef-*.
LICENCE_WORDS = {
    "Apache-2.0": b"Apache License Version 2.0",
    "BSD-2-Clause": b"Redistribution and use in source and binary forms",
    "BSD-3-Clause": b"to endorse or promote products derived from this software",
    "IJG": b"the work of the Independent JPEG Group",
    "LLVM-exception": b"LLVM Exceptions to the Apache 2.0 License",
    "MIT": b"Permission is hereby granted, free of charge, to any person obtaining a copy",
    "NCSA": b"University of Illinois/NCSA Open Source License",
    "Zlib": b"This notice may not be removed or altered from any source distribution",
    "libpng-2.0": b"PNG Reference Library License version 2",
}


@check(
    PackageScan,
    fix=(
        "add `license_file: FILE` below `about`: a licence file of the artefact, or beside the"
        " recipe"
    ),
    needs_build=True,
)
def LicenseIsInside(package: PackageScan) -> Iterator[Finding]:
    """The package names its licence and has the text of each under info/licenses.

    A package that installs nothing needs no text.
    """
    if not package.info.index.license:
        yield at(package, "info/index.json", "no licence named")
    if any(True for _ in package.installed()) and not package.info.licenses:
        yield at(package, "info/licenses", "no licence text")
    for name, text in package.info.licenses.items():
        if not text:
            yield at(package, f"info/licenses/{name}", "the licence text is empty")
    # Without the stars of a comment.
    texts = b" ".join(b" ".join(package.info.licenses.values()).lower().replace(b"*", b" ").split())
    for name in re.findall(r"[\w.-]+", package.info.index.license if texts else ""):
        if LICENCE_WORDS.get(name, b"").lower() not in texts:
            yield at(package, "info/licenses", f"no text of {name}, which its licence names")


@check(PackageScan, fix=f"{NEXT_STEP}, and build it again", needs_build=True)
def LicenceTextsAreRead(package: PackageScan) -> Iterator[Finding]:
    """The table of licences has the licence texts of the package's wheels.

    Somebody has to read a new text, and to write what it says into the table. Until then the
    package's files count as not named for distribution, and `ctk publish` asks.
    """
    for name, text in package.info.sboms.items():
        if UNREAD.encode() not in text:
            continue
        from ctk.build import sbom  # slow, and seldom needed

        with suppress(AuditFailed):  # `ctk check` reports an SBOM that cannot be read
            for key in sbom.read(text).files.unread:
                message = f"nobody has read the licence text {key}"
                yield at(package, f"{sbom.FOLDER}/{name}", message, "hint")


@check(
    PackageScan,
    fix=(
        "let the build step clean info/; keep the path out of other files; declare a prefix in"
        " paths.json"
    ),
)
def NoBuildPath(package: PackageScan) -> Iterator[Finding]:
    """No file or metadata contains a path of the build machine or an undeclared placeholder."""
    for file in package.files:
        for seen in file.sightings:
            times = f" ({seen.count} times)" if seen.count > 1 else ""
            text = "an undeclared placeholder prefix" if seen.needle == PLACEHOLDER else seen.needle
            yield at(package, file, f"contains {text}{times}: {seen.context!r}")


_KINDS = {"hardlink": "file", "softlink": "link", "directory": "folder"}
_LIBRARY_FOLDER = re.compile(r"(targets/[^/]+/)?lib")
_EXTENSION = re.compile(r"\.(?:cpython-|cp)(3\d+t?)-[^/]*\.(?:so|pyd)$")


@check(
    PackageScan,
    fix="build it again; a package must not be changed after it was built",
    needs_build=True,
)
def ArchiveMatchesPaths(package: PackageScan) -> Iterator[Finding]:
    """The archive contains exactly the files that paths.json lists, with their size and sha256."""
    listed = {entry.path: entry for entry in package.info.paths}
    found = {file.path: file for file in package.files if file.part == "pkg"}
    if len(listed) != len(package.info.paths):
        yield at(package, "info/paths.json", "lists a path twice")
    if len(found) != sum(file.part == "pkg" for file in package.files):
        yield at(package, "", "the archive contains a path twice")
    for path in sorted(listed.keys() - found.keys()):
        yield at(package, path, "listed in paths.json, missing in the archive")
    for path, file in found.items():
        if path in listed:
            yield from _differences(package, file, listed[path])
        else:
            yield at(package, path, "in the archive, missing in paths.json")


def _differences(package: PackageScan, file: ScannedFile, entry: PathEntry) -> Iterator[Finding]:
    if _KINDS.get(entry.kind) != file.kind:
        yield at(package, file, f"paths.json says {entry.kind}, the archive contains a {file.kind}")
    elif file.kind == "file" and entry.size != file.size:
        yield at(
            package, file, f"paths.json says {entry.size} bytes, the archive contains {file.size}"
        )
    elif file.kind == "file" and entry.sha256 != file.sha256:
        yield at(
            package,
            file,
            f"paths.json says sha256 {entry.sha256}, the archive contains {file.sha256}",
        )


@check(PackageScan, fix="fix the glob in the recipe, or the script that should have made the file")
def KeepsItsPromises(package: PackageScan) -> Iterator[Finding]:
    """Each glob of the recipe's ``build: files`` and of its package_contents tests matches a file.

    ``not_exists`` none.
    This is for packages of a plan: of a built package, rattler-build has run these tests.
    """
    promise = package.info.promise
    if promise is None:
        return
    paths = [file.path for file in package.installed()]
    for where, globs in (("build: files", promise.files), ("package_contents", promise.contents)):
        for glob in globs:
            pattern = glob_pattern(glob)
            if not any(pattern.fullmatch(path) for path in paths):
                yield at(package, glob, f"promised by {where}, matches no file")
    for glob in promise.absent:
        pattern = glob_pattern(glob)
        for path in filter(pattern.fullmatch, paths):
            yield at(package, path, f"package_contents says that nothing matches {glob}")
            break


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob of rattler-build as a regular expression.

    ``**`` spans folders, and a folder matches all files in it.
    """
    pieces = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\{[^}]*\}|\[[^]]*\]|.", glob)
    body = "".join(pieces.get(token) or _literal(token) for token in tokens)
    return re.compile(f"{body.rstrip('/')}(?:/.*)?")


def _literal(token: str) -> str:
    if token.startswith("{"):
        return f"(?:{'|'.join(map(re.escape, token[1:-1].split(',')))})"
    return token if token.startswith("[") else re.escape(token)


@check(
    PackageScan,
    fix="make the link relative to its own folder, or ship the file; on Windows, ship the file",
)
def LinksStayInside(package: PackageScan) -> Iterator[Finding]:
    """Symbolic links are relative and stay inside the prefix.

    Packages for Windows have no links.
    """
    windows = package.target_subdir.startswith("win-")
    for file in package.files:
        if file.kind == "other":
            yield at(package, file, "is neither a file, a folder nor a symbolic link")
        if file.path.startswith("/") or ".." in file.path.split("/"):
            yield at(package, file, "lies outside the prefix")
        if file.kind != "link":
            continue
        if windows:
            yield at(
                package, file, f"links to {file.link}; Windows needs privileges to make a link"
            )
        if file.link.startswith("/"):
            yield at(package, file, f"links to the absolute path {file.link}")
        elif file.target.startswith(".."):
            yield at(package, file, f"links out of the prefix: {file.link}")


@check(
    PackageScan,
    fix="write build: {files: {exclude: lib/libX.so}}, and leave the link to the -dev output",
)
def BareNameOnlyInDev(package: PackageScan) -> Iterator[Finding]:
    """The bare name of a library, ``lib/libX.so``, is in ``-dev`` packages only: linkers use it.

    Exceptions: a package that is in its own run-exports, such as nccl, and a library whose SONAME
    is the bare name, since it cannot be loaded by another name.
    """
    exported = {spec_name(spec) for specs in package.info.run_exports.values() for spec in specs}
    if "-dev" in package.name or package.name in exported:
        return
    only = {
        file.path
        for file in package.installed()
        if file.binary is not None and file.binary.soname in ("", posixpath.basename(file.path))
    }
    for file in package.installed():
        folder, name = posixpath.split(file.path)
        if not _LIBRARY_FOLDER.fullmatch(folder) or not re.fullmatch(r"lib[^/]*\.so", name):
            continue
        real = file.target if file.kind == "link" else file.path
        if real not in only and (file.kind == "link" or file.binary is not None):
            yield at(package, file, "the bare name of a library, outside a -dev package")


@check(
    PackageScan,
    fix="check ${{ python_tag }} in the source of the recipe, and its requirement python_abi",
)
def ExtensionsFitThePython(package: PackageScan) -> Iterator[Finding]:
    """Extension modules are in the folder of their Python, on whose ABI the package depends."""
    depends = [
        spec for spec in package.info.index.depends if spec.split()[0] in ("python", "python_abi")
    ]
    if package.name == "python":
        depends.append(f"python {package.info.index.version}")
    missing = set()
    for file in package.installed():
        match = _EXTENSION.search(file.path)
        python = PythonTag.read(match[1]) if match else None
        if python is None:
            continue
        folder = re.search(r"lib/python([0-9.]+)t?/", file.path)
        if folder and folder[1] != python.minor:
            yield at(package, file, f"for Python {python.minor}, in the folder of {folder[1]}")
        if package.info.index.noarch:
            yield at(package, file, "an extension module in a noarch package")
        wanted = re.compile(rf"(^python {re.escape(python.minor)}(\.|\s|$))|_{python.tag}(?!t)")
        if not any(wanted.search(spec) for spec in depends):
            missing.add(python.name)
    for name in sorted(missing):
        message = f"contains modules for Python {name}, on which it does not depend: {depends}"
        yield at(package, "info/index.json", message)
