"""Rules on the executables, libraries and extension modules of one package, from what their headers say."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import ClassVar

from ctk.check.audit.check import Finding, PackageCheck
from ctk.check.audit.contents import target_subdir
from ctk.package.binaries import Binary, version_key
from ctk.package.scan import PackageScan, ScannedFile

_MACHINES = {"linux-64": ("elf", "x86_64"), "linux-aarch64": ("elf", "aarch64")} | {
    "win-64": ("pe", "x86_64"),
    "win-arm64": ("pe", "aarch64"),
}
_ORIGIN = re.compile(r"\$(ORIGIN|\{ORIGIN\})(/.*)?")
# How wheels find each other: no such folder exists in an environment.
_WHEEL_LEFTOVER = re.compile(r"(^|/)(nvidia|cu1\d)(/|$)|\.libs(/|$)")


def binaries(package: PackageScan) -> Iterator[tuple[ScannedFile, Binary]]:
    """The package's executables, libraries and extension modules; GPU code (cubin) is none."""
    for file in package.installed():
        if file.binary is not None and file.binary.machine != "cuda":
            yield file, file.binary


def search_folders(path: str, binary: Binary) -> list[str]:
    """The folders that the RPATH of a binary opened at a path names, as paths from the prefix."""
    here = posixpath.dirname(path)
    matches = (_ORIGIN.fullmatch(entry) for search in binary.search for entry in search.entries)
    return [posixpath.normpath(posixpath.join(here, (match[2] or "").lstrip("/"))) for match in matches if match]


class BinariesAreReadable(PackageCheck):
    """Each file that begins like an ELF or PE file is one, so that the other checks see all of them."""

    mend = "check the artefact: the file is cut short or corrupted (libnvvm.so, for one, does not survive patching)"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        for file in package.installed():
            if file.unreadable:
                yield self.finding(package, file, file.unreadable)


class BinariesFitTheSubdir(PackageCheck):
    """Binaries are of the machine and the system that the package's subdir, or ``_<subdir>`` half, is for."""

    mend = "check which target's artefact the recipe's source line names"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        subdir = target_subdir(package)
        for file, binary in binaries(package):
            if not subdir:
                yield self.finding(package, file, f"{binary.format}, {binary.machine}, in a package for any machine")
            elif (binary.format, binary.machine) != _MACHINES.get(subdir):
                yield self.finding(package, file, f"{binary.format}, {binary.machine}, in a package for {subdir}")


class RpathIsRelative(PackageCheck):
    """RPATHs hold ``$ORIGIN``-relative entries only, stay inside the prefix and name no folder of the wheels' layout.

    An empty entry, as in ``$ORIGIN:``, is an error: the loader reads it as the current directory, so a program that is
    started in a folder where someone else can write loads their ``librt.so.1`` or ``libcuda.so.1`` (CWE-427).
    """

    mend = "set the RPATH to $ORIGIN in the recipe's layout script"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        for file, binary in binaries(package):
            for search in binary.search:
                for entry in search.entries:
                    problem = self._problem(file, entry)
                    if problem:
                        yield self.finding(package, file, f"{search.tag} {search.text!r}: {problem}")

    @staticmethod
    def _problem(file: ScannedFile, entry: str) -> str:
        if not entry:
            return "the empty entry means the current directory"
        match = _ORIGIN.fullmatch(entry)
        if match is None:
            return f"{entry!r} is not relative to $ORIGIN"
        if _WHEEL_LEFTOVER.search(match[2] or ""):
            return f"{entry!r} is a folder of the wheel's layout"
        folder = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), (match[2] or "").lstrip("/")))
        return f"{entry!r} leaves the prefix" if folder.startswith("..") else ""


class CudartIsInside(PackageCheck):
    """cuda-bindings from 13 has cudart linked in: cudart's own strings are in a module, and none needs libcudart.

    On Linux these are two messages of cudart's table of errors; on Windows the name of the driver's library that only
    cudart opens (``nvcudart_hybrid64.dll``, on ARM ``nvcudart_hybrida64.dll``). Nothing else in the bindings has them.
    """

    mend = "check which wheel the recipe took; if NVIDIA links cudart dynamically again, depend on cuda-cudart"
    messages = ("CUDA driver version is insufficient for CUDA runtime version", "startup failure in cuda runtime")
    opened = ("nvcudart_hybrid",)
    probes: ClassVar = {"cuda-bindings": (*messages, *opened)}

    def check(self, package: PackageScan) -> Iterator[Finding]:
        if package.name != "cuda-bindings" or version_key(package.info.index.version)[0] < 13:
            return
        modules = list(binaries(package))
        wanted = set(self.opened if package.subdir.startswith("win-") else self.messages)
        if not any(wanted <= set(file.evidence) for file, _ in modules):
            yield self.finding(package, "", "no module has cudart inside")
        for file, binary in modules:
            for name in (*binary.needed, *binary.delayed):
                if re.match(r"(lib)?cudart", name, re.IGNORECASE):
                    yield self.finding(package, file, f"needs {name}")
