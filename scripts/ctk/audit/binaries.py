"""Checks of the binaries of one package, and of the places of a toolkit component's files.

`ctk.package.layout` has these places.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator

from ctk.audit.files import at
from ctk.core.versions import version_key
from ctk.package.binaries import Binary
from ctk.package.layout import LAYOUTS, OF_GLIBC, OPENS_BY_NAME, Layout
from ctk.package.reader import ScannedFile
from ctk.package.scan import PackageScan
from ctk.rules import Finding, check

_MACHINES = {"linux-64": ("elf", "x86_64"), "linux-aarch64": ("elf", "aarch64")} | {
    "win-64": ("pe", "x86_64"),
    "win-arm64": ("pe", "aarch64"),
}
_ORIGIN = re.compile(r"\$(ORIGIN|\{ORIGIN\})(/.*)?")
# Packages whose licence forbids changes (cuQuantum's, 3b). Their RUNPATH begins with $ORIGIN, which
# has all that they need but glibc's libraries, so what follows may be a folder of wheels.
_UNCHANGEABLE = frozenset(("custatevec-files", "cutensornet-files"))
_STUBS = "stubs"
"""Name of the folder of stubs."""
# Folders of wheels, which no environment has. A package may keep the one beside its modules in
# which a wheel bundles libraries of others.
_WHEEL_LEFTOVER = re.compile(r"(^|/)(nvidia|cu1\d)(/|$)|\.libs(/|$)")


def binaries(package: PackageScan) -> Iterator[tuple[ScannedFile, Binary]]:
    """The package's executables, libraries and extension modules, without GPU code (cubin)."""
    for file in package.installed():
        if file.binary is not None and file.binary.machine != "cuda":
            yield file, file.binary


def search_folders(path: str, binary: Binary) -> list[str]:
    """The folders in the RPATH of a binary that is opened at `path`, as paths from the prefix."""
    entries = (entry for search in binary.search for entry in search.entries)
    return [folder for entry in entries if (folder := _folder(path, entry)) is not None]


def _folder(path: str, entry: str) -> str | None:
    """The folder of an RPATH entry of a file, as a path from the prefix.

    None if it is not relative to $ORIGIN.
    """
    match = _ORIGIN.fullmatch(entry)
    below = (match[2] or "").lstrip("/") if match else ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), below)) if match else None


@check(
    PackageScan,
    fix=(
        "check the artefact: the file is truncated or corrupted (libnvvm.so, for one, does not"
        " survive patching)"
    ),
)
def BinariesAreReadable(package: PackageScan) -> Iterator[Finding]:
    """A file that begins like an ELF or PE file can be read as one.

    Otherwise the other checks would not see it.
    """
    for file in package.installed():
        if file.unreadable:
            yield at(package, file, file.unreadable)


@check(PackageScan, fix="check which target's artefact the recipe's source line names")
def BinariesFitTheSubdir(package: PackageScan) -> Iterator[Finding]:
    """Binaries are for the machine and system of the package's subdir.

    A package without a subdir may have one at the end of its name.
    """
    subdir = package.target_subdir
    for file, binary in binaries(package):
        if not subdir:
            yield at(
                package, file, f"{binary.format}, {binary.machine}, in a package for any machine"
            )
        elif (binary.format, binary.machine) != _MACHINES.get(subdir):
            yield at(package, file, f"{binary.format}, {binary.machine}, in a package for {subdir}")


@check(
    PackageScan,
    fix=(
        "set it to '$ORIGIN' in the recipe's script, as recipes/common/layout.sh does for the"
        " toolkit, and library.sh without AS_PUBLISHED for other libraries"
    ),
)
def RpathIsRelative(package: PackageScan) -> Iterator[Finding]:
    """RPATH entries begin with ``$ORIGIN``, stay in the prefix, and are no folders of wheels.

    But for a folder of bundled libraries that the package has, such as ``numpy.libs``, and for what
    follows ``$ORIGIN`` in a file whose licence forbids changes.

    An empty entry, as in ``$ORIGIN:``, is an error: the loader reads it as the current directory,
    so a program that is started in a folder of somebody else loads that person's ``librt.so.1`` or
    ``libcuda.so.1`` (CWE-427).
    """
    own = {posixpath.dirname(file.path) for file in package.installed()}
    for file, binary in binaries(package):
        for search in binary.search:
            entries = search.entries
            if package.name in _UNCHANGEABLE and entries[0] == "$ORIGIN":
                entries = entries[:1]
            for entry in entries:
                if problem := _entry_problem(file, entry, own):
                    yield at(package, file, f"{search.tag} {search.text!r}: {problem}")


def _entry_problem(file: ScannedFile, entry: str, own: Collection[str]) -> str:
    if not entry:
        return "the empty entry means the current directory"
    if (folder := _folder(file.path, entry)) is None:
        return f"{entry!r} is not relative to $ORIGIN"
    if _WHEEL_LEFTOVER.search(entry) and not (entry.endswith(".libs") and folder in own):
        return f"{entry!r} is a folder of the wheel's layout"
    return f"{entry!r} leaves the prefix" if folder.startswith("..") else ""


@check(
    PackageScan,
    fix="leave the folder of stubs out of the RPATH; make stubs with scripts/ctk/fetch/derive.py",
)
def StubsAreForLinkers(package: PackageScan) -> Iterator[Finding]:
    """A stub of the driver is found by linkers alone.

    No RPATH leads to a folder of stubs, and a file there has no version in its name: a program
    needs ``libcuda.so.1``, so a loader takes no file of the name ``libcuda.so``. It needs nothing.
    """
    for file, binary in binaries(package):
        folders = search_folders(file.path, binary)
        if any(posixpath.basename(folder) == _STUBS for folder in folders):
            yield at(package, file, "its RPATH leads to a folder of stubs")
    for file in package.installed():
        folder, name = posixpath.split(file.path)
        if posixpath.basename(folder) != _STUBS or ".so" not in name:
            continue
        if not name.endswith(".so"):
            yield at(package, file, "a loader would take this stub for the driver's library")
        if file.binary is not None and file.binary.needed:
            yield at(package, file, f"this stub needs {file.binary.needed[0]}")


_MAJOR = re.compile(r"cuda-version\s*[>=~]*\s*(\d+)\.")


def layout_of(package: PackageScan) -> Layout | None:
    """The layout of a package of a CTK component.

    None for Python projects and packages beside the CTK.
    These are built for a CUDA major, as their build strings say.
    """
    if package.info.index.build.startswith("cuda") or any(
        "site-packages/" in file.path for file in package.installed()
    ):
        return None
    majors = [int(match[1]) for spec in package.info.index.depends if (match := _MAJOR.match(spec))]
    return LAYOUTS.get((package.target_subdir, majors[0])) if majors else None


@check(
    PackageScan,
    fix=(
        "fix recipes/common/layout.sh, or the table in scripts/ctk/package/layout.py, which the"
        " tests of recipes share"
    ),
)
def FilesAreInTheirPlace(package: PackageScan) -> Iterator[Finding]:
    """Files of the CUDA Toolkit are in the places of the layout table.

    No folder of the wheels is left. DLLs are in Library/bin, libraries below targets/ under their
    full version, libdevice where compilers look for it.
    """
    layout = layout_of(package)
    if layout is None:
        return
    for file in package.installed():
        if layout.is_forbidden(file.path):
            yield at(package, file, "a place where no package for this platform puts files")
            continue
        if _lies(file.path, f"{layout.sanitizer}/"):
            continue
        if layout.stubs and _lies(file.path, f"{layout.stubs}/"):
            continue
        places = _places(layout, file)
        if places and not any(_lies(file.path, place) for place in places):
            yield at(package, file, f"belongs in {' or '.join(dict.fromkeys(places))}")
        elif (
            layout.pkgconfig
            and file.kind == "file"
            and file.binary is not None
            and file.binary.soname
        ):
            name, *_ = layout.library_names(file.binary.soname, package.info.index.version)
            if posixpath.basename(file.path) != name:
                yield at(package, file, f"the real file of {file.binary.soname} is called {name}")


@check(PackageScan, fix="write rpath FILE RPATH in recipes/common/layout.sh; leave libNVVM alone")
def RpathIsTheLayouts(package: PackageScan) -> Iterator[Finding]:
    """Libraries and tools of the CUDA Toolkit have the layout table's RPATH.

    LibNVVM, which is never patched, none. It is RPATH, not RUNPATH: loaders search LD_LIBRARY_PATH
    before a RUNPATH, so NVRTC would compile with the parts of another toolkit. A file that needs no
    library but glibc's, and opens none by its name, is as NVIDIA published it.
    """
    layout = layout_of(package)
    if layout is None or not layout.pkgconfig:
        return
    rpaths = {
        layout.libraries: layout.rpath,
        layout.tools: layout.tool_rpath,
        layout.sanitizer: layout.sanitizer_rpath,
    }
    for file, binary in binaries(package):
        rpath = rpaths.get(posixpath.dirname(file.path), "")
        wanted = f"RPATH {rpath}" if rpath else "no RPATH"
        found = ", ".join(f"{search.tag} {search.text}" for search in binary.search) or "no RPATH"
        if found != wanted and not (rpath and _finds_all(file.path, binary)):
            yield at(package, file, f"it has {found}, but should have {wanted}")


def _finds_all(path: str, binary: Binary) -> bool:
    """Whether a file works as it was published: ``finds_all`` of recipes/common/layout.sh."""
    name = posixpath.basename(path)
    if OPENS_BY_NAME.fullmatch(name) or (binary.search and ".so" in name):
        return False
    return all(map(OF_GLIBC.fullmatch, binary.needed))


def _places(layout: Layout, file: ScannedFile) -> tuple[str, ...]:
    """The places for a file of this kind: folders, ending with a slash, or whole paths.

    Empty for any place.
    """
    folder_of = {
        r"libdevice\..*\.bc": (layout.libdevice,),
        r"(libnvvm|nvvm64).*\.(so.*|dll)": (f"{layout.nvvm_library}/",),
        r".*\.dll": (f"{layout.libraries}/",),
        r"nvvm\.lib": (f"{layout.nvvm_imports}/",),
        r".*\.so(\..*)?": (
            *(f"{layout.libraries}/", f"{layout.links}/"),
            # Links to the stubs of the driver's libraries.
            f"{layout.links}/stubs/",
        ),
        r".*\.(a|lib)": (f"{layout.linking}/", f"{layout.links}/"),
        r"nvvm.*\.h": (f"{layout.nvvm_headers}/",),
        r"(nvToolsExt|nvtx).*\.(h|hpp)": (f"{layout.nvtx_headers}/",),
        r".*\.(h|hpp|cuh|inl)": (f"{layout.headers}/", f"{layout.cccl_headers}/"),
        r".*\.cmake": (f"{layout.cmake}/", f"{layout.find_package}/"),
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


@check(
    PackageScan,
    fix=(
        "check which wheel the recipe took; if NVIDIA links cudart dynamically again, depend on"
        " cuda-cudart"
    ),
    needs_build=True,
)
def CudartIsInside(package: PackageScan) -> Iterator[Finding]:
    """cuda-bindings from 13 on links cudart statically.

    No module needs libcudart, and off Windows a module has it.
    """
    if package.name != "cuda-bindings" or version_key(package.info.index.version)[0] < 13:
        return
    modules = list(binaries(package))
    if not package.subdir.startswith("win-") and not any(
        file.code and file.code.cudart for file, _ in modules
    ):
        yield at(package, "", "no module has cudart inside")
    for file, binary in modules:
        for name in (*binary.needed, *binary.delayed):
            if re.match(r"(lib)?cudart", name, re.IGNORECASE):
                yield at(package, file, f"needs {name}")
