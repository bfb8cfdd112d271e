"""Rules on packages that share an environment: whose file it is, where links lead, what a binary needs to be loaded."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from ctk.check.audit.binaries import binaries, search_folders
from ctk.check.audit.packages import PackageSet, at, spec_name
from ctk.check.framework import Finding, check
from ctk.core.platforms import NOARCH
from ctk.package.binaries import Binary, version_key
from ctk.package.scan import PackageScan, ScannedFile

# noarch: python packages hold site-packages/ and python-scripts/; the installer moves them to the Python's folders.
_SITE = re.compile(r"(lib/python3\.\d+t?|Lib)/site-packages/")
_SCRIPTS = re.compile(r"(python-scripts|bin|Scripts)/")


@check(PackageSet, fix="leave the file to one of the two (build: files), or let one depend on the other")
def FilesHaveOneOwner(packages: PackageSet) -> Iterator[Finding]:
    """No file is in two packages that fit in one environment; on Windows, whatever the case of its name."""
    reported: set[tuple[str, str]] = set()
    for subdir in packages.subdirs:
        shared: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = {}
        by_file = {package.file: package for package in packages.environment(subdir)}
        for path, holders in _holders(packages, subdir).items():
            for one, other in combinations(holders, 2):
                if one.name != other.name:
                    shared.setdefault(_names(one, other), {}).setdefault((one.file, other.file), []).append(path)
        for names, pairs in shared.items():
            for (first, second), paths in pairs.items():
                one, other = by_file[first], by_file[second]
                if names not in reported and packages.coexist(one, other, subdir):
                    reported.add(names)
                    more = f", as are {len(paths) - 1} more files" if len(paths) > 1 else ""
                    message = f"also in {other.file_name}{more}; both fit in one environment"
                    yield at(one, min(paths), message)


def _holders(packages: PackageSet, subdir: str) -> dict[str, list[PackageScan]]:
    holders: dict[str, list[PackageScan]] = defaultdict(list)
    for package in packages.environment(subdir):
        for path in {_place(package, file.path, subdir) for file in package.installed()}:
            holders[path].append(package)
    return {
        path: sorted(held, key=lambda package: package.file)
        for path, held in holders.items()
        if len(held) > 1 and any(map(packages.is_audited, held))
    }


def _names(one: PackageScan, other: PackageScan) -> tuple[str, str]:
    first, second = sorted((one.name, other.name))
    return first, second


def _place(package: PackageScan, path: str, subdir: str) -> str:
    """The path that two packages must not share: where the installer puts the file, without the Python's version."""
    path = _SITE.sub("site-packages/", path)
    if package.info.index.noarch == "python":
        path = _SCRIPTS.sub("bin/" if not subdir.startswith("win-") else "Scripts/", path, count=1)
    return path.lower() if subdir.startswith("win-") else path


@check(
    PackageSet, fix="depend on the package that has the target with pin_subpackage(..., exact=True), or drop the link"
)
def LinksLeadSomewhere(packages: PackageSet) -> Iterator[Finding]:
    """The target of each symbolic link is in the same package, below what it depends on, or comes with it.

    It comes with a package that pins exactly this build, as the compiler's parts pin one another.
    """
    for package in packages.audited:
        links = [file for file in package.installed() if file.kind == "link" and not file.link.startswith("/")]
        if not links:
            continue
        there = [packages.places(other) for other in packages.companions(package)]
        for file in links:
            target = file.target
            if not target.startswith("..") and not any(target in places for places in there):
                yield at(package, file, f"leads to {target}, which nothing that comes with it has")


@check(PackageSet, fix="build both halves in one run of the recipe, and audit them together")
def ExactPinsAreHeld(packages: PackageSet) -> Iterator[Finding]:
    """A dependency on one exact build of a package that is made here names a build that was made."""
    made = {package.name for package in packages.audited}
    for package in packages.audited:
        for spec in package.info.index.depends:
            parts = spec.replace("==", " ").split()
            if len(parts) == 3 and "*" not in spec and parts[0] in made:
                subdir = "" if package.subdir == NOARCH else package.subdir
                if not packages.matching(spec, subdir):
                    yield at(package, "info/index.json", f"depends on {spec}, a build that is not there")


# glibc, and the loader; a system that installs conda packages has them.
_GLIBC = r"lib(c|m|dl|pthread|rt|util)\.so\.\d+|ld-linux-(x86-64\.so\.2|aarch64\.so\.1)"
# The driver's own libraries: only ever the machine's.
_LINUX_DRIVER = r"lib(cuda|nvidia-ml|cudla)\.so\.1"
_WINDOWS = (
    r"(kernel32|user32|advapi32|ole32|oleaut32|shell32|ws2_32|ntdll|gdi32|bcrypt|crypt32|setupapi|cfgmgr32|version|dbghelp"
    r"|psapi|shlwapi|rpcrt4|secur32|winmm|userenv|powrprof|iphlpapi|mswsock|msvcrt)\.dll"
    r"|(api-ms-win-(core|security|eventing|service|base)|ext-ms)-.*\.dll"
)
_WINDOWS_DRIVER = r"(nvcuda|nvml)\.dll"

_SYSTEM = {
    "elf": re.compile(f"{_GLIBC}|{_LINUX_DRIVER}"),
    "pe": re.compile(f"{_WINDOWS}|{_WINDOWS_DRIVER}", re.IGNORECASE),
}

# Also on every system, new enough for what NVIDIA builds to the manylinux rules.
_COMPILER_RUNTIME = re.compile(r"libgcc_s\.so\.1|libstdc\+\+\.so\.6")

_UCRT = r"api-ms-win-crt-.*\.dll|ucrtbase\.dll"
_VC = rf"(vcruntime140(_1|_threads)?|msvcp140(_1|_2|_atomic_wait|_codecvt_ids)?|concrt140|vccorlib140)\.dll|{_UCRT}"

EXTERNAL: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "libgcc": r"libgcc_s\.so\.1|libgomp\.so\.1|libatomic\.so\.1",
        # libstdcxx depends on libgcc.
        "libstdcxx": r"libstdc\+\+\.so\.6|libgcc_s\.so\.1",
        "libzlib": r"libz\.so\.1",
        "rdma-core": r"lib(ibverbs|rdmacm|mlx5|mlx4|ibumad)\.so\.1",
        "ucrt": _UCRT,
        # vc and vc14_runtime depend on ucrt, python on all three.
        "vc14_runtime": _VC,
        "vc": _VC,
        "python": rf"libpython3\..*|python3\d*t?\.dll|{_VC}",
    }.items()
}

# Modules that are imported only where what they need is, without a dependency on it: (package, file) -> library.
OPTIONAL: Mapping[tuple[str, str], re.Pattern[str]] = {
    # Reads PyTorch tensors; imported once torch is.
    ("cuda-core", "_tensor_bridge"): re.compile(r"torch_cpu\.dll", re.IGNORECASE),
}


def is_system(binary_format: str, library: str) -> bool:
    """Whether every machine that runs the package has the library, or gets it with its driver."""
    return bool(_SYSTEM[binary_format].fullmatch(library))


def is_compiler_runtime(library: str) -> bool:
    """Whether the system's copy serves where the environment's is not found."""
    return bool(_COMPILER_RUNTIME.fullmatch(library))


def is_optional(package: str, path: str, library: str) -> bool:
    """Whether the file is only ever used where the library is."""
    return any(
        package == owner and name in path and pattern.fullmatch(library) for (owner, name), pattern in OPTIONAL.items()
    )


# Where Windows looks for a DLL in an environment besides the folder of the program: conda puts these on PATH, and
# Python searches them for its modules.
_DLL_FOLDERS = frozenset({"", "Library/bin"})


@check(PackageSet, fix="drop the entry, or depend on the package that makes the folder")
def RpathResolves(packages: PackageSet) -> Iterator[Finding]:
    """Each folder that an RPATH names exists in an environment: it is ``lib``, or one that a dependency fills."""
    for package in packages.audited:
        reach, _ = packages.closure(package)
        for file, binary in binaries(package):
            for folder in search_folders(file.path, binary):
                if folder == "lib" or folder.startswith("..") or folder == posixpath.dirname(file.path):
                    continue
                if not any(folder in packages.places(other) for other in reach):
                    yield at(package, file, f"RPATH leads to {folder}/, which no dependency has")


@check(PackageSet, fix="add the package that has the library to the recipe's run requirements")
def NeededIsProvided(packages: PackageSet) -> Iterator[Finding]:
    """Each library that a binary needs is the system's or the driver's, or in the package or one that it depends on."""
    for package, file, _, library in _needs(packages):
        if not _places(packages, package, file, library):
            depends = ", ".join(dict.fromkeys(map(spec_name, package.info.index.depends))) or "nothing"
            yield at(package, file, f"needs {library}, which nothing below {depends} has")


@check(PackageSet, fix="set the RPATH to $ORIGIN in the recipe's layout script; put DLLs into Library/bin")
def NeededIsFound(packages: PackageSet) -> Iterator[Finding]:
    """The loader reaches each needed library: by the binary's own RPATH, or where Python and Windows look anyway.

    A library that relies on the RPATH of the program that loads it works in some programs only. Where it is the
    compiler's runtime that is not reached, this is a hint: the loader takes the system's copy.
    """
    for package, file, binary, library in _needs(packages):
        places = _places(packages, package, file, library)
        folders = _loader_folders(packages, package, file, binary)
        if places and not any(posixpath.dirname(place) in folders for place in places):
            looked = ", ".join(f"{folder}/" for folder in sorted(folders)) or "no folder of the environment"
            message = f"needs {library} ({places[0]}); the loader looks in {looked}"
            yield at(package, file, message, "hint" if is_compiler_runtime(library) else "")


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


@check(PackageSet, fix="declare the floor that the release's facts measured: __glibc >=X.Y,<3.0.a0")
def GlibcIsDeclared(packages: PackageSet) -> Iterator[Finding]:
    """No ELF file needs a glibc above the ``__glibc`` floor that the package, or its other half, depends on."""
    for package in packages.audited:
        files = [(file.path, binary.versions.get("GLIBC", "")) for file, binary in binaries(package)]
        file, highest = max(files, key=lambda need: (version_key(need[1]), need[0]), default=("", ""))
        if not highest:
            continue
        floor = _glibc_floor(packages, package)
        if not floor:
            yield at(package, file, f"needs glibc {highest}; no __glibc floor is declared")
        elif version_key(highest) > version_key(floor):
            yield at(package, file, f"needs glibc {highest}, above the declared floor {floor}")


def _glibc_floor(packages: PackageSet, package: PackageScan) -> str:
    """The highest floor that holds wherever the package is installed, "" for none."""
    own = _glibc_floors(package)
    pinned = [
        other
        for spec in package.info.index.depends
        for other in packages.matching(spec, package.target_subdir)
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
