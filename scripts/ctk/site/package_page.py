"""The page of one package: its builds, and what the newest of them says and holds."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctk.package.package import PathEntry
from ctk.site.content import Entry, Site
from ctk.site.inside import Inside
from ctk.site.page import Page, render

_FIT = re.compile(r"^cuda-version .*\b(native|compat)_\*$")
FOLDERS = 12  # at most, in the summary of a package's files


@dataclass(frozen=True)
class Build:
    """One file of the package.

    Attributes:
        entry: What the index says.
        inside: What the file says.
        fit: ``native`` or ``compat``; "" for what exists in one build only.
        sbom: Path of its SBOM in the site, "" without one.
    """

    entry: Entry
    inside: Inside
    fit: str
    sbom: str


@dataclass(frozen=True)
class Need:
    """A requirement.

    Attributes:
        name: What is required.
        rest: Version and build, "" for any.
        known: Whether this channel has it.
    """

    name: str
    rest: str
    known: bool


@dataclass(frozen=True)
class Holding:
    """What the newest build for one platform installs.

    Attributes:
        folders: Folder -> how many files are below it, and their bytes; the fullest first.
        files: All of them.
    """

    build: Build
    folders: Sequence[tuple[str, int, int]]
    files: tuple[PathEntry, ...]


def package_page(site: Site, name: str, files: Mapping[Entry, Inside], users: Sequence[str]) -> Page:
    """The page of a package.

    Args:
        site: All of the channel, for links to other packages.
        name: Of the package.
        files: Its files, newest first, with what they say.
        users: Packages that depend on it.
    """
    builds = [
        Build(entry, inside, fit(entry), sbom_path(entry) if inside.sbom else "") for entry, inside in files.items()
    ]
    newest = builds[0]
    index = newest.entry.index
    return render(
        site,
        f"packages/{name}.html",
        "package.html",
        title=name,
        description=newest.inside.summary or f"Builds, files and dependencies of {name}.",
        builds=builds,
        newest=newest,
        versions=list(dict.fromkeys(build.entry.index.version for build in builds)),
        platforms=sorted({build.entry.index.subdir for build in builds}),
        depends=[_need(spec, site) for spec in index.depends],
        constrains=[_need(spec, site) for spec in index.constrains],
        users=users,
        licences=list({text.path: text for text in newest.inside.licences}.values()),
        holdings=list(_holdings(builds)),
        problems=[build.inside.problem for build in builds if build.inside.problem and not site.planned],
    )


def fit(entry: Entry) -> str:
    """Which of the two builds it is, by what it depends on; ``cuda-version`` itself says so in its build."""
    if entry.name == "cuda-version":
        return entry.index.build.partition("_")[0]
    return next((match[1] for spec in entry.index.depends if (match := _FIT.match(spec))), "")


def sbom_path(entry: Entry) -> str:
    """Of the copy in the site."""
    return f"sboms/{entry.index.subdir}/{entry.file.removesuffix('.conda')}.cdx.json"


def _need(spec: str, site: Site) -> Need:
    name, _, rest = spec.partition(" ")
    return Need(name, rest, name in site.packages)


def _holdings(builds: Sequence[Build]) -> Iterator[Holding]:
    seen: set[str] = set()
    for build in builds:  # newest first
        subdir = build.entry.index.subdir
        if subdir not in seen and not build.inside.problem:
            seen.add(subdir)
            yield Holding(build, folders(build.inside.files), build.inside.files)


def folders(files: Sequence[PathEntry]) -> list[tuple[str, int, int]]:
    """Folders with the files below them, as deep as a short list allows."""
    found: dict[str, tuple[int, int]] = {}
    for depth in range(8, 0, -1):
        found = {}
        for file in files:
            folder = "/".join(posixpath.dirname(file.path).split("/")[:depth])
            count, size = found.get(folder, (0, 0))
            found[folder] = count + 1, size + file.size
        if len(found) <= FOLDERS:
            break
    rows = sorted(((folder or ".", *both) for folder, both in found.items()), key=lambda row: (-row[1], row[0]))
    if len(rows) > FOLDERS:
        others = rows[FOLDERS - 1 :]
        rows[FOLDERS - 1 :] = [("other folders", sum(row[1] for row in others), sum(row[2] for row in others))]
    return rows
