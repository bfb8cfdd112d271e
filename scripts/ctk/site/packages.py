"""The pages of packages: the list of all, one page for each name, SBOMs and licence texts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ctk.build.one import machine_paths
from ctk.lock.components import load_exclusions
from ctk.package.reader import PathEntry, read_info
from ctk.package.scan import Scanner
from ctk.site.answers import is_half
from ctk.site.content import IndexedPackage, Site
from ctk.site.pages import Page, render

_OPERATORS = {">=": "from", "<=": "up to", "<": "before", ">": "after", "==": ""}
_FIT = re.compile(r"^cuda-version .*\b(native|compat)_\*$")


class LicenceText(NamedTuple):
    """A text under ``info/licenses``, by its path there."""

    name: str
    content: bytes

    @property
    def path(self) -> str:
        """Of the copy in the site: one for each content."""
        return f"licences/{hashlib.sha256(self.content).hexdigest()[:16]}.txt"


@dataclass(frozen=True)
class PackageBuild:
    """One file of a package: its record in the index, and its own metadata."""

    entry: IndexedPackage
    summary: str = ""
    home: str = ""  # address of the project
    files: tuple[PathEntry, ...] = ()
    run_exports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    licences: tuple[LicenceText, ...] = ()
    sbom: bytes = field(default=b"", repr=False)

    @property
    def installed(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def sbom_path(self) -> str:
        """Of the copy in the site; "" without an SBOM."""
        name = self.entry.file.removesuffix(".conda")
        return f"sboms/{self.entry.index.subdir}/{name}.cdx.json" if self.sbom else ""

    @property
    def fit(self) -> str:
        """``native`` or ``compat``; "" for what exists in one build only."""
        if self.entry.name == "cuda-version":
            return self.entry.index.build.partition("_")[0]
        return next((match[1] for spec in self.entry.index.depends if (match := _FIT.match(spec))), "")


def pages(site: Site) -> Iterator[Page]:
    """The list, a page for each name, and beside them SBOMs and licence texts."""
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
    """The page of a package, of its builds, newest first, and the packages that depend on it."""
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
    )


def read_metadata(entry: IndexedPackage, site: Site) -> PackageBuild:
    """The metadata inside a package, as the audit kept it."""
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
    """A line of a package's own words; some have several texts, or none."""
    first = value[0] if isinstance(value, list) and value else value
    return " ".join(first.split()) if isinstance(first, str) else ""


def _in_words(releases: SpecifierSet) -> str:
    """``<12.3`` as ``before 12.3``."""
    ordered = sorted(releases, key=lambda part: Version(part.version.removesuffix(".*")))
    texts = (f"{_OPERATORS.get(part.operator, part.operator)} {part.version}".strip() for part in ordered)
    return ", ".join(texts) or "all"
