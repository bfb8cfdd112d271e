"""Rules on where a CTK component's files lie in its packages, after the table in `ctk.package.layout`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from ctk.check.audit.check import Finding, PackageCheck
from ctk.check.audit.contents import target_subdir
from ctk.package.layout import LAYOUTS, Layout
from ctk.package.scan import PackageScan, ScannedFile

_MAJOR = re.compile(r"cuda-version\s*[>=~]*\s*(\d+)\.")


def layout_of(package: PackageScan) -> Layout | None:
    """The row of the table that a package follows; None for Python projects and what is not of the CTK."""
    if any("site-packages/" in file.path for file in package.installed()):
        return None
    majors = [int(match[1]) for spec in package.info.index.depends if (match := _MAJOR.match(spec))]
    return LAYOUTS.get((target_subdir(package), majors[0])) if majors else None


class FilesAreInTheirPlace(PackageCheck):
    """Files of CTK components are where the layout table says, and no folder is left from the wheels.

    DLLs are in Library/bin, libraries below targets/ under their full version, libdevice where compilers look for it.
    """

    mend = (
        "mend recipes/common/layout.sh, or the table in scripts/ctk/package/layout.py, which the recipes' tests share"
    )

    def check(self, package: PackageScan) -> Iterator[Finding]:
        layout = layout_of(package)
        if layout is None:
            return
        for file in package.installed():
            if layout.is_forbidden(file.path):
                yield self.finding(package, file, "a place where no package for this platform puts files")
                continue
            if _lies(file.path, f"{layout.sanitizer}/"):
                continue
            places = _places(layout, file)
            if places and not any(_lies(file.path, place) for place in places):
                yield self.finding(package, file, f"belongs in {' or '.join(dict.fromkeys(places))}")
            elif layout.pkgconfig and _is_library(file):
                yield from self._name(package, layout, file)

    def _name(self, package: PackageScan, layout: Layout, file: ScannedFile) -> Iterator[Finding]:
        assert file.binary is not None
        name, *_ = layout.library_names(file.binary.soname, package.info.index.version)
        if posixpath.basename(file.path) != name:
            yield self.finding(package, file, f"the real file of {file.binary.soname} is called {name}")


class RpathIsTheLayouts(PackageCheck):
    """Libraries and tools of CTK components have the RPATH of the layout table; libNVVM, never to be patched, none.

    It is RPATH, not RUNPATH: loaders follow LD_LIBRARY_PATH before a RUNPATH, so that an NVRTC would compile with the
    parts of another toolkit.
    """

    mend = "set it with patchelf in recipes/common/layout.sh; leave libNVVM alone"

    def check(self, package: PackageScan) -> Iterator[Finding]:
        layout = layout_of(package)
        if layout is None or not layout.pkgconfig:
            return
        for file in package.installed():
            if file.binary is None or file.binary.machine == "cuda":
                continue
            folder = posixpath.dirname(file.path)
            wanted = {
                layout.libraries: layout.rpath,
                layout.tools: layout.tool_rpath,
                layout.sanitizer: layout.sanitizer_rpath,
            }.get(folder, "")
            wanted = f"RPATH {wanted}" if wanted else "no RPATH"
            found = ", ".join(f"{search.tag} {search.text}" for search in file.binary.search) or "no RPATH"
            if found != wanted:
                yield self.finding(package, file, f"it has {found}, and should have {wanted}")


def _is_library(file: ScannedFile) -> bool:
    return file.binary is not None and bool(file.binary.soname) and file.kind == "file"


def _places(layout: Layout, file: ScannedFile) -> tuple[str, ...]:
    """Where a file of this kind may lie: folders with a slash at their end, or whole paths. Empty for any place."""
    folder_of = {
        r"libdevice\..*\.bc": (layout.libdevice,),
        r"(libnvvm|nvvm64).*\.(so.*|dll)": (f"{layout.nvvm_library}/",),
        r".*\.dll": (f"{layout.libraries}/",),
        r".*\.so(\..*)?": (f"{layout.libraries}/", f"{layout.links}/"),
        r".*\.(a|lib)": (f"{layout.linking}/", f"{layout.links}/"),
        r"nvvm.*\.h": (f"{layout.nvvm_headers}/",),
        r"(nvToolsExt|nvtx).*\.(h|hpp)": (f"{layout.nvtx_headers}/",),
        r".*\.(h|hpp|cuh|inl)": (f"{layout.headers}/", f"{layout.cccl_headers}/"),
        r".*\.cmake": (f"{layout.cmake}/",),
        r".*\.pc": (f"{layout.pkgconfig}/",),
        r"cicc(\.exe)?": (f"{layout.nvvm_tools}/",),
        r".*\.exe": (f"{layout.tools}/",),
    }
    name = posixpath.basename(file.path)
    for pattern, places in folder_of.items():
        if re.fullmatch(pattern, name):
            # Real libraries are in one place; only links are elsewhere.
            return places[:1] if file.kind == "file" and ".so" in name else places
    is_program = file.kind == "file" and file.binary is not None and file.binary.machine != "cuda"
    return (f"{layout.tools}/",) if is_program else ()


def _lies(path: str, place: str) -> bool:
    return path.startswith(place) if place.endswith("/") else path == place
