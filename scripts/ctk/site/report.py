"""The pages of picks, toolkit releases and packages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.build import sbom
from ctk.build.one import machine_paths
from ctk.build.originals import NO_FILES, PackageFiles
from ctk.core.errors import AuditFailed, CtkError
from ctk.lock.components import load_exclusions
from ctk.lock.redistribution import WORDS
from ctk.package.reader import PathEntry, read_info
from ctk.package.scan import Scanner
from ctk.release import facts_rows
from ctk.site.answers import is_half
from ctk.site.pages import IndexedPackage, Page, Site, render
from ctk.solve import channels
from ctk.verify.table import REQUEST, ask, merged

_OPERATORS = {">=": "from", "<=": "up to", "<": "before", ">": "after", "==": ""}
_FIT = re.compile(r"^cuda-version .*\b(native|compat)_\*$")


class HeatMap(NamedTuple):
    """The picks for a platform: headings, and rows of a driver and its cells."""

    platform: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def picks(site: Site) -> Iterator[Page]:
    """The toolkit for each driver and GPU; without a solver's answer, the page says why."""
    maps: list[HeatMap] = []
    problem = ""
    if site.platforms and any(lock.facts for lock in site.releases):  # the facts have the GPUs
        try:
            # Some hundred solves for each platform of the channel, which take a second or two.
            with TemporaryDirectory(prefix="ctk-site-") as folder:
                folders = channels.write(channels.built(site.channel), Path(folder)).folders
                for platform in site.platforms:
                    heads, rows = merged(ask(folders, site.releases, platform))
                    maps.append(HeatMap(platform, heads, [(driver, cells) for driver, *cells in rows]))
        except CtkError as error:
            problem = f"{error.cause}. {error.step}".strip()
    description = f"The toolkit that a solver picks for {REQUEST}, for each driver and GPU."
    values: dict[str, Any] = {"request": REQUEST, "maps": maps, "problem": problem}
    yield render(site, "picks.html", title="Which toolkit a machine gets", description=description, **values)


def releases(site: Site) -> Iterator[Page]:
    """The list of CTK releases, newest first."""
    built = {entry.index.version for entry in site.packages.get("cuda-version", ())}
    rows = [
        (*facts, len(lock.components), lock.minor in built)
        for lock, facts in zip(site.releases, facts_rows(site.releases), strict=True)
    ]
    described = "Every release that is locked here, and what was measured from its binaries."
    yield render(site, "releases.html", title="CUDA Toolkit releases", description=described, releases=rows[::-1])


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
        return next((match[1] for spec in self.entry.index.depends if (match := _FIT.match(spec))), "")


def packages(site: Site) -> Iterator[Page]:
    """The list of packages, a page for each name, SBOMs and licence texts."""
    builds = {name: [read_metadata(entry, site) for entry in own] for name, own in site.packages.items()}
    every = [build for own in builds.values() for build in own]
    listed = load_exclusions(site.workspace)
    yield from (Page(build.sbom_path, build.sbom) for build in every if build.sbom)
    yield render(
        site,
        "packages.html",
        title="Packages",
        description="Every package of the channel: versions, sizes, files, dependencies, licences and SBOMs.",
        rows=[
            (name, own[0].entry, sorted({build.entry.index.subdir for build in own}), own[0].summary)
            for name, own in builds.items()
        ],
        total=sum(entry.size for entry in site.entries),
        excluded=[(e.component, _in_words(e.releases), e.reason) for e in listed.excluded],
        unpublished=[(e.name, _in_words(e.releases), e.reason) for e in listed.unpublished],
    )
    users: dict[str, set[str]] = {}
    for entry in site.entries:
        for spec in entry.index.depends:
            users.setdefault(spec.partition(" ")[0], set()).add(entry.name)
    for name, own in builds.items():
        yield _package_page(site, name, own, sorted(users.get(name, set()) - {name}))
    licences = {text.path: text.content for build in every for text in build.licences}
    yield from (Page(path, text) for path, text in sorted(licences.items()))


def _package_page(site: Site, name: str, builds: Sequence[PackageBuild], users: Sequence[str]) -> Page:
    """The page of a package; `builds` are newest first, `users` are the packages that depend on it."""
    newest = builds[0]
    shown: dict[str, PackageBuild] = {}
    for build in builds:
        shown.setdefault(build.entry.index.subdir, build)
    return render(
        site,
        f"packages/{name}.html",
        "package.html",
        title=name,
        description=newest.summary or f"Builds, files and dependencies of {name}.",
        builds=builds,
        by_name=not is_half(name),
        newest=newest,
        platforms=sorted({build.entry.index.subdir for build in builds}),
        users=users,
        licences=list({text.path: text for text in newest.licences}.values()),
        shown=shown.values(),
        words=WORDS,
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
    texts = (f"{_OPERATORS.get(part.operator, part.operator)} {part.version}".strip() for part in ordered)
    return ", ".join(texts) or "all"
