"""Checks of packages that share an environment: files, links, needed libraries, glibc, GPUs."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations

from rattler import PackageRecord
from rattler.exceptions import InvalidVersionError

from ctk.audit.binaries import binaries, search_folders
from ctk.audit.files import at
from ctk.core.console import count
from ctk.core.platforms import NOARCH
from ctk.core.versions import version_key
from ctk.package.binaries import Binary, oldest_glibc
from ctk.package.gpu_known import Known
from ctk.package.gpu_subject import Subject
from ctk.package.reader import IndexJson, ScannedFile
from ctk.package.records import glibc_floor, is_spec, matches, package_record, spec_name
from ctk.package.scan import PackageScan
from ctk.rules import Finding, check


def _exact(spec: str) -> tuple[str, ...]:
    """Name, version and build of a spec for exactly one build.

    For other specs, another number of words.
    """
    return tuple(spec.replace("==", "").replace("=", " ").split())


def _record(index: IndexJson) -> PackageRecord | None:
    try:
        return package_record(
            index.name, index.version, index.build, index.build_number, index.subdir
        )
    except (InvalidVersionError, ValueError):
        return None


class PackageSet:
    """The packages under audit and the base packages, as one channel would have them.

    The audited ones may depend on the base.
    """

    def __init__(self, audited: Sequence[PackageScan], base: Sequence[PackageScan] = ()) -> None:
        self.audited = tuple(audited)
        self.all = (*self.audited, *base)
        self._audited = frozenset(package.file for package in self.audited)
        self._named: dict[str, list[tuple[PackageScan, PackageRecord]]] = defaultdict(list)
        for package in self.all:
            record = _record(package.info.index)
            if record is not None:
                self._named[package.name].append((package, record))
        self._closures: dict[str, tuple[tuple[PackageScan, ...], frozenset[str]]] = {}
        self._places: dict[str, frozenset[str]] = {}
        self._providers: dict[str, tuple[tuple[PackageScan, ...], frozenset[str]]] = {}
        self._files: dict[str, dict[str, list[str]]] = {}
        self._matching: dict[tuple[str, str], list[PackageScan]] = {}

    def is_audited(self, package: PackageScan) -> bool:
        """Whether the package is under audit, and not in the base."""
        return package.file in self._audited

    def matching(self, spec: str, subdir: str) -> list[PackageScan]:
        """The packages that match a spec in an environment of a subdir ("" for any)."""
        if (spec, subdir) not in self._matching:
            self._matching[spec, subdir] = [
                package
                for package, record in self._named.get(spec_name(spec), ())
                if (not subdir or package.subdir in (subdir, NOARCH)) and matches(spec, record)
            ]
        return self._matching[spec, subdir]

    def owners(self, package: PackageScan) -> list[PackageScan]:
        """The packages with which this one is always installed, and which pin exactly this build.

        For a package ``<name>_<subdir>`` this is ``<name>``; for ``<name>-files``, the twins that
        depend on it.
        """
        half = package.half
        name = package.name.removesuffix(f"_{half}" if half else "-files")
        if name == package.name:
            return []
        subdir = half or package.subdir
        return [
            other
            for other in self._pinning(package)
            if (other.name, other.subdir) == (name, subdir)
        ]

    @staticmethod
    def is_exact(spec: str, package: PackageScan) -> bool:
        """Whether a spec is for exactly this build."""
        index = package.info.index
        return _exact(spec) == (index.name, index.version, index.build)

    def closure(self, package: PackageScan) -> tuple[tuple[PackageScan, ...], frozenset[str]]:
        """The package, its owners and all their dependencies.

        And the names of dependencies that are not in the set.
        """
        if package.file not in self._closures:
            self._closures[package.file] = self._walk(package)
        return self._closures[package.file]

    def _walk(self, package: PackageScan) -> tuple[tuple[PackageScan, ...], frozenset[str]]:
        subdir = package.target_subdir
        seen = {package.file: package}
        outside: set[str] = set()
        queue = [package, *self.owners(package)]
        while queue:
            current = queue.pop()
            seen[current.file] = current
            for spec in current.info.index.depends:
                name = spec_name(spec)
                # Packages of other subdirs do not count: the base channel has those of this machine
                # alone.
                if all(
                    other.subdir not in (subdir or other.subdir, NOARCH)
                    for other, _ in self._named.get(name, ())
                ):
                    outside.add(name)
                queue.extend(
                    found for found in self.matching(spec, subdir) if found.file not in seen
                )
        return tuple(seen.values()), frozenset(outside)

    def constrained(self, package: PackageScan) -> tuple[PackageScan, ...]:
        """The packages in run constraints of a package and its owners, and their dependencies."""
        specs = {
            spec
            for stating in (package, *self.owners(package))
            for spec in stating.info.index.constrains
        }
        found = (
            other for spec in sorted(specs) for other in self.matching(spec, package.target_subdir)
        )
        return tuple(
            {
                reached.file: reached for other in found for reached in self.closure(other)[0]
            }.values()
        )

    def providers(self, package: PackageScan) -> tuple[tuple[PackageScan, ...], frozenset[str]]:
        """The packages that may have the libraries of a package, in the order of its dependencies.

        And the names of those of whose files not all are known. Packages in its run constraints
        count as well, since a module that needs them is imported where they are installed.
        """
        if package.file not in self._providers:
            reach, outside = self.closure(package)
            reach += self.constrained(package)
            # A package of the base channel may lack files of the real package that this machine
            # does not have, and one without files, such as its libzlib, stands for the machine's
            # own.
            lacking = {p.name for p in reach if not self.is_audited(p) or not any(p.installed())}
            self._providers[package.file] = reach, outside | lacking
        return self._providers[package.file]

    def companions(self, package: PackageScan) -> list[PackageScan]:
        """The closure of the package, and the closures of packages that pin exactly this build."""
        subdir = package.target_subdir
        pinning = (other for other in self._pinning(package) if other.subdir in (subdir, NOARCH))
        found = {
            other.file: other for start in (package, *pinning) for other in self.closure(start)[0]
        }
        return list(found.values())

    def _pinning(self, package: PackageScan) -> list[PackageScan]:
        """The packages that pin exactly this build."""
        index = package.info.index
        return self._by_pin.get((index.name, index.version, index.build), [])

    @cached_property
    def _by_pin(self) -> dict[tuple[str, ...], list[PackageScan]]:
        """Name, version and build -> the packages that pin exactly this build."""
        found: dict[tuple[str, ...], list[PackageScan]] = defaultdict(list)
        for package in self.all:
            for spec in package.info.index.depends:
                if len(parts := _exact(spec)) == 3:
                    found[parts].append(package)
        return found

    def places(self, package: PackageScan) -> frozenset[str]:
        """The paths of the package's files and their folders."""
        if package.file not in self._places:
            self._places[package.file] = frozenset(package.places())
        return self._places[package.file]

    def named(self, package: PackageScan, library: str) -> list[str]:
        """The paths of files and links of a name in a package; case is ignored for Windows."""
        if package.file not in self._files:
            names: dict[str, list[str]] = defaultdict(list)
            for file in package.installed():
                name = posixpath.basename(file.path)
                names[
                    name.lower() if name.lower().endswith((".dll", ".pyd", ".exe")) else name
                ].append(file.path)
            self._files[package.file] = names
        return self._files[package.file].get(
            library.lower() if library.lower().endswith(".dll") else library, []
        )

    def links_to(self, package: PackageScan, path: str) -> list[str]:
        """The links to a file, also through other links, in the package's closure."""
        reach, _ = self.closure(package)
        targets = {
            file.path: file.target
            for other in reach
            for file in other.installed()
            if file.kind == "link"
        }
        found, new = [], [path]
        while new:
            new = [link for link, target in targets.items() if target in new and link not in found]
            found += new
        return found

    def coexist(self, one: PackageScan, other: PackageScan, subdir: str) -> bool:
        """Whether two packages fit in one environment.

        Of each common dependency some build fits both.
        """
        wanted: dict[str, set[str]] = {i.info.index.name: {i.file} for i in (one, other)}
        for spec in (*one.info.index.depends, *other.info.index.depends):
            name = spec_name(spec)
            if name in self._named and is_spec(spec):
                found = {package.file for package in self.matching(spec, subdir)}
                wanted[name] = wanted.get(name, found) & found
        for spec in (*one.info.index.constrains, *other.info.index.constrains):
            name = spec_name(spec)
            if name in wanted and is_spec(spec):
                wanted[name] &= {package.file for package in self.matching(spec, subdir)}
        return all(wanted.values())

    @cached_property
    def subdirs(self) -> tuple[str, ...]:
        """The subdirs for which the set has packages."""
        found = {package.subdir for package in self.audited} - {NOARCH}
        return tuple(sorted(found or {package.half for package in self.audited} - {""})) or (
            "linux-64",
        )

    def environment(self, subdir: str) -> Iterator[PackageScan]:
        """The packages for environments of the subdir."""
        return (package for package in self.all if package.subdir in (subdir, NOARCH))


# noarch: python packages have site-packages/ and python-scripts/; the installer moves them to the
# Python's folders.
_SITE = re.compile(r"(lib/python3\.\d+t?|Lib)/site-packages/")
_SCRIPTS = re.compile(r"(python-scripts|bin|Scripts)/")


@check(
    PackageSet,
    fix="write build: {files: {exclude: FILE}} in one output, and let it depend on the other",
)
def FilesHaveOneOwner(packages: PackageSet) -> Iterator[Finding]:
    """No file is in two packages that fit in one environment; on Windows, case is ignored."""
    reported: set[frozenset[str]] = set()
    for subdir in packages.subdirs:
        by_file = {package.file: package for package in packages.environment(subdir)}
        shared: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path, holders in _holders(packages, subdir).items():
            for first, second in combinations(holders, 2):
                shared[first.file, second.file].append(path)
        for pair, paths in shared.items():
            first, second = (by_file[file] for file in pair)
            names = frozenset((first.name, second.name))
            if (
                len(names) == 2
                and names not in reported
                and packages.coexist(first, second, subdir)
            ):
                reported.add(names)
                more = _more_files(len(paths) - 1)
                yield at(
                    first,
                    min(paths),
                    f"also in {second.file_name}{more}; both can be installed in one environment",
                )


def _more_files(number: int) -> str:
    if not number:
        return ""
    verb = "is" if number == 1 else "are"
    return f", as {verb} {count(number, 'more file')}"


def _holders(packages: PackageSet, subdir: str) -> dict[str, list[PackageScan]]:
    """Path -> the packages with this file, for paths in several.

    At least one of them is under audit.
    """
    holders: dict[str, list[PackageScan]] = defaultdict(list)
    for package in packages.environment(subdir):
        for path in {_place(package, file.path, subdir) for file in package.installed()}:
            holders[path].append(package)
    return {
        path: sorted(found, key=lambda package: package.file)
        for path, found in holders.items()
        if len(found) > 1 and any(map(packages.is_audited, found))
    }


def _place(package: PackageScan, path: str, subdir: str) -> str:
    """The path to which the installer writes a file, without the version of Python.

    On Windows it is without case.
    """
    path = _SITE.sub("site-packages/", path)
    if package.info.index.noarch == "python":
        path = _SCRIPTS.sub("bin/" if not subdir.startswith("win-") else "Scripts/", path, count=1)
    return path.lower() if subdir.startswith("win-") else path


@check(
    PackageSet,
    fix=(
        "write run: ${{ pin_subpackage('NAME', exact=True) }}, with the target's package, or drop"
        " the link"
    ),
)
def LinksLeadSomewhere(packages: PackageSet) -> Iterator[Finding]:
    """The target of a link is in its package, in a dependency, or in a package that pins it.

    For example, the parts of the compiler pin each other.
    """
    for package in packages.audited:
        links = [
            file
            for file in package.installed()
            if file.kind == "link" and not file.link.startswith("/")
        ]
        if not links:
            continue
        there = [packages.places(other) for other in packages.companions(package)]
        for file in links:
            if not file.target.startswith("..") and not any(
                file.target in places for places in there
            ):
                yield at(
                    package,
                    file,
                    f"leads to {file.target}, which no package that is installed with it has",
                )


# glibc and the loader, which every system has on which conda packages are installed.
_GLIBC = r"lib(c|m|dl|pthread|rt|util)\.so\.\d+|ld-linux-(x86-64\.so\.2|aarch64\.so\.1)"
# Libraries of the driver, which the machine provides.
_LINUX_DRIVER = r"lib(cuda|nvidia-ml|cudla)\.so\.1"
_WINDOWS = (
    r"(kernel32|user32|advapi32|ole32|oleaut32|shell32|ws2_32|ntdll|gdi32|bcrypt|crypt32|setupapi"
    r"|cfgmgr32|version|dbghelp|psapi|imagehlp|wintrust|shlwapi|rpcrt4|secur32|winmm|userenv"
    r"|powrprof|iphlpapi|mswsock|msvcrt|normaliz)\.dll"
    r"|(api-ms-win-(core|security|eventing|service|base)|ext-ms)-.*\.dll"
)
_WINDOWS_DRIVER = r"(nvcuda|nvml)\.dll"

_SYSTEM = {
    "elf": re.compile(f"{_GLIBC}|{_LINUX_DRIVER}"),
    "pe": re.compile(f"{_WINDOWS}|{_WINDOWS_DRIVER}", re.IGNORECASE),
}

# On every system as well, and new enough for NVIDIA's manylinux builds.
COMPILER_RUNTIME = re.compile(r"libgcc_s\.so\.1|libstdc\+\+\.so\.6")

_UCRT = r"api-ms-win-crt-.*\.dll|ucrtbase\.dll"
_VCRUNTIME = r"vcruntime140(_1|_threads)?"
_MSVCP = r"msvcp140(_1|_2|_atomic_wait|_codecvt_ids)?"
_VC = rf"({_VCRUNTIME}|{_MSVCP}|concrt140|vccorlib140)\.dll|{_UCRT}"

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

_FFMPEG = "(avcodec|avdevice|avfilter|avformat|avutil|swresample|swscale)"
# (package, part of a path) -> library. These modules are imported only after the library was
# loaded, which neither an RPATH nor a dependency states.
OPTIONAL: Mapping[tuple[str, str], re.Pattern[str]] = {
    # Reads PyTorch tensors; imported after torch.
    ("cuda-core", "_tensor_bridge"): re.compile(r"torch_cpu\.dll", re.IGNORECASE),
    # On Windows torch loads the libraries in torch/lib before its module.
    ("pytorch", "/torch/_C."): re.compile(r"torch_python\.dll", re.IGNORECASE),
    # On Windows jax imports jaxlib/_jax.pyd first, which has this DLL beside it. A loaded DLL is
    # found by its name.
    ("jaxlib-files", "/_mlir_libs/"): re.compile(r"jax_common\.dll", re.IGNORECASE),
    # CuPy 13's module for cuDNN 8 is imported by who asks for cupy.cudnn.
    ("cupy-core-files", "/libs/cudnn."): re.compile(
        r"libcudnn\.so\.8|cudnn64_8\.dll", re.IGNORECASE
    ),
    # One module for each version of FFmpeg: the one whose libraries are installed is used, if any.
    ("torchcodec-files", "/libtorchcodec_"): re.compile(rf"lib{_FFMPEG}\.so\.\d+|libheif\.so\.1"),
    # The same on Windows. Torch, which loads its libraries, is imported before these modules.
    ("torchcodec", "/libtorchcodec_"): re.compile(
        rf"{_FFMPEG}-\d+\.dll|heif\.dll|torch_cpu\.dll", re.IGNORECASE
    ),
    ("torchaudio", "torchaudio.pyd"): re.compile(r"torch_cpu\.dll", re.IGNORECASE),
    ("torchvision", "_stable.pyd"): re.compile(r"torch_cpu\.dll", re.IGNORECASE),
}


# Folders of an environment in which Windows looks for DLLs, besides that of the program: conda adds
# them to PATH, and Python searches them for the DLLs of its modules.
_DLL_FOLDERS = frozenset({"", "Library/bin"})


@check(PackageSet, fix="write requirements: {run: NAME} for the package that has the library")
def NeededIsProvided(packages: PackageSet) -> Iterator[Finding]:
    """Each library that a binary needs is the system's or the driver's, or in a package.

    In its own package, or in a dependency.
    """
    for package, file, _, library in needs(packages):
        if not _places(packages, package, file, library):
            depends = (
                ", ".join(dict.fromkeys(map(spec_name, package.info.index.depends))) or "nothing"
            )
            yield at(
                package, file, f"needs {library}, which is not in {depends} or their dependencies"
            )


@check(
    PackageSet,
    fix="write rpath FILE '$ORIGIN' in the recipe's script; move DLLs to Library/bin",
)
def NeededIsFound(packages: PackageSet) -> Iterator[Finding]:
    """The loader finds each needed library: by the RPATH, or where Python or Windows search.

    On Windows these include the folders that a module of the package adds with
    ``os.add_dll_directory``. A library that relies on the RPATH of the loading program works in
    some programs only. For the compiler's runtime this is a hint, since the loader takes the
    system's copy.
    """
    for package, file, binary, library in needs(packages):
        places = _places(packages, package, file, library)
        folders = _loader_folders(packages, package, file, binary)
        if places and not any(posixpath.dirname(place) in folders for place in places):
            looked = (
                ", ".join(f"{folder}/" for folder in sorted(folders))
                or "no folder of the environment"
            )
            message = f"needs {library} ({places[0]}); the loader looks in {looked}"
            yield at(package, file, message, "hint" if COMPILER_RUNTIME.fullmatch(library) else "")


def needs(packages: PackageSet) -> Iterator[tuple[PackageScan, ScannedFile, Binary, str]]:
    """The needed libraries of all binaries under audit that an environment must provide."""
    for package in packages.audited:
        for file, binary in binaries(package):
            for library in dict.fromkeys((*binary.needed, *binary.delayed)):
                optional = any(
                    package.name == owner and name in file.path and pattern.fullmatch(library)
                    for (owner, name), pattern in OPTIONAL.items()
                )
                if not optional and not _SYSTEM[binary.format].fullmatch(library):
                    yield package, file, binary, library


def _places(
    packages: PackageSet, package: PackageScan, file: ScannedFile, library: str
) -> list[str]:
    """The paths of a library in the environments of a package, in the order of its dependencies."""
    reach, outside = packages.providers(package)
    places = [path for other in reach for path in packages.named(other, library)]
    known = [name for name in outside if name in EXTERNAL and EXTERNAL[name].fullmatch(library)]
    windows = file.binary is not None and file.binary.format == "pe"
    return places + [f"Library/bin/{library}" if windows else f"lib/{library}" for _ in known]


def _loader_folders(
    packages: PackageSet, package: PackageScan, file: ScannedFile, binary: Binary
) -> set[str]:
    here = posixpath.dirname(file.path)
    if binary.format == "pe":
        # Folders that a module of the package adds, as __init__.py does after the repair of a
        # wheel.
        added = {name for other in package.installed() for name in other.dll_folders}
        folders = {
            posixpath.dirname(other.path)
            for other in package.installed()
            if other.path.endswith(".dll")
        }
        return {
            here,
            *_DLL_FOLDERS,
            *(folder for folder in folders if posixpath.basename(folder) in added),
        }
    # $ORIGIN is the folder of the name by which a library was opened, so each link to it adds a
    # folder.
    names = [file.path, *packages.links_to(package, file.path)] if binary.search else []
    folders = {folder for name in names for folder in search_folders(name, binary)}
    # conda's Python searches its lib for everything that its modules load.
    return folders | ({"lib"} if "site-packages/" in file.path else set())


@check(
    PackageSet,
    fix="write run: '__glibc >=X.Y,<3.0.a0', with X.Y from the measured facts of the release",
)
def GlibcIsDeclared(packages: PackageSet) -> Iterator[Finding]:
    """No ELF file needs a newer glibc than the ``__glibc`` floor of the package and its owners.

    The floor is in their dependencies. The versions of symbols state the needed glibc. A symbol
    without a version that moved to libc.so.6 in 2.34 needs 2.34, unless a library that is loaded
    with the file needs the old library of the symbol; see libcutensorMg.
    """
    for package in packages.audited:
        reach, _ = packages.closure(package)
        named = partial(_binaries_named, packages, reach)
        files = [(file.path, oldest_glibc(binary, named)) for file, binary in binaries(package)]
        file, highest = max(
            files, key=lambda need: (version_key(need[1]), need[0]), default=("", "")
        )
        if not highest:
            continue
        floor = _glibc_floor(packages, package)
        if not floor:
            yield at(package, file, f"needs glibc {highest}; no __glibc floor is declared")
        elif version_key(highest) > version_key(floor):
            yield at(package, file, f"needs glibc {highest}, above the declared floor {floor}")


def _binaries_named(
    packages: PackageSet, reach: Sequence[PackageScan], name: str
) -> Iterator[Binary]:
    """The libraries of a name in the given packages."""
    for package in reach:
        paths = packages.named(package, name)
        yield from (
            binary for file, binary in (binaries(package) if paths else ()) if file.path in paths
        )


def _glibc_floor(packages: PackageSet, package: PackageScan) -> str:
    """The highest floor that is in force wherever the package is installed, or ""."""
    certain = _glibc_floors(package)
    for spec in package.info.index.depends:
        for other in packages.matching(spec, package.target_subdir):
            certain += _glibc_floors(other) if packages.is_exact(spec, other) else []
    owners = packages.owners(package)
    if owners and all(_glibc_floors(owner) for owner in owners):
        certain.append(
            min((max(_glibc_floors(owner), key=version_key) for owner in owners), key=version_key)
        )
    return max(certain, key=version_key, default="")


def _glibc_floors(package: PackageScan) -> list[str]:
    floor = glibc_floor(package.info.index.depends)
    return [floor] if floor else []


@check(
    PackageSet,
    fix="write run_constraints: __cuda_arch ${{ COMPONENT_gpus }}, a variant key of the release",
)
def CodeIsForItsGpus(packages: PackageSet) -> Iterator[Finding]:
    """A package can be installed only for GPUs for which all its libraries have code."""
    known = Known.of_toolkits(package.info.index for package in packages.all)
    for package in packages.audited:
        mistake = _subject(package, known).mistake
        if mistake:
            yield at(package, "", mistake.cause)


def _subject(package: PackageScan, known: Known) -> Subject:
    """A package as `ctk gpu-code` judges it.

    A built package has the code of its files. A planned one has for each file only the GPUs that
    its code runs on, since `variants/contents.json` notes no more.
    """
    files = list(package.installed())
    return Subject(
        package.name,
        "package",
        {file.path: file.code for file in files if file.code},
        package.info.index,
        package.target_subdir,
        tuple(file.gpus for file in files if file.gpus),
        known=known,
    )
