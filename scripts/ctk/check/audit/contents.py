"""Rules on the files of one package: the archive keeps what paths.json and the recipe promise; links; Python tags."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ctk.check.audit.check import Finding, PackageCheck
from ctk.core.platforms import PLATFORMS
from ctk.package.package import PathEntry
from ctk.package.scan import PackageScan, ScannedFile

_KINDS = {"hardlink": "file", "softlink": "link", "directory": "folder"}
_LIBRARY_FOLDER = re.compile(r"(targets/[^/]+/)?lib")
_EXTENSION = re.compile(r"\.(?:cpython-|cp)(3)(\d+)(t?)-[^/]*\.(?:so|pyd)$")


def half_of(package: PackageScan) -> str:
    """The subdir for which a ``noarch`` package is the ``_<subdir>`` half, "" if it is none."""
    subdirs = PLATFORMS if package.info.index.noarch else ()
    return next((subdir for subdir in subdirs if package.name.endswith(f"_{subdir}")), "")


def target_subdir(package: PackageScan) -> str:
    """The subdir whose machine runs the package's binaries, "" when any may."""
    return half_of(package) or ("" if package.info.index.noarch else package.subdir)


class ArchiveMatchesPaths(PackageCheck):
    """The archive holds exactly the files that paths.json lists, each of the size and sha256 given there."""

    mend = "build it again; a package must not be changed after it was built"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        listed = {entry.path: entry for entry in package.info.paths}
        held = {file.path: file for file in package.files if file.part == "pkg"}
        if len(listed) != len(package.info.paths):
            yield self.finding(package, "info/paths.json", "lists a path twice")
        if len(held) != sum(file.part == "pkg" for file in package.files):
            yield self.finding(package, "", "the archive holds a path twice")
        for path in sorted(listed.keys() - held.keys()):
            yield self.finding(package, path, "listed in paths.json, missing in the archive")
        for path, file in held.items():
            if path in listed:
                yield from self._compare(package, file, listed[path])
            else:
                yield self.finding(package, path, "in the archive, missing in paths.json")

    def _compare(self, package: PackageScan, file: ScannedFile, entry: PathEntry) -> Iterator[Finding]:
        if _KINDS.get(entry.kind) != file.kind:
            yield self.finding(package, file, f"paths.json says {entry.kind}, the archive holds a {file.kind}")
        elif file.kind == "file" and entry.size != file.size:
            yield self.finding(package, file, f"paths.json says {entry.size} bytes, the archive holds {file.size}")
        elif file.kind == "file" and entry.sha256 != file.sha256:
            yield self.finding(package, file, f"paths.json says sha256 {entry.sha256}, the archive holds {file.sha256}")


class KeepsItsPromises(PackageCheck):
    """Each glob of the recipe's ``build: files`` and of its package_contents tests matches a file.

    Read from the rendered recipe in the package; a package without one was held to its tests when it was built.
    """

    mend = "mend the glob in the recipe, or the script that should have made the file"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        promise = package.info.promise
        if promise is None:
            return
        paths = [file.path for file in package.installed()]
        for where, globs in (("build: files", promise.files), ("package_contents", promise.contents)):
            for glob in globs:
                pattern = glob_pattern(glob)
                if not any(pattern.fullmatch(path) for path in paths):
                    yield self.finding(package, glob, f"promised by {where}, matches no file")


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob of rattler-build as a regular expression: ``**`` spans folders, a folder stands for all in it."""
    pieces = {"**/": r"(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\{[^}]*\}|\[[^]]*\]|.", glob)
    body = "".join(pieces.get(token) or _literal(token) for token in tokens)
    return re.compile(f"{body.rstrip('/')}(?:/.*)?")


def _literal(token: str) -> str:
    if token.startswith("{"):
        return f"(?:{'|'.join(map(re.escape, token[1:-1].split(',')))})"
    return token if token.startswith("[") else re.escape(token)


class LinksStayInside(PackageCheck):
    """Symbolic links are relative and stay inside the prefix; packages for Windows have none."""

    mend = "make the link relative to its own folder, or ship the file; on Windows, ship the file"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        windows = target_subdir(package).startswith("win-")
        for file in package.files:
            if file.kind == "other":
                yield self.finding(package, file, "is neither a file, a folder nor a symbolic link")
            if file.path.startswith("/") or ".." in file.path.split("/"):
                yield self.finding(package, file, "lies outside the prefix")
            if file.kind != "link":
                continue
            if windows:
                yield self.finding(package, file, f"links to {file.link}; Windows needs privileges to make a link")
            if file.link.startswith("/"):
                yield self.finding(package, file, f"links to the absolute path {file.link}")
            elif link_target(file).startswith(".."):
                yield self.finding(package, file, f"links out of the prefix: {file.link}")


def link_target(file: ScannedFile) -> str:
    """Where a relative link leads, as a path from the prefix."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file.path), file.link))


class BareNameOnlyInDev(PackageCheck):
    """The bare name of a library (``lib/libX.so``) is in ``-dev`` packages only: linkers must not find it elsewhere.

    A library whose SONAME is the bare name has no other name to be loaded by, and is where it is used.
    """

    mend = "move the link to the -dev output (build: files)"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        if "-dev" in package.name:
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
            real = link_target(file) if file.kind == "link" else file.path
            if real not in only and (file.kind == "link" or file.binary is not None):
                yield self.finding(package, file, "the bare name of a library, outside a -dev package")


class ExtensionsFitThePython(PackageCheck):
    """Extension modules are for the Python whose folder they are in, and the package depends on that Python's ABI."""

    mend = "check the Python tag in the recipe's source line, and its python_abi requirement"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        depends = [spec for spec in package.info.index.depends if spec.split()[0] in ("python", "python_abi")]
        missing = set()
        for file in package.installed():
            match = _EXTENSION.search(file.path)
            if match is None:
                continue
            major, minor, threaded = match.groups()
            folder = re.search(r"lib/python([0-9.]+)t?/", file.path)
            if folder and folder[1] != f"{major}.{minor}":
                yield self.finding(package, file, f"for Python {major}.{minor}, in the folder of {folder[1]}")
            if package.info.index.noarch:
                yield self.finding(package, file, "an extension module in a noarch package")
            tag = re.compile(rf"(^python {major}\.{minor}(\.|\s|$))|_cp{major}{minor}{threaded or '(?!t)'}")
            if not any(tag.search(spec) for spec in depends):
                missing.add(f"{major}.{minor}{threaded}")
        for python in sorted(missing):
            message = f"holds modules for Python {python}, on which it does not depend: {depends}"
            yield self.finding(package, "info/index.json", message)
