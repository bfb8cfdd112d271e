"""Rules on what a binary finds when it is loaded in an environment: folders, libraries, glibc."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ctk.check.audit.check import Finding, SetCheck
from ctk.check.audit.contents import target_subdir
from ctk.check.audit.libraries import binaries, search_folders
from ctk.check.audit.packages import PackageSet, spec_name
from ctk.check.audit.system import EXTERNAL, is_compiler_runtime, is_optional, is_system
from ctk.package.binaries import Binary, version_key
from ctk.package.scan import PackageScan, ScannedFile

# Where Windows looks for a DLL in an environment besides the folder of the program: conda puts these on PATH, and
# Python searches them for its modules.
_DLL_FOLDERS = frozenset({"", "Library/bin"})


class RpathResolves(SetCheck):
    """Each folder that an RPATH names exists in an environment: it is ``lib``, or one that a dependency fills."""

    mend = "drop the entry, or depend on the package that makes the folder"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        for package in packages.audited:
            reach, _ = packages.closure(package)
            for file, binary in binaries(package):
                for folder in search_folders(file.path, binary):
                    if folder == "lib" or folder.startswith("..") or folder == posixpath.dirname(file.path):
                        continue
                    if not any(folder in packages.places(other) for other in reach):
                        yield self.finding(package, file, f"RPATH leads to {folder}/, which no dependency has")


class GlibcIsDeclared(SetCheck):
    """No ELF file needs a glibc above the ``__glibc`` floor that the package, or its other half, depends on."""

    mend = "declare the floor that the release's facts measured: __glibc >=X.Y,<3.0.a0"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        for package in packages.audited:
            files = [(file.path, binary.versions.get("GLIBC", "")) for file, binary in binaries(package)]
            file, highest = max(files, key=lambda need: (version_key(need[1]), need[0]), default=("", ""))
            if not highest:
                continue
            floor = self._floor(packages, package)
            if not floor:
                yield self.finding(package, file, f"needs glibc {highest}; no __glibc floor is declared")
            elif version_key(highest) > version_key(floor):
                yield self.finding(package, file, f"needs glibc {highest}, above the declared floor {floor}")

    @staticmethod
    def _floor(packages: PackageSet, package: PackageScan) -> str:
        """The highest floor that holds wherever the package is installed, "" for none."""
        own = _glibc_floors(package)
        pinned = [
            other
            for spec in package.info.index.depends
            for other in packages.matching(spec, target_subdir(package))
            if packages.is_exact(spec, other)
        ]
        certain = [*own, *(floor for other in pinned for floor in _glibc_floors(other))]
        owners = packages.owners(package)
        if owners and all(_glibc_floors(owner) for owner in owners):
            certain.append(min((max(_glibc_floors(owner), key=version_key) for owner in owners), key=version_key))
        return max(certain, key=version_key, default="")


def _glibc_floors(package: PackageScan) -> list[str]:
    specs = [spec for spec in package.info.index.depends if spec_name(spec) == "__glibc"]
    return [match[1] for spec in specs for match in re.finditer(r">=\s*([0-9.]*[0-9])", spec)]


class NeededIsProvided(SetCheck):
    """Each library that a binary needs is the system's or the driver's, or in the package or one that it depends on."""

    mend = "add the package that has the library to the recipe's run requirements"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        for package, file, _, library in _needs(packages):
            if not _places(packages, package, file, library):
                depends = ", ".join(dict.fromkeys(map(spec_name, package.info.index.depends))) or "nothing"
                yield self.finding(package, file, f"needs {library}, which nothing below {depends} has")


class NeededIsFound(SetCheck):
    """The loader reaches each needed library: by the binary's own RPATH, or where Python and Windows look anyway.

    A library that relies on the RPATH of the program that loads it works in some programs only. Where it is the
    compiler's runtime that is not reached, this is a hint: the loader takes the system's copy.
    """

    mend = "set the RPATH to $ORIGIN in the recipe's layout script; put DLLs into Library/bin"

    def check(self, packages: PackageSet) -> Iterator[Finding]:
        for package, file, binary, library in _needs(packages):
            places = _places(packages, package, file, library)
            folders = _loader_folders(packages, package, file, binary)
            if places and not any(posixpath.dirname(place) in folders for place in places):
                looked = ", ".join(f"{folder}/" for folder in sorted(folders)) or "no folder of the environment"
                message = f"needs {library} ({places[0]}); the loader looks in {looked}"
                yield self.finding(package, file, message, "hint" if is_compiler_runtime(library) else None)


def _needs(packages: PackageSet) -> Iterator[tuple[PackageScan, ScannedFile, Binary, str]]:
    """Each library that a binary of the audited packages needs from an environment."""
    for package in packages.audited:
        for file, binary in binaries(package):
            for library in dict.fromkeys((*binary.needed, *binary.delayed)):
                if not is_system(binary.format, library) and not is_optional(package.name, file.path, library):
                    yield package, file, binary, library


def _places(packages: PackageSet, package: PackageScan, file: ScannedFile, library: str) -> list[str]:
    """The paths of a library in the environments of a package, in the order of its dependencies."""
    reach, outside = packages.closure(package)
    # What the base channel has may be less than the real package, where this machine lacks the library.
    outside |= {other.name for other in reach if not packages.is_audited(other)}
    places = [path for other in reach for path in packages.named(other, library)]
    known = [name for name in outside if name in EXTERNAL and EXTERNAL[name].fullmatch(library)]
    windows = file.binary is not None and file.binary.format == "pe"
    return places + [f"Library/bin/{library}" if windows else f"lib/{library}" for _ in known]


def _loader_folders(packages: PackageSet, package: PackageScan, file: ScannedFile, binary: Binary) -> set[str]:
    here = posixpath.dirname(file.path)
    if binary.format == "pe":
        # The wheels' repair tool gives a package a folder for its DLLs and has Python search it.
        private = {posixpath.dirname(other.path) for other in package.installed() if ".libs/" in other.path}
        return {here, *private, *_DLL_FOLDERS}
    # $ORIGIN is the folder of the name by which a library was opened, so each link to it adds one.
    names = [file.path, *packages.links_to(package, file.path)] if binary.search else []
    folders = {folder for name in names for folder in search_folders(name, binary)}
    # conda's Python searches its lib for everything that its modules load.
    return folders | ({"lib"} if "site-packages/" in file.path else set())
