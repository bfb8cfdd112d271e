"""The page about the channel, and the pages of packages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.build import sbom
from ctk.build.one import machine_paths
from ctk.build.originals import NO_FILES, PackageFiles
from ctk.channel.bill import BILL
from ctk.core.errors import AuditFailed, CtkError
from ctk.core.platforms import NOARCH
from ctk.lock.components import load_exclusions
from ctk.lock.redistribution import WORDS
from ctk.package.reader import PathEntry, read_info
from ctk.package.records import REPODATA, python_of
from ctk.package.scan import Scanner
from ctk.release import facts_rows
from ctk.site.answers import floor, is_half, without_cuda
from ctk.site.pages import WANTED, IndexedPackage, Page, Site, commands, part_of, render
from ctk.solve import channels
from ctk.solve.machine import gpu_names
from ctk.solve.solve import ANY_DRIVER, ASKING, Catalogue, Scenario
from ctk.solve.why import NO_NVCC, refused_ptx
from ctk.verify.table import REQUEST, ask, merged

_OPERATORS = {">=": "from", "<=": "up to", "<": "before", ">": "after", "==": ""}
_OLDEST_MAJOR = 12  # of the toolkits that have wheels
_FIT = re.compile(r"^cuda-version .*\b(native|compat)_\*$")
_CUDA = re.compile(r"^cuda-version >=(\d+)(?:\.(\d+))?[^,]*,<(\d+)(?:\.(\d+))?")


class HeatMap(NamedTuple):
    """The picks for platforms that get the same: headings, and rows of a driver and its cells."""

    platforms: Sequence[str]
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


class OldGpu(NamedTuple):
    """What a command needs for GPUs that clients do not see, and the newest toolkits do not know.

    Attributes:
        oldest: The oldest GPU of the newest toolkits.
        example: The name of an older one; "" if none is known.
        major: The CUDA major that is for older ones.
    """

    oldest: str
    example: str
    major: str


class Solved(NamedTuple):
    """The solver's answers for these pages."""

    maps: Sequence[HeatMap] = ()
    downloads: Mapping[
        str, int
    ] = {}  # package -> bytes of it and of what it needs from this channel
    without_cuda: Collection[str] = ()  # packages with which nobody needs to ask for CUDA
    older: Mapping[str, OldGpu] = {}  # package -> the pin that it needs for an old GPU
    exceptions: Mapping[str, str] = {}  # toolkit -> the newer driver that PTX of nvJitLink needs
    problem: str = ""  # why there are none


def solve(site: Site) -> Solved:
    """Asks the solver: some hundred solves for each platform, which take a second or two."""
    if not site.platforms:
        return Solved()
    maps: dict[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], list[str]] = {}
    downloads: dict[str, int] = {}
    bare: set[str] = set()
    older: dict[str, OldGpu] = {}
    exceptions: dict[str, str] = {}
    measured = any(lock.facts for lock in site.releases)  # the facts have the GPUs
    try:
        with TemporaryDirectory(prefix="ctk-site-") as folder:
            folders = channels.write(channels.built(site.channel), Path(folder)).folders
            for platform in site.platforms:
                catalogue = Catalogue(folders, platform)
                names = sorted(catalogue.own_names - downloads.keys())
                grouped = catalogue.grouped(names)
                bare.update(without_cuda(names, grouped))
                downloads |= _downloads(site, grouped, names)
                exceptions |= _exceptions(Catalogue(folders, platform))
                older |= _older(grouped, set(names) - bare)
                if measured:
                    heads, rows = merged(ask(folders, site.releases, platform))
                    maps.setdefault((heads, tuple(rows)), []).append(platform)
    except CtkError as error:
        return Solved(problem=f"{error.cause}. {error.step}".strip())
    found = [
        HeatMap(alike, heads, [(d, cells) for d, *cells in rows])
        for (heads, rows), alike in maps.items()
    ]
    return Solved(found, downloads, bare, older, exceptions)


def _downloads(site: Site, catalogue: Catalogue, names: Iterable[str]) -> dict[str, int]:
    """`Solved.downloads` of these packages, on a machine with a driver for everything.

    Not of those without a pick.
    """
    sizes = {(entry.index.subdir, entry.file): entry.size for entry in site.entries}
    wanted = {name: Scenario((name,), catalogue.subdir, ANY_DRIVER) for name in names}
    catalogue.ask(wanted.values())
    picks = {name: pick for name, scenario in wanted.items() if (pick := catalogue.pick(scenario))}
    return {
        n: sum(sizes.get((r.subdir, r.file_name), 0) for r in pick.records)
        for n, pick in picks.items()
    }


def _older(catalogue: Catalogue, names: Collection[str]) -> dict[str, OldGpu]:
    """`Solved.older` of these packages: those that have a solution with the older CUDA major."""
    found = floor(catalogue.toolkits)
    if found is None:
        return {}
    oldest, major = found
    before = [name for name, gpu in gpu_names().items() if Version(gpu) < Version(oldest)]
    example = next((name for name in before if not name.startswith("Jetson")), "")
    old = OldGpu(oldest, example, major)
    wanted = {
        name: Scenario((name, f"cuda-version={major}"), catalogue.subdir, ANY_DRIVER)
        for name in names
    }
    catalogue.ask(wanted.values())
    return {name: old for name, scenario in wanted.items() if catalogue.pick(scenario)}


def about(site: Site, solved: Solved) -> Iterator[Page]:
    """The channel: what it has and has not, the toolkit for each driver and GPU, CTK releases."""
    built = {entry.index.version for entry in site.packages.get("cuda-version", ())}
    rows = [
        (*facts, lock.minor in built)
        for lock, facts in zip(site.releases, facts_rows(site.releases), strict=True)
    ]
    listed = load_exclusions(site.workspace)
    yield render(
        site,
        "about.html",
        title="About this channel",
        description=(
            "What it has, which CUDA Toolkit a machine gets from it, and what was measured."
        ),
        request=REQUEST,
        no_nvcc=NO_NVCC if "cuda-nvcc" in site.packages else "",
        solved=solved,
        releases=rows[::-1],
        files=_for_programs(site),
        total=sum(entry.size for entry in site.entries),
        newest=max((entry.index.timestamp for entry in site.entries), default=0),
        excluded=[(e.component, _in_words(e.releases), e.reason) for e in listed.excluded],
        unpublished=[(e.name, _in_words(e.releases), e.reason) for e in listed.unpublished],
    )


def _exceptions(catalogue: Catalogue) -> dict[str, str]:
    """`Solved.exceptions`: what `refused_ptx` is about, with the driver of each toolkit."""
    found: dict[str, str] = {}
    for toolkit in catalogue.toolkits:
        specs = (*REQUEST.split(), f"cuda-version={toolkit.version}")
        pick = catalogue.pick(Scenario(specs, catalogue.subdir, toolkit.version))
        if pick and refused_ptx(pick.records, toolkit.version):
            found[toolkit.version] = ".".join(pick.version("libnvjitlink").split(".")[:2])
    return found


def _for_programs(site: Site) -> list[tuple[str, str]]:
    """The files of the channel that programs read: each with its address."""
    address = site.channels[0] if site.channels else ""
    if "://" not in address:
        return []
    files = [f"{subdir}/{REPODATA}" for subdir in (*site.platforms, NOARCH)]
    if address.startswith("http") or (site.channel / BILL).is_file():  # publishing makes it
        files.insert(0, BILL)
    return [(file, f"{address.rstrip('/')}/{file}") for file in files]


# Packages


class LicenceText(NamedTuple):
    """A text under ``info/licenses``, with its path there."""

    name: str
    content: bytes

    @property
    def path(self) -> str:
        """The path of the copy in the site, by content."""
        return f"licences/{hashlib.sha256(self.content).hexdigest()[:16]}.txt"


@dataclass(frozen=True)
class PackageBuild:
    """A package file: its record in the index, and its own metadata."""

    entry: IndexedPackage
    summary: str = ""
    home: str = ""  # address of the project
    files: tuple[PathEntry, ...] = ()
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    licences: tuple[LicenceText, ...] = ()
    sbom: bytes = field(default=b"", repr=False)

    @property
    def installed(self) -> int:
        """The size of the files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def sbom_path(self) -> str:
        """The path of the SBOM in the site, or ""."""
        name = self.entry.file.removesuffix(".conda")
        return f"sboms/{self.entry.index.subdir}/{name}.cdx.json" if self.sbom else ""

    @property
    def origin(self) -> PackageFiles:
        """Its files that come from wheels; none where its SBOM is not ours."""
        with suppress(AuditFailed):
            return sbom.read(self.sbom).files
        return NO_FILES

    @property
    def fit(self) -> str:
        """``native`` or ``compat``; "" for a package without these builds."""
        if self.entry.name == "cuda-version":
            return self.entry.index.build.partition("_")[0]
        return self._required(_FIT)

    @property
    def cuda(self) -> str:
        """The CUDA versions that it is for: ``13.4``, ``12.0 to 12.3``, ``12``.

        "" for every version.
        """
        if self.entry.name == "cuda-version":
            return self.entry.index.version
        spec = next((s for s in self.entry.index.depends if s.startswith("cuda-version ")), "")
        if not (match := _CUDA.match(spec)):
            return ""
        major, first, end_major, end = match.groups()
        if end_major != major:
            return f"{major}.{first} or newer" if first and first != "0" else major
        last = int(end or 0) - 1
        return (
            f"{major}.{last}"
            if int(first or 0) == last
            else f"{major}.{first or 0} to {major}.{last}"
        )

    @property
    def python(self) -> str:
        """The Python that it is for: ``3.14t``; "" for every Python, or none."""
        return python_of(self.entry.index.depends)

    def _required(self, spec: re.Pattern[str]) -> str:
        """The groups of the first dependency that matches."""
        return next(
            (
                "".join(match.groups(""))
                for s in self.entry.index.depends
                if (match := spec.match(s))
            ),
            "",
        )


class ListedPackage(NamedTuple):
    """A row of the list of packages."""

    build: PackageBuild  # the newest
    platforms: Sequence[str]
    versions: Sequence[str]  # newest first
    parts: Sequence[str]  # packages that it brings, and that nobody installs by name


class CudaRow(NamedTuple):
    """The builds of a package for the same CUDA."""

    version: str
    cuda: str
    pythons: Sequence[str]
    platforms: Sequence[str]
    timestamp: int


def packages(site: Site, solved: Solved) -> Iterator[Page]:
    """The list of packages, a page for each name, SBOMs and licence texts."""
    builds = {
        name: [read_metadata(entry, site) for entry in own] for name, own in site.packages.items()
    }
    every = [build for own in builds.values() for build in own]
    yield from (Page(build.sbom_path, build.sbom) for build in every if build.sbom)
    yield render(
        site,
        "packages.html",
        title="Packages",
        description=(
            "Each package has a page with its command, versions, dependencies, licences and files."
        ),
        rows=_listed(builds),
        downloads=solved.downloads,
    )
    users: dict[str, set[str]] = {}
    for entry in site.entries:
        for spec in entry.index.depends:
            users.setdefault(spec.partition(" ")[0], set()).add(entry.name)
    for name, own in builds.items():
        yield _package_page(
            site,
            own,
            sorted(users.get(name, set()) - {name}),
            solved.downloads.get(name, own[0].entry.size),
            asks=site.asks if name not in (*ASKING, *solved.without_cuda) else "",
            old=solved.older.get(name),
            has_exceptions=bool(solved.exceptions),
        )
    licences = {text.path: text.content for build in every for text in build.licences}
    yield from (Page(path, text) for path, text in sorted(licences.items()))


def _listed(builds: Mapping[str, Sequence[PackageBuild]]) -> list[ListedPackage]:
    """The rows of the list: parts are in the row of the package that brings them."""
    parts: dict[str, list[str]] = {}
    for name in builds:
        parts.setdefault(part_of(name, builds), []).append(name)
    return [
        ListedPackage(
            builds[name][0],
            sorted({build.entry.index.subdir for build in builds[name]}),
            list(dict.fromkeys(build.entry.index.version for build in builds[name])),
            [part for part in own if part != name],
        )
        for name, own in sorted(parts.items(), key=_place)
    ]


def _place(row: tuple[str, Sequence[str]]) -> tuple[bool, str]:
    """Where a row of the list is, by its name: those that most readers come for are first."""
    name, _ = row
    return name not in WANTED, name


def _needed_driver(builds: Iterable[PackageBuild]) -> str:
    """The CUDA version that a driver has to support for the oldest builds.

    "" for the oldest CUDA major and for builds that are for every CUDA.
    """
    majors = {build.cuda.split(".")[0].split(" ")[0] for build in builds}
    if "" in majors:
        return ""
    oldest = min(majors, key=int)
    return f"{oldest}.0" if int(oldest) > _OLDEST_MAJOR else ""


def _package_page(
    site: Site,
    builds: Sequence[PackageBuild],
    users: Sequence[str],
    download: int,
    asks: str,
    old: OldGpu | None,
    has_exceptions: bool,
) -> Page:
    """The page of a package.

    `builds` are newest first, `users` are the packages that depend on it, `asks` is what its
    command requests besides it, and `old` what it needs for an old GPU.
    `has_exceptions` says whether `Solved.exceptions` has some.
    """
    newest = builds[0]
    name = newest.entry.name
    shown: dict[str, PackageBuild] = {}
    rows: dict[tuple[str, str], list[PackageBuild]] = {}
    for build in builds:
        shown.setdefault(build.entry.index.subdir, build)
        rows.setdefault((build.entry.index.version, build.cuda), []).append(build)
    return render(
        site,
        f"packages/{name}.html",
        "package.html",
        title=name,
        description=newest.summary or f"Builds, files and dependencies of {name}.",
        builds=builds,
        needs_driver=_needed_driver(builds),
        commands=commands(site, name, asks) if site.channels and not is_half(name) else {},
        asks=asks,
        old=old,
        has_exceptions=has_exceptions,
        newest=newest,
        download=download,
        rows=[_cuda_row(*key, same) for key, same in rows.items()],
        platforms=sorted({build.entry.index.subdir for build in builds}),
        users=users,
        licences=list({text.path: text for text in newest.licences}.values()),
        shown=shown.values(),
        words=WORDS,
    )


def _cuda_row(version: str, cuda: str, builds: Sequence[PackageBuild]) -> CudaRow:
    return CudaRow(
        version,
        cuda,
        sorted(
            {build.python for build in builds} - {""}, key=lambda p: (Version(p.rstrip("t")), p)
        ),
        sorted({build.entry.index.subdir for build in builds}),
        max(build.entry.index.timestamp for build in builds),
    )


def read_metadata(entry: IndexedPackage, site: Site) -> PackageBuild:
    """The metadata of a package, from the audit's cache if it is there."""
    scanner = Scanner(machine_paths(site.workspace), site.workspace.notes)
    kept = scanner.note(site.workspace.notes, entry.sha256).read()
    info = kept.info if kept else read_info(entry.path)
    return PackageBuild(
        entry,
        _text(info.about.get("summary")),
        _text(info.about.get("home")) or _text(info.about.get("dev_url")),
        info.paths,
        info.run_exports,
        tuple(LicenceText(name, text) for name, text in sorted(info.licenses.items())),
        next(iter(info.sboms.values()), b""),
    )


def _text(value: object) -> str:
    """A text of ``about.json`` as a line; the first text of a list; "" for other values."""
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(first.split()) if isinstance(first, str) else ""


def _in_words(releases: SpecifierSet) -> str:
    """``<12.3`` as ``before 12.3``."""
    ordered = sorted(releases, key=lambda part: Version(part.version.removesuffix(".*")))
    texts = (
        f"{_OPERATORS.get(part.operator, part.operator)} {part.version}".strip() for part in ordered
    )
    return ", ".join(texts) or "all"
